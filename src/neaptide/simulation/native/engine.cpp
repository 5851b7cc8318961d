#include "engine.h"

#include <algorithm>
#include <cmath>

#include "../../core/rules/in_flight.h"
#include "../../core/rules/over_the_link.h"

namespace neaptide {
namespace {

constexpr int64_t kLongest = kNever / kOne;  // the most work that can be counted, in ns: about 36 minutes

}  // namespace

Event Engine::advance(int64_t limit_ns) {
  while (told_.empty()) {
    if (rates_old_) {
      if (had_deadline_job_) start_waiting_ops();
      update_rates();
    }
    const Next next = find_next();
    if (next.kind == Kind::kNone) {
      if (stuck_told_ || !someone_waits()) break;
      stuck_told_ = true;
      return Event{now_, 0, 0, kStuck, -1};
    }
    // The caller's own events at this time come before grants and launches.
    const bool before = next.kind != Kind::kGrant && next.kind != Kind::kLaunch;
    if (next.at_ns > limit_ns || (next.at_ns == limit_ns && !before)) break;
    now_ = next.at_ns;
    handle(next);
  }
  if (told_.empty()) {
    if (limit_ns != kNever) now_ = std::max(now_, limit_ns);
    return Event{now_, 0, 0, kNothing, -1};
  }
  const Event event = told_.front();
  told_.pop_front();
  return event;
}

Engine::Next Engine::find_next() const {
  Next next;
  for (const int job : on_device_) {
    if (finish_at_[job] < next.at_ns) next = {finish_at_[job], Kind::kOp, job};
  }
  if (!out_.empty() && out_.front().ends_at < next.at_ns) next = {out_.front().ends_at, Kind::kCopyOut, -1};
  if (!in_.empty() && in_.front().ends_at < next.at_ns) next = {in_.front().ends_at, Kind::kCopyIn, -1};
  const bool asked = waiting_ > 0 || !entering_.empty();
  if (grant_due_ && asked && now_ < next.at_ns) next = {now_, Kind::kGrant, -1};
  for (const int job : running_) {
    if (launch_at_[job] < next.at_ns) next = {launch_at_[job], Kind::kLaunch, job};
  }
  return next;
}

void Engine::handle(const Next& next) {
  stuck_told_ = false;
  switch (next.kind) {
    case Kind::kOp:
      return end_op(next.job);
    case Kind::kCopyOut:
      return end_copy(out_);
    case Kind::kCopyIn:
      return end_copy(in_);
    case Kind::kGrant:
      return grant_all();
    case Kind::kLaunch:
      return launch(next.job);
    case Kind::kNone:
      return;
  }
}

void Engine::tell(EventKind kind, int job, int64_t value, int64_t limit) {
  told_.push_back(Event{now_, value, limit, kind, job});
}

void Engine::update_rates() {
  rates_old_ = false;
  const size_t count = on_device_.size();
  demands_.resize(count);
  rates_.resize(count);
  for (size_t i = 0; i < count; ++i) demands_[i] = jobs_[on_device_[i]].demand;
  const auto find = had_deadline_job_ ? find_rates : find_rates_of_one_class;
  if (count > 0) find(demands_.data(), count, contention_, rates_.data());
  for (size_t i = 0; i < count; ++i) {
    Job& job = jobs_[on_device_[i]];
    const auto rate = std::max<int64_t>(1, static_cast<int64_t>(rates_[i] * kOne + 0.5));
    if (rate == job.rate) continue;  // the op ends when it would have ended anyway
    job.left -= job.rate * (now_ - job.since_ns);
    job.since_ns = now_;
    job.rate = rate;
    finish_at_[on_device_[i]] = now_ + (std::max<int64_t>(job.left, 0) + rate - 1) / rate;
  }
}

// --- the device

void Engine::start_op(int id) {
  Job& job = jobs_[id];
  const Plan& plan = job.now();
  const int64_t op = job.done;
  const bool gated = job.gate_until != kNever && (plan.heavy[op] || job.gate_holds_light);
  job.held_by_gate = gated && now_ + plan.work_ns[op] > job.gate_until;
  job.makes_way = had_deadline_job_ && must_make_way(job);
  if (job.held_back()) return;
  double work = static_cast<double>(plan.work_ns[op]);
  double paging = job.limit == kNever ? 0 : over_the_link(job);
  if (setting_.oversubscribes && total_ > setting_.budget) {
    paging += std::ceil(paging_ns(static_cast<double>(total_), static_cast<double>(setting_.budget),
                                  static_cast<double>(plan.moved_bytes[op]), setting_.link_bandwidth));
  }
  paging = std::min(paging, static_cast<double>(kLongest - plan.work_ns[op]) / 2);
  // An op that uses more SMs alone than the job may use takes longer in proportion.
  double slower = 1;
  if (plan.fill[op] > job.share) {
    slower = std::min(plan.fill[op] / job.share, static_cast<double>(kLongest) / 2 / work);
    work = std::ceil(work * slower);
  }
  job.slower = slower;
  job.demand = {{plan.compute[op], plan.bandwidth[op], plan.fill[op], 0},
                1e-9 * std::max(work + paging, 1.0),
                job.deadline ? 1.0 : 0.0};
  if (paging > 0 || slower > 1) {
    const double own = (paging > 0 ? work / (work + paging) : 1) / slower;
    for (double& share : job.demand.share) share *= own;
    job.demand.share[3] = 1 - own * slower;
  }
  job.left = job.tail_done ? 0 : (static_cast<int64_t>(work) + static_cast<int64_t>(paging)) * kOne;
  job.rate = 0;
  job.since_ns = now_;
  finish_at_[id] = kNever;
  job.tail_done = false;
  put_on_device(id);
}

/// How long the next op reads and writes memory that has overflowed.
double Engine::over_the_link(const Job& job) const {
  const Plan& plan = job.now();
  const int64_t level = plan.level[job.done], over = level - job.within(level);
  if (over <= 0) return 0;
  return std::ceil(over_the_link_ns(static_cast<double>(over), static_cast<double>(plan.persistent + level),
                                    static_cast<double>(plan.moved_bytes[job.done]), setting_.link_bandwidth));
}

bool Engine::must_make_way(const Job& job) const {
  if (job.deadline || !job.now().heavy[job.done]) return false;
  return std::any_of(on_device_.begin(), on_device_.end(), [this](int id) {
    const Job& other = jobs_[id];
    return other.deadline && other.now().heavy[other.done];
  });
}

/// Begins the ops that made way for deadline jobs, where these have left the device.
void Engine::start_waiting_ops() {
  for (const int id : running_)
    if (jobs_[id].makes_way && jobs_[id].in_flight_now()) start_op(id);
}

void Engine::put_on_device(int id) {
  rates_old_ = true;
  if (jobs_[id].on_device) return;
  jobs_[id].on_device = true;
  on_device_.insert(std::lower_bound(on_device_.begin(), on_device_.end(), id), id);
}

void Engine::take_off_device(int id) {
  if (!jobs_[id].on_device) return;
  jobs_[id].on_device = false;
  finish_at_[id] = kNever;
  on_device_.erase(std::lower_bound(on_device_.begin(), on_device_.end(), id));
  rates_old_ = true;
}

void Engine::end_op(int id) {
  Job& job = jobs_[id];
  const Plan& plan = job.now();
  ++op_events_;
  const bool last = job.done + 1 == plan.ops;
  if (job.place == Place::kStopping && last) {
    // The iteration ends when the job has returned: until then the controller knows it as suspended.
    take_off_device(id);
    job.tail_done = true;
    job.launched = job.done;
    job.window.clear();
    hold(job, job.persistent, returning_ephemeral(job));
    return copy_out(id);
  }
  ++job.done;
  if (last) {
    take_off_device(id);
    return end_iteration(id);
  }
  job.window.drop_before(job.done);
  hold(job, job.persistent, job.within(job.window.empty() ? plan.between[job.done] : job.window.highest(plan.level)));
  if (job.done - 1 == plan.last_forward) tell(kPhaseEnded, id);
  if (job.in_flight_now()) {
    start_op(id);
    if (job.held_back()) take_off_device(id);
  } else {
    take_off_device(id);
    if (job.place == Place::kStopping) return copy_out(id);
    if (!plan.asynchronous) launch_at_[id] = now_ + plan.host_ns[job.launched];
    if (job.waits_for_memory) tell_stall(id);
  }
  if (job.waits_for_slot) {
    job.waits_for_slot = false;
    launch_at_[id] = now_;
  }
}

void Engine::end_iteration(int id) {
  Job& job = jobs_[id];
  leave_running(id);
  job.iterating = false;
  job.window.clear();
  hold(job, job.persistent, 0);
  job.done = job.launched = 0;
  tell(kIterationEnded, id, now_ - job.started_ns);
}

// --- the hosts

void Engine::next_launch(int id) {
  const Job& job = jobs_[id];
  const Plan& plan = job.now();
  const bool goes_on = job.launched < plan.ops && (plan.asynchronous || !job.in_flight_now());
  launch_at_[id] = goes_on ? now_ + plan.host_ns[job.launched] : kNever;
}

void Engine::launch(int id) {
  Job& job = jobs_[id];
  const Plan& plan = job.now();
  const int64_t op = job.launched;
  launch_at_[id] = kNever;
  if (!may_launch(job.launched - job.done, job.in_flight)) {
    job.waits_for_slot = true;
    return;
  }
  if (job.place != Place::kResident) return wait_for_memory(id);
  const int64_t ephemeral = std::max(job.ephemeral, job.within(plan.level[op]));
  if (job.persistent + ephemeral > job.ceiling) return fail(id, job.persistent + ephemeral, job.ceiling);
  if (!may_take(id, ephemeral - job.ephemeral, reserved(-1))) return wait_for_memory(id);
  set_waits(job, false);
  job.window.push(plan.level, op);
  hold(job, job.persistent, ephemeral);
  ++job.launched;
  if (op == job.done) start_op(id);
  next_launch(id);
}

}  // namespace neaptide
