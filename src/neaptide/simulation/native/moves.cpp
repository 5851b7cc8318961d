// The controller's actions, and the moves of jobs: they come in, leave for host memory and return.
#include <algorithm>
#include <cmath>

#include "../../core/rules/in_flight.h"
#include "engine.h"

namespace neaptide {

int Engine::add_job() {
  jobs_.emplace_back();
  launch_at_.push_back(kNever);
  finish_at_.push_back(kNever);
  return static_cast<int>(jobs_.size()) - 1;
}

// --- actions

void Engine::set_budget(int64_t budget, int64_t highest) {
  setting_.budget = budget;
  setting_.highest_budget = highest;
  over_ = std::max(over_, total_ - budget);
  grant_due_ = true;
}

void Engine::admit(int id, int64_t ceiling) {
  Job& job = jobs_[id];
  if (job.over) return;
  job.ceiling = ceiling;
  job.place = Place::kWaiting;
  job.returns = false;
  entering_.push_back(id);
  grant_due_ = true;
}

void Engine::start(int id) {
  Job& job = jobs_[id];
  if (job.over) return;
  job.iterating = true;
  job.started_ns = now_;
  job.done = job.launched = 0;
  set_waits(job, false);
  job.stall_told = job.waits_for_slot = job.held_by_gate = job.makes_way = job.tail_done = false;
  job.window.clear();
  join_running(id);
  launch_at_[id] = now_ + job.now().host_ns[0];
}

void Engine::set_plan(int id, int plan) {
  Job& job = jobs_[id];
  if (job.over) return;
  job.plan = plan;
  if (job.place != Place::kResident) return;
  const int64_t wanted = job.now().persistent;
  if (wanted <= job.persistent) return hold(job, wanted, 0);
  job.place = Place::kWaiting;
  job.returns = false;
  entering_.push_back(id);
  grant_due_ = true;
}

void Engine::set_limit(int id, int64_t bytes) {
  jobs_[id].limit = bytes;
  grant_due_ = true;
}

void Engine::set_gate(int id, int64_t until_ns, bool holds_light) {
  Job& job = jobs_[id];
  job.gate_holds_light = holds_light;
  job.gate_until = until_ns;
  if (job.held_by_gate) {
    job.held_by_gate = false;
    if (job.place == Place::kResident) start_op(id);
  }
}

void Engine::set_class(int id, bool deadline) {
  had_deadline_job_ = had_deadline_job_ || deadline;
  jobs_[id].deadline = deadline;
  jobs_[id].demand.deadline = deadline ? 1 : 0;
  rates_old_ = true;
}

void Engine::set_share(int id, double share) { jobs_[id].share = share; }

void Engine::cap(int id, int64_t in_flight) {
  Job& job = jobs_[id];
  job.in_flight = in_flight;
  if (job.waits_for_slot && may_launch(job.launched - job.done, in_flight)) {
    job.waits_for_slot = false;
    launch_at_[id] = now_;
  }
}

void Engine::set_lane(int id, int lane) {
  jobs_[id].lane = lane;
  grant_due_ = true;
}

void Engine::size_lane(int lane, int64_t bytes) {
  if (lane >= static_cast<int>(lane_bytes_.size())) lane_bytes_.resize(lane + 1);
  lane_bytes_[lane] = bytes;
  grant_due_ = true;
}

void Engine::suspend(int id) {
  Job& job = jobs_[id];
  if (job.over) return;
  switch (job.place) {
    case Place::kResident:
      return leave(id);
    case Place::kWaiting:
      return leave(id);
    case Place::kEntering:
      job.sent_away = true;
      return;
    default:  // the job is leaving already, or away: cancel its return, and do not go on with its iteration
      job.called_back = false;
      leave_running(id);
  }
}

void Engine::resume(int id) {
  Job& job = jobs_[id];
  if (job.over) return;
  job.sent_away = false;
  if (job.place == Place::kAway) return call_back(id);
  if (job.place != Place::kEntering) job.called_back = true;
}

void Engine::end(int id) { forget(id); }

int64_t Engine::position(int id) const {
  const Job& job = jobs_[id];
  if (!job.iterating || job.done >= job.now().ops) return 0;
  const Plan& plan = job.now();
  const int64_t begin = job.done > 0 ? plan.ends_ns[job.done - 1] : 0, end = plan.ends_ns[job.done];
  int64_t at = begin;
  if (job.on_device) {
    const int64_t left = std::max<int64_t>(job.left - job.rate * (now_ - job.since_ns), 0);
    at = end - static_cast<int64_t>(static_cast<double>(left / kOne) / job.slower);
  } else if (launch_at_[id] != kNever && !job.in_flight_now()) {
    at = end - plan.work_ns[job.done] - (launch_at_[id] - now_);
  }
  return std::clamp(at, begin, std::max(begin, end - 1));
}

// --- moves

int64_t Engine::returning_ephemeral(const Job& job) const {
  return job.iterating ? job.within(job.now().between[job.done]) : 0;
}

void Engine::join_running(int id) {
  if (jobs_[id].runs) return;
  jobs_[id].runs = true;
  running_.push_back(id);
}

void Engine::leave_running(int id) {
  if (!jobs_[id].runs) return;
  jobs_[id].runs = false;
  running_.erase(std::find(running_.begin(), running_.end(), id));
  set_waits(jobs_[id], false);
  launch_at_[id] = kNever;
  grant_due_ = true;
}

// Stops the host and gives back the memory of ops launched ahead. An op on the device ends before the job leaves.
void Engine::leave(int id) {
  Job& job = jobs_[id];
  entering_.erase(std::remove(entering_.begin(), entering_.end(), id), entering_.end());
  if (job.iterating) {
    leave_running(id);
    job.waits_for_slot = job.held_by_gate = job.makes_way = false;
    job.window.clear();
    job.launched = job.done;
    if (job.on_device) {
      job.launched = job.done + 1;
      job.window.push(job.now().level, job.done);
      hold(job, job.persistent, job.within(job.now().level[job.done]));
      job.place = Place::kStopping;
      return;
    }
    if (job.place == Place::kResident) hold(job, job.persistent, returning_ephemeral(job));
  }
  copy_out(id);
}

void Engine::copy_out(int id) {
  jobs_[id].place = Place::kLeaving;
  if (jobs_[id].held() == 0) return left(id);
  queue_copy(out_, id, jobs_[id].held());
}

void Engine::queue_copy(std::deque<Copy>& engine, int id, int64_t bytes) {
  const double ns = std::ceil(1e9 * static_cast<double>(bytes) / setting_.link_bandwidth);
  const int64_t starts = engine.empty() ? now_ : engine.back().ends_at;
  engine.push_back({id, bytes, starts + static_cast<int64_t>(ns)});
}

void Engine::end_copy(std::deque<Copy>& engine) {
  const int id = engine.front().job;
  engine.pop_front();
  if (jobs_[id].over) return;
  if (&engine == &out_) {
    left(id);
  } else {
    entered(id);
  }
}

void Engine::left(int id) {
  Job& job = jobs_[id];
  hold(job, 0, 0);
  job.place = Place::kAway;
  if (!job.evicted) tell(kSuspended, id);
  if (job.called_back) call_back(id);
}

void Engine::call_back(int id) {
  Job& job = jobs_[id];
  job.called_back = false;
  job.place = Place::kWaiting;
  job.returns = true;
  entering_.push_back(id);
  if (job.iterating) {
    join_running(id);
    set_waits(job, true);
  }
  grant_due_ = true;
}

void Engine::entered(int id) {
  Job& job = jobs_[id];
  job.place = Place::kResident;
  job.returns = false;
  if (job.sent_away) {
    job.sent_away = false;
    return leave(id);
  }
  job.evicted = false;
  tell(kResumed, id);
  if (job.persistent != job.now().persistent) set_plan(id, job.plan);  // the plan was changed while the job came in
  if (!job.iterating) return;
  set_waits(job, false);
  launch_at_[id] = now_ + job.now().host_ns[job.done];
}

void Engine::forget(int id) {
  Job& job = jobs_[id];
  take_off_device(id);
  leave_running(id);
  job.iterating = false;
  job.over = true;
  job.place = Place::kOutside;
  entering_.erase(std::remove(entering_.begin(), entering_.end(), id), entering_.end());
  hold(job, 0, 0);
}

}  // namespace neaptide
