// What the running iteration may yet come to hold, told to the board as the device goes along.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "../../native/member.h"

namespace neaptide::soft {

/// Counts kernels as InFlight does: those launched and those done since the process began.
class Tide {
 public:
  explicit Tide(Member& member) : member_(member) {}

  /// The most bytes from each of equally many kernels on, over one iteration of `kernels`; none: nothing is foreseen.
  void set(std::vector<std::uint64_t> levels, std::uint64_t kernels);
  /// An iteration was permitted; its first kernel is the next to be launched.
  void begin(std::uint64_t launched);
  /// The iteration was launched. The next one is taken to have as many kernels.
  void end(std::uint64_t launched);
  /// The process's memory goes to the host, and comes back: in between nothing is kept for it.
  void leave();
  void come_back();
  /// The device has done a kernel. Cheap, and called by the workers.
  void passed(std::uint64_t done) {
    if (running_.load(std::memory_order_relaxed)) advance(done);
  }

 private:
  void advance(std::uint64_t done);

  Member& member_;
  std::atomic<bool> running_{false};
  std::mutex mutex_;  // a leaf
  std::vector<std::uint64_t> levels_;
  std::uint64_t kernels_ = 1;
  std::uint64_t first_ = 0;  // kernel of the iteration
  std::uint64_t step_ = 0;
};

}  // namespace neaptide::soft
