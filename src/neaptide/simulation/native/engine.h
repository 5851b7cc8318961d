// The engine in virtual time: hosts launch, the device runs ops side by side, memory is granted, copies move bytes.
//
// Order: what happens at one nanosecond is handled by kind (an op ends, a copy ends, then the caller's own events, then
// waiting jobs are granted memory, then hosts launch). Within a kind, ops follow the order in which jobs were
// submitted, grants and launches the age of iterations, and copies the order of requests.
//
// Times are whole. Work is counted in 2^-22 ns and rates in 2^-22, so that sums are exact whatever the number of steps;
// an op ends at the first whole nanosecond at which its work is done.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "job.h"

namespace neaptide {

constexpr int64_t kOne = int64_t{1} << 22;  // parts of a nanosecond, and of the full rate

enum EventKind : int32_t {
  kNothing = 0,
  kPhaseEnded,
  kIterationEnded,
  kStalled,
  kEvicted,
  kSuspended,
  kResumed,
  kFailed,
  kStuck,  // iterations wait for memory, and nothing can happen by itself: the caller evicts a job or gives one up
};

// value is the took_ns of an iteration, or the bytes that a job needed when it failed; limit, the bytes that it was
// allowed.
#define NEAPTIDE_EVENT_FIELDS(FIELD) \
  FIELD(int64_t, at_ns)              \
  FIELD(int64_t, value)              \
  FIELD(int64_t, limit)              \
  FIELD(int32_t, kind)               \
  FIELD(int32_t, job)
struct Event {
  NEAPTIDE_EVENT_FIELDS(NEAPTIDE_MEMBER)
};

// highest_budget is that of now and of later in the run. The link's bandwidth is in bytes per second, each way.
#define NEAPTIDE_SETTING_FIELDS(FIELD) \
  FIELD(int64_t, budget)               \
  FIELD(int64_t, highest_budget)       \
  FIELD(double, link_bandwidth)        \
  FIELD(int32_t, oversubscribes)
struct Setting {
  NEAPTIDE_SETTING_FIELDS(NEAPTIDE_MEMBER)
};

class Engine {
 public:
  Engine(const Setting& setting, const Contention& contention) : setting_(setting), contention_(contention) {}

  int add_job();
  void add_plan(int job, const Plan& plan) {
    jobs_[job].plans.push_back(plan);
    if (plan.ops > 0) highest_peak_ = std::max(highest_peak_, plan.still_peak[0]);
  }

  // Advances to the next event that the controller must see, at most to `limit_ns`; kNothing when there is none.
  Event advance(int64_t limit_ns);

  void set_budget(int64_t budget, int64_t highest);
  void admit(int job, int64_t ceiling);
  void start(int job);
  void set_plan(int job, int plan);
  void set_limit(int job, int64_t bytes);
  void set_gate(int job, int64_t until_ns, bool holds_light);
  void set_class(int job, bool deadline);
  void set_share(int job, double share);
  void cap(int job, int64_t in_flight);
  void set_lane(int job, int lane);
  void size_lane(int lane, int64_t bytes);
  void suspend(int job);
  void resume(int job);
  void end(int job);

  // After kStuck. evict() moves a job to host memory; resume() brings it back. give_up() fails a job that needs more
  // than the budget will ever be, and says whether it did.
  void evict(int job);
  bool give_up(int job);

  int64_t now_ns() const { return now_; }
  int64_t position(int job) const;
  int64_t held(int job) const { return jobs_[job].held(); }
  int64_t op_events() const { return op_events_; }
  int64_t peak() const { return peak_; }
  int64_t over() const { return over_; }
  Series& series(int job) { return job < 0 ? series_ : jobs_[job].series; }
  size_t size() const { return jobs_.size(); }
  const Job& job(int job) const { return jobs_[job]; }
  const std::vector<int>& running() const { return running_; }

 private:
  struct Copy {
    int job;
    int64_t bytes;
    int64_t ends_at;
  };
  enum class Kind { kOp, kCopyOut, kCopyIn, kGrant, kLaunch, kNone };
  struct Next {
    int64_t at_ns = kNever;
    Kind kind = Kind::kNone;
    int job = -1;
  };

  // engine.cpp: the loop, the device and the hosts
  Next find_next() const;
  void handle(const Next& next);
  void tell(EventKind kind, int job, int64_t value = 0, int64_t limit = 0);
  void update_rates();
  void start_op(int job);
  double over_the_link(const Job& job) const;
  bool must_make_way(const Job& job) const;
  void start_waiting_ops();
  void put_on_device(int job);
  void take_off_device(int job);
  void end_op(int job);
  void end_iteration(int job);
  void next_launch(int job);
  void launch(int job);

  // memory.cpp: grants, waiting and eviction
  void hold(Job& job, int64_t persistent, int64_t ephemeral);
  bool may_take(int job, int64_t bytes, int64_t reserved) const;
  bool may_take_with_lanes(int job, int64_t bytes, int64_t reserved) const;
  int sized_lane(const Job& job) const;
  int64_t reserved(int except) const;
  void grant_all();
  void enter(int job);
  void wait_for_memory(int job);
  void set_waits(Job& job, bool waits);
  void tell_stall(int job);
  bool someone_waits() const;
  void fail(int job, int64_t needed, int64_t limit);

  // moves.cpp: suspension, eviction, return
  void leave(int job);
  void copy_out(int job);
  void call_back(int job);
  void queue_copy(std::deque<Copy>& engine, int job, int64_t bytes);
  void end_copy(std::deque<Copy>& engine);
  void left(int job);
  void entered(int job);
  void forget(int job);
  void join_running(int job);
  void leave_running(int job);
  int64_t returning_ephemeral(const Job& job) const;

  Setting setting_;
  Contention contention_;
  int64_t now_ = 0;
  std::vector<Job> jobs_;
  std::vector<int64_t> launch_at_, finish_at_;  // of each job, or kNever; not in Job: every step reads them all
  std::vector<int> running_;                    // inside an iteration and not away, oldest first
  std::vector<int64_t> lane_bytes_;             // the size of each lane; empty: there are none
  std::vector<int> on_device_;                  // with an op that runs, in the order of submission
  std::vector<int> entering_;                   // waiting for the bytes with which they come in, in order
  std::deque<Copy> out_, in_;                   // the first of each is being copied
  std::deque<Event> told_;
  int waiting_ = 0;                // iterations that wait for memory
  bool rates_old_ = false;         // the ops on the device are not those for which the rates were found
  bool had_deadline_job_ = false;  // some job is or was in the deadline class: others may make way
  bool grant_due_ = false;
  bool stuck_told_ = false;   // kStuck was told, and nothing was handled since
  int64_t total_ = 0;         // held by all
  int64_t highest_peak_ = 0;  // of all plans
  int64_t peak_ = 0, over_ = 0;
  int64_t op_events_ = 0;
  Series series_;
  std::vector<Demand> demands_;
  std::vector<double> rates_;
};

}  // namespace neaptide
