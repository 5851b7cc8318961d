// How many leased bytes the running iteration may yet come to hold. The board keeps that room from younger iterations.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "../member.h"

namespace neaptide {

/// Counts kernels as InFlight does: those launched and those done since the process began.
class LeaseForecast {
 public:
  explicit LeaseForecast(Member& member) : member_(member) {}

  /// Sets the forecast for the iterations to come. An iteration of `kernels` kernels is cut into as many equal parts as
  /// there are levels; a level is the most bytes that it holds from that part on. No levels: no forecast.
  void set(std::vector<std::uint64_t> levels, std::uint64_t kernels);
  /// An iteration was permitted; its first kernel is the next to be launched.
  void begin(std::uint64_t launched);
  /// The iteration was launched. The next one is taken to have as many kernels.
  void end(std::uint64_t launched);
  /// How many kernels an iteration is taken to have.
  std::uint64_t kernels() const;
  /// The process's memory goes to host memory: the board keeps nothing for it until come_back().
  void leave();
  void come_back();
  /// The device has done kernels, `done` in all. Cheap, and called after every kernel.
  void passed(std::uint64_t done) {
    if (running_.load(std::memory_order_relaxed)) advance(done);
  }

 private:
  void advance(std::uint64_t done);

  Member& member_;
  std::atomic<bool> running_{false};
  mutable std::mutex mutex_;  // a leaf
  std::vector<std::uint64_t> levels_;
  std::uint64_t kernels_ = 1;
  std::uint64_t first_ = 0;  // kernels launched before the iteration
  std::uint64_t step_ = 0;   // index of the level that the board has
};

}  // namespace neaptide
