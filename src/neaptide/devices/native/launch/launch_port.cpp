#include "launch_port.h"

#include <string>
#include <utility>

#include "blocking.h"
#include "say.h"

namespace neaptide {

LaunchPort::LaunchPort(Driver& driver, Member& member, const LaunchOptions& options)
    : driver_(driver),
      member_(member),
      before_waiting_for_room_(options.before_waiting_for_room),
      look_closely_(options.look_closely),
      forecast_(member),
      in_flight_(member, forecast_, options.may_spin),
      gates_(
          driver, member, [this] { requests_.make_way(); },
          [this] {
            forecast_.begin(in_flight_.launched());
            arena_.rebalance();
          }),
      requests_(member, gates_, in_flight_, forecast_, options.drain,
                [this](std::uint64_t needed_bytes) { say_too_small(needed_bytes); }),
      arena_(driver, member, arena_options(options)),
      reporter_(std::make_shared<Reporter>()) {
  requests_.set_arena(arena_);
  if (options.request_thread) thread_ = std::make_unique<RequestThread>(member_, requests_);
}

LaunchPort::~LaunchPort() { stop(); }

void LaunchPort::stop() {
  requests_.stop();
  thread_.reset();
}

ArenaOptions LaunchPort::arena_options(const LaunchOptions& options) {
  ArenaOptions result;
  result.wait = options.memory_wait;
  result.blocking = [this](const std::function<void()>& wait) {
    // What was launched and has ended counts as done while this thread waits: the daemon asks whether anything runs.
    if (before_waiting_for_room_) before_waiting_for_room_();
    OutsideLaunch outside(gates_);
    blocking(wait);
  };
  result.on_too_small = [this](std::uint64_t needed_bytes) { say_too_small(needed_bytes); };
  result.give_allowance = options.give_allowance;
  result.on_request = [this](Request) {
    OutsideLaunch outside(gates_);  // at its end the thread waits at the gate until the memory is back
    requests_.make_way();
  };
  result.look_for_interrupts = [this] { look_for_interrupts_outside(gates_); };
  return result;
}

void LaunchPort::say_too_small(std::uint64_t needed_bytes) const {
  const auto mebibytes = [](std::uint64_t bytes) { return std::to_string((bytes + (1 << 20) - 1) >> 20); };
  const std::string needed = mebibytes(needed_bytes), job = member_.board().slot(member_.slot()).job.text;
  const std::string line = "neaptide: job " + job + " waits: it needs " + needed + " MiB, and the budget is " +
                           mebibytes(member_.board().capacity_bytes()) +
                           " MiB now; it goes on when there is more (neaptide budget " + needed + "MiB)\n";
  say(line);
}

Entry LaunchPort::try_enter(bool heavy) {
  const Entry entry = gates_.try_enter();
  if (entry != Entry::entered) return entry;
  if (in_flight_.room() && gates_.gate_clear(heavy, 0)) return Entry::entered;
  gates_.leave();
  return in_flight_.room() ? Entry::heavy : Entry::in_flight_cap;
}

Launch LaunchPort::enter(bool heavy) {
  if (Launch::active()) return Launch(gates_);
  if (gates_.try_enter_freely()) {
    if (in_flight_.room()) return Launch(gates_, Launch::Entered{});
    gates_.leave();
  } else {
    look_closely();
  }
  for (;;) {
    const Entry entry = try_enter(heavy);
    if (entry == Entry::entered) return Launch(gates_, Launch::Entered{});
    if (entry != Entry::in_flight_cap) {
      gates_.wait(entry);
      continue;
    }
    if (before_waiting_for_room_) before_waiting_for_room_();
    in_flight_.wait_for_room();
  }
}

Launch LaunchPort::enter_unsure() {
  if (Launch::active()) return Launch(gates_);
  if (gates_.try_enter_freely()) return Launch(gates_, Launch::Entered{});
  look_closely();
  return Launch(gates_);
}

std::optional<LaunchedIteration> LaunchPort::end_iteration() {
  LaunchedIteration iteration;
  {
    const std::lock_guard lock(ended_mutex_);
    const std::uint64_t begun = gates_.iterations_begun();
    if (begun == ended_) return std::nullopt;
    ended_ = begun;
    iteration = {begun - 1, gates_.iteration_began_ns()};
  }
  forecast_.end(in_flight_.launched());
  member_.end_iteration();
  return iteration;
}

void LaunchPort::report_after(std::string frame) {
  driver_.call_after(driver_.current_stream(),
                     [reporter = reporter_, frame = std::move(frame)] { reporter->send(frame, false); });
}

void LaunchPort::report_progress(std::string frame) {
  if (member_.runs_ahead()) return;
  driver_.call_after(driver_.current_stream(),
                     [reporter = reporter_, frame = std::move(frame)] { reporter->send_progress(frame); });
}

void LaunchPort::report_iteration(IterationFrame frame, LaunchedIteration iteration) {
  driver_.call_after(driver_.current_stream(),
                     [&driver = driver_, reporter = reporter_, frame = std::move(frame), iteration] {
                       reporter->end_iteration(frame, iteration.index, iteration.began_ns, driver.now_ns());
                     });
}

}  // namespace neaptide
