#include "launch_port.h"

#include <utility>

#include "blocking.h"

namespace neaptide {

LaunchPort::LaunchPort(Driver& driver, Member& member, const LaunchOptions& options)
    : driver_(driver),
      member_(member),
      forecast_(member),
      in_flight_(member, forecast_, options.may_spin),
      gates_(
          driver, member, [this](Request request) { requests_.serve(request); },
          [this] { forecast_.begin(in_flight_.launched()); }),
      requests_(member, gates_, in_flight_, forecast_, options.drain),
      arena_(driver, member, arena_options(options)),
      reporter_(std::make_shared<Reporter>()) {
  requests_.set_arena(arena_);
  if (options.request_thread)
    thread_ = std::make_unique<RequestThread>(member_, [this](Request request) { requests_.serve(request); });
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
    OutsideLaunch outside(gates_);
    blocking(wait);
  };
  result.on_request = [this](Request request) {
    OutsideLaunch outside(gates_);
    requests_.serve(request);
  };
  return result;
}

Entry LaunchPort::try_enter(bool heavy) {
  const Entry entry = gates_.try_enter();
  if (entry != Entry::entered) return entry;
  if (in_flight_.room() && (!heavy || member_.heavy_open())) return Entry::entered;
  gates_.leave();
  return in_flight_.room() ? Entry::heavy : Entry::in_flight_cap;
}

Launch LaunchPort::enter(bool heavy) {
  if (Launch::active()) return Launch(gates_);
  for (;;) {
    const Entry entry = try_enter(heavy);
    if (entry == Entry::entered) return Launch(gates_, Launch::Entered{});
    if (entry == Entry::in_flight_cap)
      in_flight_.wait_for_room();
    else
      gates_.wait(entry);
  }
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

void LaunchPort::report_iteration(IterationFrame frame, LaunchedIteration iteration) {
  driver_.call_after(driver_.current_stream(),
                     [&driver = driver_, reporter = reporter_, frame = std::move(frame), iteration] {
                       reporter->end_iteration(frame, iteration.index, iteration.began_ns, driver.now_ns());
                     });
}

}  // namespace neaptide
