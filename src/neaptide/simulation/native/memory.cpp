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
  if (!lane_bytes_.empty()) return may_take_with_lanes(id, bytes, reserved);
  const MemoryRequest request{bytes, jobs_[id].runs, reserved};
  OlderIterations older;
  if (decide_grant(request, older, total_, setting_.budget) != Grant::granted) return false;
  // No iteration is due more than the highest peak; with that much to spare, there is no need to ask each of them.
  if (total_ + bytes + reserved + highest_peak_ <= setting_.budget) return true;
  for (const int other : running_) {
    if (other == id) break;
    const int64_t ephemeral = jobs_[other].ephemeral;
    older.add(jobs_[other].still_peak() - ephemeral, ephemeral);
  }
  return decide_grant(request, older, total_, setting_.budget) == Grant::granted;
}

int Engine::sized_lane(const Job& job) const {
  const bool sized = job.lane >= 0 && job.lane < static_cast<int>(lane_bytes_.size()) && lane_bytes_[job.lane] > 0;
  return sized ? job.lane : kNoLane;
}

bool Engine::may_take_with_lanes(int id, int64_t bytes, int64_t reserved) const {
  const Job& job = jobs_[id];
  const int own_lane = sized_lane(job);
  std::vector<Lane> lanes(lane_bytes_.size());
  for (size_t lane = 0; lane < lanes.size(); ++lane) lanes[lane].size = lane_bytes_[lane];
  OlderIterations common;
  bool older = true;
  for (const int other : running_) {
    const Job& each = jobs_[other];
    const int64_t due = each.still_peak() - each.ephemeral;
    older = older && other != id;
    const int lane = sized_lane(each);
    if (lane == kNoLane) {
      if (other != id && (older || own_lane != kNoLane)) common.add(due, each.ephemeral);
      continue;
    }
    lanes[lane].used += each.ephemeral;
    if (lane == own_lane && older) lanes[lane].older.add(due, each.ephemeral);
    if (own_lane == kNoLane && older) common.add(0, 0);  // its lane has its bytes
  }
  int64_t free = setting_.budget - total_;
  for (const Lane& lane : lanes) free -= lane.unused();
  const bool oldest = !running_.empty() && running_.front() == id;
  const MemoryRequest request{bytes, job.runs, oldest ? 0 : reserved};
  const Grant grant = own_lane == kNoLane
                          ? decide_grant(request, common, 0, free)
                          : decide_grant_in_lane(request, lanes[own_lane], 0, common, free + lanes[own_lane].unused());
  return grant == Grant::granted;
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
  const int64_t level =
      job.place == Place::kResident ? job.within(job.now().level[job.launched]) : returning_ephemeral(job);
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
