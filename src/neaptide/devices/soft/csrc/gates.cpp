#include "gates.h"

#include <c10/util/Exception.h>

#include <utility>

#include "blocking.h"

namespace neaptide::soft {

namespace {
thread_local int launch_depth = 0;
thread_local bool outside = false;  // the launch on this thread stands still

/// For a thread that answers a request at the gate: what it does for that is in no launch that it would have to leave.
class AtTheGate {
 public:
  AtTheGate() : before_(std::exchange(outside, true)) {}
  AtTheGate(const AtTheGate&) = delete;
  AtTheGate& operator=(const AtTheGate&) = delete;
  ~AtTheGate() { outside = before_; }

 private:
  const bool before_;
};
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
    if (!(closed & (kLaunch | kPermit | kRefused)) && request == Request::none) return;
    leave();
    TORCH_CHECK_WITH(OutOfMemoryError, !(closed & kRefused), refusal_);
    if (request != Request::none) {
      const AtTheGate at_the_gate;
      serve_(request);
    } else if (closed & kLaunch) {
      await_open_launch();
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
  if (!member_.permitted(iteration)) {
    member_.set_state(JobState::waiting_permit);
    const auto may_go = [&] { return member_.permitted(iteration) || refused(); };
    blocking_with_interrupts([&](Deadline look) { return member_.wait_control(may_go, look); });
    member_.set_state(JobState::running);
    member_.renew_age();  // who waited long for the permit is not older than those that ran meanwhile
  }
  on_permit_();
  began_ns_.store(now_ns());
  begun_.fetch_add(1);
}

void Gates::await_open_launch() {
  {
    std::lock_guard lock(mutex_);
    ++held_;
  }
  changed_.notify_all();
  struct Held {
    Gates& gates;
    ~Held() {
      std::lock_guard lock(gates.mutex_);
      --gates.held_;
    }
  } const held{*this};
  blocking_with_interrupts([this](Deadline look) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, look, [this] { return launch_open() || refused(); });
  });
}

bool Gates::wait_for_held_launch(Deadline deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [this] { return held_ > 0; });
}

void Gates::refuse(const std::string& reason) {
  {
    std::lock_guard lock(mutex_);
    if (refused()) return;  // a launch may be reading the first reason
    refusal_ = reason;
  }
  set(kRefused, true);
  member_.poke_controls();
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

OutsideLaunch::~OutsideLaunch() noexcept(false) {
  if (!leaves_) return;
  outside = false;
  gates_.enter();
}

}  // namespace neaptide::soft
