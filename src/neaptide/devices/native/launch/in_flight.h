// How many kernels the process has launched and the device has not yet done, and the cap on that number.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>

#include "../../../core/rules/in_flight.h"
#include "../member.h"
#include "lease_forecast.h"

namespace neaptide {

/// A program that never waits for the device may launch so far ahead of it; a GPU's queue is about as deep.
inline constexpr std::uint32_t kQueueDepth = 1024;

class InFlight {
 public:
  /// `may_spin`: whether a thread that waits for room may keep its core busy; unset: it may.
  InFlight(Member& member, LeaseForecast& forecast, std::function<bool()> may_spin)
      : member_(member), forecast_(forecast), may_spin_(std::move(may_spin)) {}

  /// Whether another kernel may be launched under the lower of the process's cap and the board's. A kernel that waits
  /// for room has taken its memory already, so it counts. Changes nothing.
  bool room() const { return may_launch(count() + 1, static_cast<std::int64_t>(cap())); }
  /// Waits until there is room.
  void wait_for_room() {
    if (!room()) sleep_for_room();
  }
  /// Counts kernels in.
  void launched(std::uint64_t kernels) {
    count(kernels);
    publish(kernels);
  }
  /// The two halves of launched(), for a device that learns of several kernels at once that they are done: the board
  /// is told of them when they are marked.
  void count(std::uint64_t kernels) { launched_.fetch_add(kernels); }
  void publish(std::uint64_t kernels) { member_.count_launched(kernels); }
  /// Counts kernels out: the device has done them.
  void passed(std::uint64_t kernels);

  std::int64_t count() const {
    const std::uint64_t passed = passed_.load();  // before launched, so that it is not the larger one
    return static_cast<std::int64_t>(launched_.load() - passed);
  }
  std::uint64_t launched() const { return launched_.load(); }
  /// The process's own cap; 0: the depth of the queue.
  void set_cap(std::uint32_t kernels);
  std::uint32_t cap() const;

 private:
  void sleep_for_room();
  /// Whether a launch that sleeps for room is to be woken: with room for several, so that not every kernel wakes it.
  bool ample() const {
    const std::int64_t most = cap();
    return count() <= most - std::max<std::int64_t>(1, most / 4);
  }

  Member& member_;
  LeaseForecast& forecast_;
  const std::function<bool()> may_spin_;
  std::atomic<std::uint64_t> launched_{0};
  std::atomic<std::uint64_t> passed_{0};
  std::atomic<std::uint32_t> cap_{kQueueDepth};
  std::atomic<std::uint32_t> waiters_{0};
  std::mutex mutex_;  // a leaf
  std::condition_variable left_;
};

}  // namespace neaptide
