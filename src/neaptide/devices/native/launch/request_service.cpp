#include "request_service.h"

#include <stdexcept>

#include "blocking.h"

namespace neaptide {
namespace {

constexpr auto kServeTime = std::chrono::seconds(60);
constexpr auto kLookTime = std::chrono::seconds(1);  // between looks whether the process is about to end

Deadline after(std::chrono::nanoseconds time) { return std::chrono::steady_clock::now() + time; }

}  // namespace

void RequestService::serve(Request request) {
  std::unique_lock lock(mutex_, std::defer_lock);
  blocking([&] { lock.lock(); });
  if (member_.request() != request) return;  // another thread has served it
  switch (request) {
    case Request::none:
      return;
    case Request::evict:
    case Request::suspend:
      return serve_eviction(request);
    case Request::restore:
    case Request::resume:
      begin_return();
      while (!stopping_.load() && !restore(after(kLookTime))) {
      }
      finish_return(request);
  }
}

void RequestService::serve_eviction(Request request) {
  move_out(request, after(kServeTime));
  auto answer = Request::none;
  const auto may_return = [&] {
    answer = member_.request();
    return answer == Request::restore || answer == Request::resume || stopping_.load();
  };
  blocking([&] { member_.wait_control(may_return, Deadline::max()); });
  begin_return();
  while (!stopping_.load() && !restore(after(kLookTime))) {
  }
  finish_return(answer);
}

Service RequestService::step() {
  const Request request = member_.request();
  switch (request) {
    case Request::none:
      return Service::nothing;
    case Request::evict:
    case Request::suspend:
      claim_.reset();
      if (in_flight_.count() > 0) return Service::busy;
      move_out(request, after({}));
      return Service::evicted;
    case Request::restore:
    case Request::resume:
      if (!claim_) begin_return();
      if (!restore(after({}))) {
        if (!claim_) claim_.emplace(member_, arena_->stats().evicted_bytes);
        return Service::busy;
      }
      claim_.reset();
      finish_return(request);
      return Service::restored;
  }
  return Service::nothing;
}

void RequestService::move_out(Request request, Deadline deadline) {
  try {
    evict(deadline);
  } catch (...) {  // the process goes on as it was; a controller sees that it still holds its memory
    member_.finish_request(request);
    throw;
  }
  forecast_.leave();
  member_.demote_claim();  // a thread that waits for memory may wait at the gate with its claim published
  member_.set_state(request == Request::evict ? SlotState::evicted : SlotState::suspended);
  member_.finish_request(request);
}

void RequestService::begin_return() {
  // The restored iteration becomes the youngest: the others went on as if its memory were free.
  member_.renew_age();
  forecast_.come_back();
}

void RequestService::finish_return(Request request) {
  member_.set_state(gates_.awaits_permit() ? SlotState::waiting_permit : SlotState::running);
  member_.finish_request(request);
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
  blocking([&] { back = arena_->restore(deadline); });
  if (back) gates_.open_after_eviction();
  return back;
}

}  // namespace neaptide
