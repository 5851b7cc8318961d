// How many kernels the process has launched and not yet run, and the bound on it.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "../../native/member.h"
#include "tide.h"

namespace neaptide::soft {

/// A program that never waits for the device may launch so far ahead of it; a GPU's queue is about as deep.
inline constexpr std::uint32_t kQueueDepth = 1024;

class InFlight {
 public:
  explicit InFlight(Member& member) : member_(member), tide_(member) {}

  /// Counts a kernel in; waits first while the lower of the process's own cap and the board's is reached.
  void enter();
  /// Counts a kernel out.
  void leave();
  /// An iteration was permitted, and was launched.
  void begin_iteration() { tide_.begin(launched()); }
  void end_iteration() { tide_.end(launched()); }
  Tide& tide() { return tide_; }
  std::int64_t count() const { return count_.load(); }
  std::uint64_t launched() const { return launched_.load(); }
  /// 0: as deep as the queue.
  void set_cap(std::uint32_t kernels);
  std::uint32_t cap() const;

 private:
  bool room() const { return count_.load() < static_cast<std::int64_t>(cap()); }
  /// Whether a launch that sleeps for room is to be woken: with room for several, so that not every kernel wakes it.
  bool ample() const {
    const std::int64_t most = cap();
    return count_.load() <= most - std::max<std::int64_t>(1, most / 4);
  }

  Member& member_;
  Tide tide_;
  std::atomic<std::int64_t> count_{0};
  std::atomic<std::uint64_t> launched_{0};
  std::atomic<std::uint32_t> cap_{kQueueDepth};
  std::atomic<std::uint32_t> waiters_{0};
  std::mutex mutex_;  // a leaf
  std::condition_variable left_;
};

}  // namespace neaptide::soft
