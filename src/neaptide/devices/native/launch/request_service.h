// Does what the daemon asks of the process: evict its memory to host memory, and restore it.
//
// Three ways: make_way() moves the memory away at once, on the thread that finds the request; serve() does so, too, and
// waits until the memory is restored; step() never waits. Only the request thread calls serve(): a thread of the
// program waits at the gate, where the handlers of its signals run. While the daemon is silent (board.h), nothing is
// evicted, and what is evicted is restored. Memory that has not returned when the daemon speaks again stays in host
// memory until the daemon asks for it: other processes have the room by then, and they and the returning process would
// wait for each other.
//
// Lock order: the request mutex comes before every other lock of the launch layer, the arena and the device.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>

#include "../arena.h"
#include "../member.h"
#include "gates.h"
#include "in_flight.h"
#include "lease_forecast.h"

namespace neaptide {

/// What step() came to. `busy`: the request is not served yet, because launched work has to end (evict, suspend) or
/// because there is no memory yet (restore, resume). `failed`: the memory stays on the device (serve() says why).
enum class Service : std::uint32_t { nothing, busy, evicted, restored, failed };

class RequestService {
 public:
  /// `drain` waits for all launched work; unset: the arena's own wait for its streams is enough. `on_too_small` is
  /// called when the memory cannot return because the device has become too small for it, with its bytes.
  RequestService(Member& member, Gates& gates, InFlight& in_flight, LeaseForecast& forecast,
                 std::function<void()> drain, std::function<void(std::uint64_t)> on_too_small)
      : member_(member),
        gates_(gates),
        in_flight_(in_flight),
        forecast_(forecast),
        drain_(std::move(drain)),
        on_too_small_(std::move(on_too_small)) {}

  /// Must be called before anything else; the arena needs the service for its own options.
  void set_arena(Arena& arena) { arena_ = &arena; }

  /// Moves the memory to host memory if that is asked for and no other thread does it. Call it outside a launch.
  /// That may fail: there is no host memory, or a launch does not end. The process then goes on as it was, and the
  /// daemon sees a request that is finished and memory that is still held. Never throws for that.
  void make_way();
  /// Serves a request unless another thread has, and restores what is in host memory when that is wanted; returns when
  /// the process may launch again. Call it outside a launch. Fails like make_way().
  void serve();
  /// Whether serve() has something to do. Changes nothing.
  bool wanted() const { return away_.load() || member_.request() != Request::none; }
  /// Serves the pending request as far as it goes without waiting. A restore that finds no memory keeps its place in
  /// line until a later step succeeds. For a caller that has no other threads.
  Service step();
  /// Makes serve() return soon, evicted or not: the process is about to end.
  void stop() { stopping_.store(true); }

  /// Holds launches, waits for launched work, and copies the process's memory to host memory; returns bytes given back
  /// to the board. Throws std::runtime_error, changing nothing, when that cannot be done by the deadline.
  std::size_t evict(Deadline deadline);
  /// Restores evicted memory and lets launches go on; false when there was no memory by the deadline.
  bool restore(Deadline deadline);

 private:
  void leave_if_asked();
  bool move_out(Request request, Deadline deadline);
  void return_when_wanted();
  bool is_wanted_back() const;
  /// Waits until the memory is back, or the process is about to end. False: the memory was to return only because the
  /// daemon was silent, and it speaks again.
  bool return_all();
  /// Gives up a return that has begun.
  void stay_out();
  void begin_return();
  void finish_return();

  Member& member_;
  Gates& gates_;
  InFlight& in_flight_;
  LeaseForecast& forecast_;
  const std::function<void()> drain_;
  const std::function<void(std::uint64_t)> on_too_small_;
  Arena* arena_ = nullptr;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> away_{false};    // the memory was moved because the daemon asked, and has not returned
  std::mutex mutex_;                 // held while a request is served
  std::optional<LeaseClaim> claim_;  // of a restore that step() could not finish
};

}  // namespace neaptide
