#include "gates.h"

#include <utility>

#include "blocking.h"

namespace neaptide::soft {

namespace {
thread_local int launch_depth = 0;
thread_local bool outside = false;  // the launch on this thread stands still
}  // namespace

void Gates::set(std::uint32_t bit, bool closed) {
  {
    std::lock_guard lock(mutex_);
    if (closed) {
      closed_.fetch_or(bit);
    } else {
      closed_.fetch_and(~bit);
    }
  }
  changed_.notify_all();
}

void Gates::enter() {
  for (;;) {
    inside_.fetch_add(1);
    const auto closed = closed_.load();
    const auto request = member_.request();
    if (!(closed & (kLaunch | kPermit)) && request == Request::none) return;
    leave();
    if (request != Request::none) {
      serve_(request);
    } else if (closed & kLaunch) {
      blocking([this] {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return launch_open(); });
      });
    } else {
      await_permit();
    }
  }
}

void Gates::leave() {
  // Only quiesce() waits for this, and only with the launch gate closed.
  if (inside_.fetch_sub(1) == 1 && (closed_.load() & kLaunch)) {
    std::lock_guard lock(mutex_);
    changed_.notify_all();
  }
}

void Gates::await_permit() {
  {
    std::lock_guard lock(mutex_);
    if (!(closed_.load() & kPermit)) return;
    closed_.fetch_and(~kPermit);
  }
  const auto iteration = member_.begin_iteration();
  if (member_.permitted(iteration)) return;
  member_.set_state(JobState::waiting_permit);
  blocking([&] { member_.wait_permit(iteration, Deadline::max()); });
  member_.set_state(JobState::running);
}

bool Gates::quiesce(Deadline deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [this] { return inside_.load() == 0; });
}

void Gates::pass_execution(bool heavy) {
  for (;;) {
    if (!execution_open()) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return execution_open(); });
    } else if (heavy && !member_.heavy_open()) {
      member_.wait_heavy_open(Deadline::max());
    } else {
      return;
    }
  }
}

LaunchScope::LaunchScope(Gates& gates) : gates_(gates) {
  if (launch_depth == 0) gates_.enter();
  ++launch_depth;
}

LaunchScope::~LaunchScope() {
  if (--launch_depth == 0) gates_.leave();
}

OutsideLaunch::OutsideLaunch(Gates& gates) : gates_(gates), leaves_(launch_depth > 0 && !std::exchange(outside, true)) {
  if (leaves_) gates_.leave();
}

OutsideLaunch::~OutsideLaunch() {
  if (!leaves_) return;
  outside = false;
  gates_.enter();
}

}  // namespace neaptide::soft
