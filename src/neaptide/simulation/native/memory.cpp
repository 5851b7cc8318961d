// Memory: grants, waiting, and eviction. memory_grant.h has the rule and says why no iteration waits for ever.
//
// An iteration returns its ephemeral bytes and keeps the persistent ones. A job that comes in waits in entering_, which
// reserves its persistent bytes. A job that returns inside an iteration rejoins running_ as the youngest.
//
// The rule's conditions can break when the budget falls, while bytes are still on their way out, or when a gate stays
// closed. Copies end by themselves. If then iterations wait and nothing can happen, the caller is told (kStuck), and
// evicts one job after another (core/rules/eviction.py) until the iterations go on, or gives up a job that never can.
#include <algorithm>

#include "../../core/rules/memory_grant.h"
#include "engine.h"

namespace neaptide {

void Engine::hold(Job& job, int64_t persistent, int64_t ephemeral) {
  const int64_t change = persistent + ephemeral - job.held();
  if (job.runs) running_ephemeral_ += ephemeral - job.ephemeral;
  job.persistent = persistent;
  job.ephemeral = ephemeral;
  if (change == 0) return;
  total_ += change;
  if (change < 0) grant_due_ = true;
  peak_ = std::max(peak_, total_);
  over_ = std::max(over_, total_ - setting_.budget);
  job.series.change(now_, job.held());
  series_.change(now_, total_);
}

int64_t Engine::reserved(int except) const {
  int64_t bytes = 0;
  for (const int id : entering_) {
    if (id == except) break;  // jobs that came later do not hold up those that came before
    bytes += std::max<int64_t>(jobs_[id].now().persistent - jobs_[id].persistent, 0);
  }
  return bytes;
}

bool Engine::may_take(int id, int64_t bytes, int64_t reserved) const {
  if (bytes <= 0 || setting_.oversubscribes) return true;
  OlderIterations older;
  for (const int other : running_) {
    if (other == id) break;
    const int64_t ephemeral = jobs_[other].ephemeral;
    older.add(jobs_[other].still_peak() - ephemeral, ephemeral);
  }
  return decide_grant({bytes, jobs_[id].runs, reserved}, older, total_, setting_.budget) == Grant::granted;
}

void Engine::grant_all() {
  grant_due_ = false;
  const std::vector<int> by_age = running_;
  for (const int id : by_age) {
    if (jobs_[id].place == Place::kWaiting) enter(id);
    if (jobs_[id].waits_for_memory && jobs_[id].place == Place::kResident) launch(id);
  }
  const std::vector<int> between = entering_;
  for (const int id : between) {
    if (!jobs_[id].iterating) enter(id);
  }
}

// Takes the bytes with which a job comes in, if they are granted.
void Engine::enter(int id) {
  Job& job = jobs_[id];
  if (job.place != Place::kWaiting) return;
  const int64_t missing = job.now().persistent - job.persistent;
  const int64_t ephemeral = returning_ephemeral(job);
  if (job.now().persistent > job.ceiling) return fail(id, job.now().persistent, job.ceiling);
  if (!may_take(id, missing + ephemeral, reserved(id))) return;
  entering_.erase(std::find(entering_.begin(), entering_.end(), id));
  hold(job, job.now().persistent, ephemeral);
  if (!job.returns) {
    job.place = Place::kResident;
    return;
  }
  job.place = Place::kEntering;
  queue_copy(in_, id, job.held());
}

void Engine::wait_for_memory(int id) {
  set_waits(jobs_[id], true);
  if (!jobs_[id].in_flight_now()) tell_stall(id);
}

void Engine::set_waits(Job& job, bool waits) {
  waiting_ += static_cast<int>(waits) - static_cast<int>(job.waits_for_memory);
  job.waits_for_memory = waits;
}

void Engine::tell_stall(int id) {
  if (jobs_[id].stall_told) return;
  jobs_[id].stall_told = true;
  tell(kStalled, id);
}

bool Engine::someone_waits() const {
  return std::any_of(running_.begin(), running_.end(), [&](int id) { return jobs_[id].waits_for_memory; });
}

void Engine::evict(int id) {
  jobs_[id].evicted = true;
  tell(kEvicted, id);
  leave(id);
}

bool Engine::give_up(int id) {
  const Job& job = jobs_[id];
  const int64_t level = job.place == Place::kResident ? job.now().level[job.launched] : returning_ephemeral(job);
  const int64_t needed = job.now().persistent + level;
  if (needed <= setting_.highest_budget) return false;  // it waits until the budget rises
  fail(id, needed, setting_.budget);
  return true;
}

void Engine::fail(int id, int64_t needed, int64_t limit) {
  tell(kFailed, id, needed, limit);
  forget(id);
}

}  // namespace neaptide
