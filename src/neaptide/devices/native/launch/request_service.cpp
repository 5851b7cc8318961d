#include "request_service.h"

#include <algorithm>
#include <stdexcept>
#include <thread>

#include "blocking.h"

namespace neaptide {
namespace {

constexpr auto kServeTime = std::chrono::seconds(60);
constexpr auto kLookTime = std::chrono::seconds(1);           // between looks whether the process is about to end
constexpr auto kSilentTime = std::chrono::milliseconds(100);  // between looks whether the daemon speaks again
constexpr auto kDriverTime = std::chrono::milliseconds(100);  // before a driver that failed is asked again

Deadline after(std::chrono::nanoseconds time) { return std::chrono::steady_clock::now() + time; }

}  // namespace

void RequestService::make_way() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock.owns_lock()) leave_if_asked();
}

void RequestService::serve() {
  const std::lock_guard lock(mutex_);
  leave_if_asked();
  if (away_.load() || is_wanted_back()) return_when_wanted();
}

void RequestService::leave_if_asked() {
  const Request request = member_.request();
  if (!asks_to_leave(request) || away_.load()) return;
  if (member_.daemon_silent()) {  // it would be restored at once
    member_.finish_request(request);
  } else {
    move_out(request, after(kServeTime));
  }
}

void RequestService::return_when_wanted() {
  const auto may_return = [this] { return stopping_.load() || is_wanted_back() || member_.daemon_silent(); };
  for (;;) {
    blocking([&] { member_.wait_control(may_return, Deadline::max()); });
    if (return_all()) return finish_return();
    stay_out();
  }
}

bool RequestService::is_wanted_back() const {
  const Request request = member_.request();
  return request == Request::restore || request == Request::resume;
}

bool RequestService::return_all() {
  begin_return();
  const auto look = [this] { return after(is_wanted_back() ? kLookTime : kSilentTime); };
  for (bool told = false; !stopping_.load() && !restore(look());) {
    if (!is_wanted_back() && !member_.daemon_silent()) return false;
    const std::uint64_t bytes = arena_->stats().evicted_bytes;
    if (!told && bytes > member_.board().capacity_bytes()) {
      told = true;
      on_too_small_(bytes);
    }
  }
  return true;
}

Service RequestService::step() {
  Request request = member_.request();
  if (member_.daemon_silent()) {
    if (request == Request::evict || request == Request::suspend) member_.finish_request(request);
    request = arena_->evicted() ? Request::restore : Request::none;
  }
  switch (request) {
    case Request::none:
      if (claim_) stay_out();
      return Service::nothing;
    case Request::evict:
    case Request::suspend:
      if (claim_) {
        stay_out();
        return Service::evicted;
      }
      if (in_flight_.count() > 0) return Service::busy;
      return move_out(request, after({})) ? Service::evicted : Service::failed;
    case Request::restore:
    case Request::resume:
      if (!claim_) begin_return();
      if (!restore(after({}))) {
        if (!claim_) claim_.emplace(member_, arena_->stats().evicted_bytes);
        return Service::busy;
      }
      claim_.reset();
      finish_return();
      return Service::restored;
  }
  return Service::nothing;
}

bool RequestService::move_out(Request request, Deadline deadline) {
  try {
    evict(deadline);
  } catch (const std::exception&) {
    member_.finish_request(request);
    return false;
  }
  away_.store(true);
  forecast_.leave();
  member_.demote_claim();  // a thread that waits for memory may wait at the gate with its claim published
  member_.set_state(request == Request::evict ? SlotState::evicted : SlotState::suspended);
  member_.finish_request(request);
  return true;
}

void RequestService::stay_out() {
  claim_.reset();
  forecast_.leave();
  member_.demote_claim();
  if (const Request request = member_.request(); request == Request::evict || request == Request::suspend) {
    member_.set_state(request == Request::evict ? SlotState::evicted : SlotState::suspended);
    member_.finish_request(request);
  }
}

void RequestService::begin_return() {
  // The restored iteration becomes the youngest: the others went on as if its memory were free.
  member_.renew_age();
  forecast_.come_back();
}

void RequestService::finish_return() {
  away_.store(false);
  member_.set_state(gates_.awaits_permit() ? SlotState::waiting_permit : SlotState::running);
  for (const Request request : {Request::restore, Request::resume}) member_.finish_request(request);
}

std::size_t RequestService::evict(Deadline deadline) {
  gates_.close_for_eviction();
  try {
    bool quiet = false;
    blocking([&] { quiet = gates_.quiesce(deadline); });
    if (!quiet) throw std::runtime_error("a launch did not end in time, nothing was evicted");
    if (drain_) drain_();
    std::size_t bytes = 0;
    blocking([&] { bytes = arena_->evict(deadline); });
    return bytes;
  } catch (...) {
    if (!arena_->evicted()) gates_.open_after_eviction();
    throw;
  }
}

bool RequestService::restore(Deadline deadline) {
  bool back = false;
  try {
    blocking([&] { back = arena_->restore(deadline); });
  } catch (const DriverError&) {  // the host has no memory for the device now; what was evicted is still whole
    blocking([&] { std::this_thread::sleep_until(std::min(deadline, after(kDriverTime))); });
  }
  if (back) gates_.open_after_eviction();
  return back;
}

}  // namespace neaptide
