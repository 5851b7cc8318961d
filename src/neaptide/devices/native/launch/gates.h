// Where a launch or a kernel can be held.
//
// A launch passes the launch gate before it takes memory; a kernel passes the execution gate before it runs. The live
// engine closes them, and arms the launch gate: the next launch then begins an iteration and needs its permit from the
// board. A thread that waits to launch looks now and then for signals: the program's handlers run, and may throw.
//
// Lock order: permit mutex -> gate mutex. With the permit mutex held, only the board's atomics, the driver's
// clock and `on_permit` are used; with the gate mutex held, nothing is called.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>

#include "../driver.h"
#include "../member.h"

namespace neaptide {

/// The process may not launch any more; the message is the reason that refuse() was given.
class LaunchRefused : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What an attempt to launch came to: it may go on, or what it has to wait for.
enum class Entry : std::uint32_t {
  entered,
  held,           // launches are held, or the process's memory is in host memory
  permit,         // the iteration that this launch begins has no permit yet
  request,        // the daemon's request must be served first
  heavy,          // the board's gate holds the kernel; only LaunchPort says so
  in_flight_cap,  // as many kernels are in flight as may be; only LaunchPort says so
  refused,        // no launch will ever go on
};

class Gates {
 public:
  /// `make_way` moves the process's memory away if the daemon asks for that; a thread that is about to launch calls it,
  /// without locks. `on_permit` is called when an iteration was permitted, before its first launch.
  Gates(Driver& driver, Member& member, std::function<void()> make_way, std::function<void()> on_permit)
      : driver_(driver), member_(member), make_way_(std::move(make_way)), on_permit_(std::move(on_permit)) {}

  /// Holds every launch from now on; lets them go on.
  void close_launch() { set(kHeld, true); }
  void open_launch() { set(kHeld, false); }
  /// As close_launch(), for an eviction. A launch passes only when both are open.
  void close_for_eviction() { set(kEvicted, true); }
  void open_after_eviction() { set(kEvicted, false); }
  /// Holds every kernel that has not begun; lets them run.
  void close_execution() { set(kExecution, true); }
  void open_execution() { set(kExecution, false); }
  bool launch_open() const { return !(closed_.load() & (kHeld | kEvicted)); }
  bool execution_open() const { return !(closed_.load() & kExecution); }
  /// Makes the next launch begin an iteration on the board and wait for its permit.
  void arm_iteration() { set(kPermit, true); }
  /// The next launch begins no iteration after all. False, changing nothing, when one has come.
  bool disarm_iteration();
  /// Iterations that were permitted so far, and when the newest was.
  std::uint64_t iterations_begun() const { return begun_.load(); }
  std::uint64_t iteration_began_ns() const { return began_ns_.load(); }
  /// Whether a launch waits for an iteration's permit. Changes nothing.
  bool awaits_permit() const { return awaits_permit_.load(); }
  /// Makes every launch from now on, and every one that waits, throw LaunchRefused with this reason.
  void refuse(const std::string& reason);
  /// Waits until a launch waits at the closed launch gate; false at the deadline.
  bool wait_for_held_launch(Deadline deadline);

  /// Begins a launch if nothing holds it; never waits. leave() must follow when the launch was entered.
  Entry try_enter();
  /// As try_enter(), but cheap, and only if no launch of any kind would be held.
  bool try_enter_freely() {
    inside_.fetch_add(1);
    if (is_free()) return true;
    leave();
    return false;
  }
  /// Whether no launch of any kind would be held. Changes nothing.
  bool is_free() const { return closed_.load() == 0 && member_.unhindered(); }
  /// Begins a launch, waiting for whatever holds it. Throws LaunchRefused.
  void enter();
  /// Counts a launch that only unwinds, whatever the gates say.
  void enter_to_abandon() { inside_.fetch_add(1); }
  /// Ends a launch.
  void leave();
  /// Waits for the cause that try_enter() named to change, or makes way if it was that; try again afterwards.
  void wait(Entry cause);
  /// Waits until no thread is inside a launch; close the launch gate first. False at the deadline.
  bool quiesce(Deadline deadline);

  /// Cheap test whether pass_execution() could wait.
  bool execution_clear(bool heavy, std::uint64_t lasts_ns) const {
    return execution_open() && gate_clear(heavy, lasts_ns);
  }
  /// Waits until a kernel may run that is expected to take this long.
  void pass_execution(bool heavy, std::uint64_t lasts_ns);
  /// Whether the board's gate lets a kernel of this duration pass: a light one, or while it is open long enough.
  bool gate_clear(bool heavy, std::uint64_t lasts_ns) const {
    const std::uint64_t until_ns = member_.heavy_until_ns();
    if (until_ns == kAlways || (!heavy && !member_.gate_holds_light())) return true;
    return until_ns != 0 && driver_.now_ns() + lasts_ns <= until_ns;
  }

 private:
  static constexpr std::uint32_t kHeld = 1;
  static constexpr std::uint32_t kExecution = 2;
  static constexpr std::uint32_t kPermit = 4;
  static constexpr std::uint32_t kRefused = 8;
  static constexpr std::uint32_t kEvicted = 16;

  void set(std::uint32_t bit, bool closed);
  bool permit_iteration();
  void await_permit();
  void await_request();
  void await_open_launch();
  bool refused() const { return closed_.load() & kRefused; }

  Driver& driver_;
  Member& member_;
  std::function<void()> make_way_;
  std::function<void()> on_permit_;
  std::atomic<std::uint32_t> closed_{0};
  std::atomic<std::int32_t> inside_{0};
  std::atomic<std::uint64_t> begun_{0};
  std::atomic<std::uint64_t> began_ns_{0};
  std::mutex permit_mutex_;                 // guards the two below
  std::optional<std::uint64_t> iteration_;  // begun on the board and not permitted yet
  std::atomic<bool> awaits_permit_{false};
  std::uint32_t held_ = 0;  // launches at the closed gate
  std::string refusal_;     // written once, before kRefused is set
  std::mutex mutex_;
  std::condition_variable changed_;
};

/// A launch in progress on this thread; nested ones count once.
class Launch {
 public:
  explicit Launch(Gates& gates);
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;
  ~Launch();
  /// Whether this thread is inside a launch.
  static bool active();

 private:
  friend class LaunchPort;
  struct Entered {};
  Launch(Gates& gates, Entered);

  Gates& gates_;
};

/// While it lives, the launch on this thread does not count for quiesce(): it waits for memory. A nested one does
/// nothing; otherwise a thread that serves an eviction would enter the gate again and serve the same request twice.
/// When it ends by an exception, the launch is abandoned, and counts again until it has unwound.
class OutsideLaunch {
 public:
  explicit OutsideLaunch(Gates& gates);
  OutsideLaunch(const OutsideLaunch&) = delete;
  OutsideLaunch& operator=(const OutsideLaunch&) = delete;
  /// Passes the gate again, which may refuse the launch.
  ~OutsideLaunch() noexcept(false);

 private:
  Gates& gates_;
  const bool leaves_;
  const int errors_;  // that were being handled when it began
};

/// Lets the handlers of signals run in the middle of a launch, which does not count meanwhile. Throws what they throw.
void look_for_interrupts_outside(Gates& gates);

}  // namespace neaptide
