// Where a launch or a kernel can be held.
//
// A launch passes the launch gate before it takes memory; a kernel passes the execution gate before it takes SMs. The
// live engine closes them, and arms the launch gate with an iteration that needs a permit from the board. A thread that
// waits for a launch is asked now and then whether it was interrupted (Ctrl-C), and then raises that.
//
// Lock order: the gate mutex is a leaf; nothing is called while it is held.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "../../native/member.h"

namespace neaptide::soft {

class Gates {
 public:
  /// `serve` does what a controller asks of the process; a thread that is about to launch calls it, without locks.
  /// `on_permit` is called when an iteration was permitted, before its first launch.
  Gates(Member& member, std::function<void(Request)> serve, std::function<void()> on_permit)
      : member_(member), serve_(std::move(serve)), on_permit_(std::move(on_permit)) {}

  void close_launch() { set(kLaunch, true); }
  void open_launch() { set(kLaunch, false); }
  void close_execution() { set(kExecution, true); }
  void open_execution() { set(kExecution, false); }
  bool launch_open() const { return !(closed_.load() & kLaunch); }
  bool execution_open() const { return !(closed_.load() & kExecution); }
  /// The next launch begins an iteration on the board and waits for its permit.
  void arm_iteration() { set(kPermit, true); }
  /// Iterations that were permitted so far, and when the newest was.
  std::uint64_t iterations_begun() const { return begun_.load(); }
  std::uint64_t iteration_began_ns() const { return began_ns_.load(); }
  /// Every launch from now on, and every one that waits, raises torch.OutOfMemoryError with this reason.
  void refuse(const std::string& reason);
  /// Waits until a launch stands at the closed launch gate; false at the deadline.
  bool wait_for_held_launch(Deadline deadline);

  /// Waits until no thread is inside a launch; close the launch gate first. False at the deadline.
  bool quiesce(Deadline deadline);

  /// Cheap test whether pass_execution() could wait.
  bool execution_clear(bool heavy) const { return execution_open() && (!heavy || member_.heavy_open()); }
  /// Waits until a kernel may run. Call it without SM tokens.
  void pass_execution(bool heavy);

 private:
  friend class LaunchScope;
  friend class OutsideLaunch;
  static constexpr std::uint32_t kLaunch = 1;
  static constexpr std::uint32_t kExecution = 2;
  static constexpr std::uint32_t kPermit = 4;
  static constexpr std::uint32_t kRefused = 8;

  void set(std::uint32_t bit, bool closed);
  void enter();
  void leave();
  void await_permit();
  void await_open_launch();
  bool refused() const { return closed_.load() & kRefused; }

  Member& member_;
  std::function<void(Request)> serve_;
  std::function<void()> on_permit_;
  std::atomic<std::uint32_t> closed_{0};
  std::atomic<std::int32_t> inside_{0};
  std::atomic<std::uint64_t> begun_{0};
  std::atomic<std::uint64_t> began_ns_{0};
  std::uint32_t held_ = 0;  // launches at the closed gate
  std::string refusal_;
  std::mutex mutex_;
  std::condition_variable changed_;
};

/// A launch in progress on this thread; nested ones count once.
class LaunchScope {
 public:
  explicit LaunchScope(Gates& gates);
  LaunchScope(const LaunchScope&) = delete;
  LaunchScope& operator=(const LaunchScope&) = delete;
  ~LaunchScope();

 private:
  Gates& gates_;
};

/// The launch on this thread stands still (it waits for memory): for quiesce() it does not count. Inside another one
/// it does nothing: a thread that moves its own process out must not answer that request again.
class OutsideLaunch {
 public:
  explicit OutsideLaunch(Gates& gates);
  OutsideLaunch(const OutsideLaunch&) = delete;
  OutsideLaunch& operator=(const OutsideLaunch&) = delete;
  /// Comes back to the gate, which may refuse the launch.
  ~OutsideLaunch() noexcept(false);

 private:
  Gates& gates_;
  const bool leaves_;
};

}  // namespace neaptide::soft
