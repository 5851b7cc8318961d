// The launch layer of one process on one device, over its slot (Member), its memory (Arena) and the device (Driver).
//
// A device makes one port and tells it three things: a launch begins (enter), kernels were launched (launched), the
// device has done them (passed). The port holds launches until the process may go on, caps how far launching runs
// ahead, tells the board what the iteration may yet hold, serves the daemon's requests, and sends reports.
//
// Nothing here knows torch or a device. Lock order: request mutex -> (launch gate: a count, not a lock) -> the device's
// own locks -> driver; the arena's order is in arena.h; all other mutexes of this folder are leaves.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "../arena.h"
#include "../driver.h"
#include "../member.h"
#include "gates.h"
#include "in_flight.h"
#include "kernel_log.h"
#include "lease_forecast.h"
#include "reporter.h"
#include "request_service.h"
#include "request_thread.h"

namespace neaptide {

struct LaunchOptions {
  /// How long an allocation waits for a lease before OutOfMemory.
  std::chrono::nanoseconds memory_wait = std::chrono::seconds(60);
  /// Whether a thread that waits for room in flight may keep its core busy; unset: it may.
  std::function<bool()> may_spin;
  /// Waits for all launched work; unset: waiting for the streams that have memory is enough.
  std::function<void()> drain;
  /// Called before a thread waits for room in flight: a device that counts kernels in batches closes its batch.
  std::function<void()> before_waiting_for_room;
  /// Gives back leases for what is not there yet; false: there are none. See ArenaOptions. Unset: there never are.
  std::function<bool()> give_allowance;
  /// Called when launches may be held, or are logged, from now on, and before one is held but for room in flight: a
  /// device that looks less closely at launches while they are free looks closely now.
  std::function<void()> look_closely;
  /// Whether a thread of the port serves requests while the program launches nothing. Without it, call step().
  bool request_thread = true;
};

/// An iteration that was launched.
struct LaunchedIteration {
  std::uint64_t index = 0;     // 0 for the first
  std::uint64_t began_ns = 0;  // when it was permitted, on the driver's clock
};

/// Thread-safe. The driver and the member must outlive it; drain the streams before its end.
class LaunchPort {
 public:
  LaunchPort(Driver& driver, Member& member, const LaunchOptions& options);
  LaunchPort(const LaunchPort&) = delete;
  LaunchPort& operator=(const LaunchPort&) = delete;
  ~LaunchPort();

  // Launching.
  /// Begins a launch that may take memory, waiting for gates, permit and requests. For a device with a queue of its
  /// own, which then calls wait_for_room() before it queues the kernel, and may_run() before the kernel runs.
  Launch prepare() { return Launch(gates_); }
  /// Begins a launch, waiting also for room in flight and, if it is heavy, for the heavy gate.
  Launch enter(bool heavy);
  /// As enter(), but says what it would wait for instead of waiting. gates().leave() must follow when it entered.
  Entry try_enter(bool heavy);
  /// As enter(), for what may be a launch or not: it waits neither for room nor for the heavy gate.
  Launch enter_unsure();
  /// Whether no launch of any kind would be logged, or held but for room in flight. Changes nothing.
  bool is_free() const { return gates_.is_free() && !logs_kernels(); }
  /// Waits until fewer kernels are in flight than the cap.
  void wait_for_room() { in_flight_.wait_for_room(); }
  /// Kernels were launched; the device has done kernels.
  void launched(std::uint64_t kernels = 1) { in_flight_.launched(kernels); }
  void passed(std::uint64_t kernels = 1) { in_flight_.passed(kernels); }
  /// How many kernels an iteration is taken to have.
  std::uint64_t kernels() const { return forecast_.kernels(); }
  /// Whether a launched kernel may run now, if it takes `lasts_ns` as far as that is known. Changes nothing.
  bool may_run(bool heavy, std::uint64_t lasts_ns = 0) const { return gates_.execution_clear(heavy, lasts_ns); }
  /// Waits until it may.
  void wait_until_may_run(bool heavy, std::uint64_t lasts_ns = 0) { gates_.pass_execution(heavy, lasts_ns); }

  // Iterations.
  /// Makes the next launch begin an iteration on the board and wait for its permit.
  void arm_iteration() {
    gates_.arm_iteration();
    look_closely();
  }
  /// See Gates::disarm_iteration().
  bool disarm_iteration() { return gates_.disarm_iteration(); }
  /// Ends the iteration that was launched; nothing, changing nothing, when none was since the last call.
  std::optional<LaunchedIteration> end_iteration();
  /// Has the board keep room for the iterations to come; see LeaseForecast::set().
  void expect(std::vector<std::uint64_t> levels, std::uint64_t kernels) { forecast_.set(std::move(levels), kernels); }

  // Holding.
  void hold_launches() {
    gates_.close_launch();
    look_closely();
  }
  void release_launches() { gates_.open_launch(); }
  void refuse_launches(const std::string& reason) { gates_.refuse(reason); }
  bool wait_for_held_launch(Deadline deadline) { return gates_.wait_for_held_launch(deadline); }

  // Memory.
  std::size_t evict(Deadline deadline) { return requests_.evict(deadline); }
  bool restore(Deadline deadline) { return requests_.restore(deadline); }
  /// Serves a pending request as far as it goes without waiting; see RequestService::step().
  Service step() { return requests_.step(); }

  // Reports.
  /// Sends a frame now; see Reporter::send().
  bool report(const std::string& frame, bool large) { return reporter_->send(frame, large); }
  /// Sends a frame when the device has done what was launched on the current stream.
  void report_after(std::string frame);
  /// The same for a frame that tells how far the iteration has come. It is left out while the process runs ahead:
  /// nobody decides by it then, and the daemon would wake up for nothing.
  void report_progress(std::string frame);
  /// The same for the end of an iteration, with its duration filled in.
  void report_iteration(IterationFrame frame, LaunchedIteration iteration);

  /// Serves no more requests: the process is about to end.
  void stop();

  Member& member() { return member_; }
  Arena& arena() { return arena_; }
  Gates& gates() { return gates_; }
  InFlight& in_flight() { return in_flight_; }
  /// The program's own log, and the one by which the process is measured.
  KernelLog& kernel_log() { return kernel_log_; }
  KernelLog& measuring_log() { return measuring_log_; }
  bool logs_kernels() const { return kernel_log_.enabled() || measuring_log_.enabled(); }
  void start_log(KernelLog& log, std::size_t records) {
    log.start(records);
    look_closely();
  }
  void log(const KernelRecord& record) {
    if (kernel_log_.enabled()) kernel_log_.write(record);
    if (measuring_log_.enabled()) measuring_log_.write(record);
  }
  const std::shared_ptr<Reporter>& reporter() { return reporter_; }

 private:
  void look_closely() const {
    if (look_closely_) look_closely_();
  }
  ArenaOptions arena_options(const LaunchOptions& options);
  void say_too_small(std::uint64_t needed_bytes) const;

  Driver& driver_;
  Member& member_;
  const std::function<void()> before_waiting_for_room_;
  const std::function<void()> look_closely_;
  LeaseForecast forecast_;
  InFlight in_flight_;
  Gates gates_;
  RequestService requests_;
  Arena arena_;
  KernelLog kernel_log_;
  KernelLog measuring_log_;
  std::shared_ptr<Reporter> reporter_;     // calls that wait for the device hold it too
  std::uint64_t ended_ = 0;                // iterations that end_iteration() ended
  std::mutex ended_mutex_;                 // guards it; a leaf
  std::unique_ptr<RequestThread> thread_;  // last: it uses everything above
};

}  // namespace neaptide
