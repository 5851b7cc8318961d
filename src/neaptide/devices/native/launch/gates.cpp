#include "gates.h"

#include <exception>
#include <utility>

#include "blocking.h"

namespace neaptide {

namespace {
thread_local int launch_depth = 0;
thread_local bool outside = false;  // the launch on this thread is left for a while

/// For a thread that waits at the gate: no launch counts it. What it launches meanwhile, in the handler of a signal,
/// passes the gate like any launch.
class AtTheGate {
 public:
  AtTheGate() : depth_(std::exchange(launch_depth, 0)), outside_(std::exchange(outside, false)) {}
  AtTheGate(const AtTheGate&) = delete;
  AtTheGate& operator=(const AtTheGate&) = delete;
  ~AtTheGate() {
    launch_depth = depth_;
    outside = outside_;
  }

 private:
  const int depth_;
  const bool outside_;
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

Entry Gates::try_enter() {
  inside_.fetch_add(1);
  const auto closed = closed_.load();
  // When the gate is open after an eviction, a request for the memory's return is as good as finished.
  const auto request = member_.request();
  const bool requested = asks_to_leave(request) || (request != Request::none && (closed & kEvicted));
  if (!(closed & (kHeld | kEvicted | kPermit | kRefused)) && !requested) return Entry::entered;
  auto entry = Entry::permit;
  if (closed & kRefused) {
    entry = Entry::refused;
  } else if (requested) {
    entry = Entry::request;
  } else if (closed & (kHeld | kEvicted)) {
    entry = Entry::held;
  } else if (permit_iteration()) {  // inside the launch: an eviction that begins now waits for it
    return Entry::entered;
  }
  leave();
  return entry;
}

void Gates::enter() {
  for (;;) {
    const Entry entry = try_enter();
    if (entry == Entry::entered) return;
    wait(entry);
  }
}

void Gates::leave() {
  // Only quiesce() waits for this, and only with the launch gate closed.
  if (inside_.fetch_sub(1) == 1 && !launch_open()) {
    std::lock_guard lock(mutex_);
    changed_.notify_all();
  }
}

void Gates::wait(Entry cause) {
  const Waits waits(member_);
  const AtTheGate at_the_gate;
  switch (cause) {
    case Entry::refused:
      throw LaunchRefused(refusal_);
    case Entry::request:
      return await_request();
    case Entry::held:
      return await_open_launch();
    case Entry::permit:
      return await_permit();
    case Entry::heavy:
      blocking_with_interrupts([this](Deadline look) {
        return member_.wait_control([this] { return gate_clear(true, 0) || refused(); }, look);
      });
      return;
    case Entry::entered:
    case Entry::in_flight_cap:
      return;
  }
}

bool Gates::permit_iteration() {
  std::lock_guard lock(permit_mutex_);
  if (!(closed_.load() & kPermit)) return true;  // another thread's launch began the iteration
  if (!iteration_) iteration_ = member_.begin_iteration();
  if (!member_.permitted(*iteration_)) {
    awaits_permit_.store(true);
    member_.set_state(SlotState::waiting_permit);
    return false;
  }
  if (awaits_permit_.exchange(false)) {
    member_.set_state(SlotState::running);
    member_.renew_age();  // an iteration that waited long for its permit is not older than those that ran meanwhile
  }
  member_.enter_iteration(*iteration_);
  iteration_.reset();
  on_permit_();
  began_ns_.store(driver_.now_ns());
  begun_.fetch_add(1);
  set(kPermit, false);
  return true;
}

bool Gates::disarm_iteration() {
  std::lock_guard lock(permit_mutex_);
  if (iteration_ || !(closed_.load() & kPermit)) return false;
  set(kPermit, false);
  return true;
}

void Gates::await_permit() {
  std::uint64_t iteration = 0;
  {
    std::lock_guard lock(permit_mutex_);
    if (!iteration_) return;
    iteration = *iteration_;
  }
  const auto may_go = [&] { return member_.permitted(iteration) || refused(); };
  blocking_with_interrupts([&](Deadline look) { return member_.wait_control(may_go, look); });
}

void Gates::await_request() {
  if (closed_.load() & kEvicted) return await_open_launch();  // another thread moves the memory, or brings it back
  make_way_();
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

void Gates::pass_execution(bool heavy, std::uint64_t lasts_ns) {
  for (;;) {
    if (!execution_open()) {
      const Waits waits(member_);
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return execution_open(); });
    } else if (!gate_clear(heavy, lasts_ns)) {
      const Waits waits(member_);
      member_.wait_control([&] { return gate_clear(heavy, lasts_ns); }, Deadline::max());
    } else {
      return;
    }
  }
}

Launch::Launch(Gates& gates) : gates_(gates) {
  if (launch_depth == 0) gates_.enter();
  ++launch_depth;
}

Launch::Launch(Gates& gates, Entered /*unused*/) : gates_(gates) { ++launch_depth; }

Launch::~Launch() {
  if (--launch_depth == 0) gates_.leave();
}

bool Launch::active() { return launch_depth > 0; }

OutsideLaunch::OutsideLaunch(Gates& gates)
    : gates_(gates), leaves_(launch_depth > 0 && !std::exchange(outside, true)), errors_(std::uncaught_exceptions()) {
  if (leaves_) gates_.leave();
}

OutsideLaunch::~OutsideLaunch() noexcept(false) {
  if (!leaves_) return;
  outside = false;
  if (std::uncaught_exceptions() > errors_) {
    gates_.enter_to_abandon();
    return;
  }
  try {
    gates_.enter();
  } catch (...) {
    gates_.enter_to_abandon();
    throw;
  }
}

void look_for_interrupts_outside(Gates& gates) {
  const OutsideLaunch outside_launch(gates);
  const AtTheGate at_the_gate;
  look_for_interrupts();
}

}  // namespace neaptide
