// Keeps a job within its share of the device's SM time.
//
// A kernel's width may not depend on the job's share, or its numbers would. So a kernel that is wider than the share
// runs with its own width, and the job then pauses until its use is within the share again: half of two SMs is one SM
// all the time, or both for half of the time. Nothing here needs torch or a clock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>

namespace neaptide::soft {

/// Thread-safe. `rate` is the number of SMs that the job may use on average.
class SmPace {
 public:
  /// Short kernels run on while the job is ahead by no more than this: each pause costs a sleep and a wake-up.
  static constexpr std::uint64_t kAheadNs = 1'000'000;

  /// When the job's next kernel may begin; not after `now_ns` when it may begin now.
  std::uint64_t next_ns(std::uint64_t now_ns, double rate) {
    const std::lock_guard lock(mutex_);
    drain(now_ns, rate);
    return now_ns + static_cast<std::uint64_t>(std::max(ahead_ / rate - static_cast<double>(kAheadNs), 0.0));
  }
  /// A kernel has run. next_ns() was asked before it began.
  void ran(std::uint64_t began_ns, std::uint64_t ended_ns, std::uint32_t width, double rate) {
    const std::lock_guard lock(mutex_);
    ahead_ += static_cast<double>(ended_ns - began_ns) * width;
    drain(ended_ns, rate);
  }

 private:
  void drain(std::uint64_t now_ns, double rate) {
    if (now_ns <= at_ns_) return;
    ahead_ = std::max(ahead_ - static_cast<double>(now_ns - at_ns_) * rate, 0.0);
    at_ns_ = now_ns;
  }

  std::mutex mutex_;         // a leaf
  double ahead_ = 0;         // SM time used beyond the share, in ns of one SM
  std::uint64_t at_ns_ = 0;  // as of then
};

}  // namespace neaptide::soft
