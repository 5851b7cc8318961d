// The state of one job in the engine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "contention.h"
#include "plan.h"
#include "series.h"

namespace neaptide {

constexpr int kNoLane = -1;

enum class Place {
  kOutside,   // not admitted, or over
  kWaiting,   // admitted or called back, and its bytes are not granted yet
  kEntering,  // its bytes are being copied in
  kResident,
  kStopping,  // to leave when the op that is on the device ends
  kLeaving,   // its bytes are being copied out
  kAway,      // its bytes are in host memory
};

// A sliding maximum: the highest level of the ops from the one that runs to the last one launched.
class Window {
 public:
  void clear() { ops_.clear(), first_ = 0; }
  void push(const int64_t* level, int64_t op) {
    while (ops_.size() > first_ && level[ops_.back()] <= level[op]) ops_.pop_back();
    ops_.push_back(op);
  }
  void drop_before(int64_t op) {
    while (first_ < ops_.size() && ops_[first_] < op) ++first_;
    if (first_ > 256 && 2 * first_ > ops_.size()) {
      ops_.erase(ops_.begin(), ops_.begin() + static_cast<std::ptrdiff_t>(first_));
      first_ = 0;
    }
  }
  bool empty() const { return first_ == ops_.size(); }
  int64_t highest(const int64_t* level) const { return level[ops_[first_]]; }

 private:
  std::vector<int64_t> ops_;
  size_t first_ = 0;
};

struct Job {
  std::vector<Plan> plans;
  int plan = 0;
  Place place = Place::kOutside;
  bool over = false;         // ended or failed
  bool returns = false;      // comes in from host memory, over the link
  bool evicted = false;      // moved to the host by the engine, which also restores it
  bool called_back = false;  // to return as soon as it has left
  bool sent_away = false;    // to leave as soon as it has entered
  int64_t ceiling = kNever;
  int64_t limit = kNever;  // of the bytes on the device; what an iteration needs beyond is in host memory
  int lane = kNoLane;
  int64_t in_flight = 0;        // the cap, which the engine sets when the job arrives
  int64_t gate_until = kNever;  // until when the gate is open; below 0: it is closed
  bool gate_holds_light = false;
  bool deadline = false;  // in the deadline class
  double share = 1;       // of the SMs that the job may use

  int64_t persistent = 0;  // held
  int64_t ephemeral = 0;   // held

  bool iterating = false;
  bool runs = false;  // among the running iterations: it iterates and is not away
  int64_t started_ns = 0;
  int64_t done = 0;      // ops that the device has passed
  int64_t launched = 0;  // ops that the host has launched
  bool waits_for_slot = false;
  bool waits_for_memory = false;
  bool stall_told = false;  // once per iteration
  bool held_by_gate = false;
  bool makes_way = false;  // its next op waits for an op of a deadline job
  bool tail_done = false;  // the iteration's last op ended while the job was leaving
  Window window;

  bool on_device = false;
  int64_t left = 0;   // work of the op that runs, in parts of a nanosecond
  double slower = 1;  // how many times longer that work is than alone, for the job's share of the SMs
  int64_t rate = 0;   // parts per nanosecond
  int64_t since_ns = 0;
  Demand demand{};

  Series series;

  const Plan& now() const { return plans[plan]; }
  /// Whether the op that the device has come to is kept from beginning.
  bool held_back() const { return held_by_gate || makes_way; }
  bool in_flight_now() const { return launched > done; }
  int64_t held() const { return persistent + ephemeral; }
  /// Of so many ephemeral bytes, those that are on the device: the rest is over the limit.
  int64_t within(int64_t bytes) const {
    return limit == kNever ? bytes : std::min(bytes, std::max<int64_t>(limit - now().persistent, 0));
  }
  int64_t still_peak() const { return iterating && done < now().ops ? within(now().still_peak[done]) : 0; }
};

}  // namespace neaptide
