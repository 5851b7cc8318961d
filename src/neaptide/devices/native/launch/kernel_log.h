// A light record of every kernel, in a ring: what it was, when it was launched, ran and ended, what memory moved.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
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
  std::uint64_t needed_bytes = 0;   // in live blocks when it was launched, its own included
  std::uint64_t held_bytes = 0;     // leased at that moment, or over the link
  std::uint64_t scratch_bytes = 0;  // most that the kernel was seen to use inside
  std::uint32_t stream = 0;
  std::uint32_t width = 0;
};

/// Writers are the stream workers. A thread that has synchronized the device reads every kernel launched before.
class KernelLog {
 public:
  bool enabled() const { return enabled_.load(std::memory_order_relaxed); }
  /// Forgets what was kept and keeps the last `records` from now on.
  void start(std::size_t records);
  void stop() { enabled_.store(false); }
  /// What is kept, oldest first. Changes nothing.
  std::vector<KernelRecord> read() const;
  /// Kernels that fell out of the ring since start().
  std::uint64_t dropped() const;

  void write(const KernelRecord& record) {
    const std::lock_guard lock(mutex_);
    if (ring_.size() < most_)
      ring_.push_back(record);
    else if (most_ > 0)
      ring_[next_ % most_] = record;
    ++next_;
  }

 private:
  std::atomic<bool> enabled_{false};
  mutable std::mutex mutex_;  // a leaf; guards the three below
  std::size_t most_ = 0;      // records that are kept
  std::uint64_t next_ = 0;
  std::vector<KernelRecord> ring_;
};

}  // namespace neaptide
