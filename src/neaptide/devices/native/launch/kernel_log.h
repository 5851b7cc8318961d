// A light record of every kernel, in a ring: what it was, when it was launched, ran and ended, what memory moved.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace neaptide {

/// One kernel. Times are on the steady clock.
struct KernelRecord {
  const std::string* name = nullptr;  // of the operator; lives as long as the process
  std::uint64_t signature = 0;        // hash of operator, shapes and types: equal for equal kernels
  std::uint64_t launch_ns = 0;
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint64_t taken_bytes = 0;    // allocated since the launch before this one
  std::uint64_t given_bytes = 0;    // freed since then
  std::uint64_t scratch_bytes = 0;  // most that the kernel was seen to use inside
  std::uint32_t stream = 0;
  std::uint32_t width = 0;
};

/// Bytes of device memory that the program has taken and given back so far.
struct Traffic {
  std::uint64_t taken = 0;
  std::uint64_t given = 0;
};

/// Writers are the stream workers; start(), stop() and read() belong to a thread that has synchronized the device.
class KernelLog {
 public:
  bool enabled() const { return enabled_.load(std::memory_order_relaxed); }
  /// Forgets what was kept and keeps the last `records` from now on.
  void start(std::size_t records, Traffic now);
  void stop() { enabled_.store(false); }
  /// What is kept, oldest first. Changes nothing.
  std::vector<KernelRecord> read() const;
  /// Kernels that fell out of the ring since start().
  std::uint64_t dropped() const;

  /// What moved between the logged launch before and now. Launches on several threads share it out among them.
  Traffic moved_since_last(Traffic now) {
    return {now.taken - taken_.exchange(now.taken), now.given - given_.exchange(now.given)};
  }

  void write(const KernelRecord& record) {
    ring_[next_.fetch_add(1, std::memory_order_relaxed) % ring_.size()] = record;
  }

 private:
  std::atomic<bool> enabled_{false};
  std::atomic<std::uint64_t> next_{0};
  std::atomic<std::uint64_t> taken_{0};
  std::atomic<std::uint64_t> given_{0};
  std::vector<KernelRecord> ring_;
};

}  // namespace neaptide
