// The process's side of the device: its board, arena, streams and gates, made once and found from everywhere.
//
// Order of locks across the parts: launch gate (not a lock, a count) -> queue mutex -> driver counters; the arena's own
// order is in arena.h. Nothing of this is touched in a forked child: get() throws there.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "../../native/arena.h"
#include "../../native/board.h"
#include "attendant.h"
#include "gates.h"
#include "in_flight.h"
#include "logger.h"
#include "stream.h"

namespace neaptide::soft {

struct RuntimeOptions {
  std::string board_path;
  std::uint64_t capacity_bytes = 0;
  std::uint32_t sms = 1;    // of the board, when it is new
  std::uint32_t width = 1;  // most SMs a kernel of this process uses; 0 means all the board has
  std::string job;
  double wait_seconds = 60;
};

class Runtime {
 public:
  /// Joins the board and starts the default stream. Once per process.
  static void start(const RuntimeOptions& options, void (*prepare_worker)(), void (*set_width)(std::uint32_t));
  /// Throws std::runtime_error when not started, stopped, or in a forked child.
  static Runtime& get();
  /// Null where get() would throw.
  static Runtime* find() noexcept;
  static bool forked() noexcept;
  /// Drains, leaves the board and ends the workers; the device cannot be used afterwards.
  static void stop();

  Runtime(const RuntimeOptions& options, void (*prepare_worker)(), void (*set_width)(std::uint32_t));
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  ~Runtime();

  Board& board() { return *board_; }
  Member& member() { return member_; }
  HostDriver& driver() { return driver_; }
  Arena& arena() { return *arena_; }
  Gates& gates() { return gates_; }
  InFlight& in_flight() { return in_flight_; }
  ErrorBox& errors() { return errors_; }
  Logger& logger() { return logger_; }
  /// Most SMs a kernel of this process may use.
  std::uint32_t width() const { return width_; }

  /// The calling thread's current stream.
  Stream& current() { return stream(current_id()); }
  static StreamId current_id();
  static StreamId exchange_current(StreamId id);
  Stream& stream(StreamId id);
  StreamId new_stream();
  /// Waits for every stream; then throws what a kernel threw since the last time.
  void synchronize();
  void drain();

  /// Stops launching, drains, and copies the process's memory to the host; returns bytes given back to the board.
  std::size_t evict(double seconds);
  /// Brings it back and lets launches go on; false when no memory could be had in time.
  bool restore(double seconds);

 private:
  /// Does what a controller asks: makes room and stands still until it may come back. Call it outside a launch.
  void serve(Request request);
  void make_room(Request request);
  void come_back();
  ArenaOptions arena_options(const RuntimeOptions& options);

  std::mutex request_mutex_;  // held while a request is served; before everything else
  std::shared_ptr<Board> board_;
  Member member_;
  HostDriver driver_;
  Gates gates_;
  InFlight in_flight_;
  ErrorBox errors_;
  Logger logger_;
  std::uint32_t width_;
  std::unique_ptr<Arena> arena_;
  StreamContext context_;
  std::mutex streams_mutex_;  // guards making streams; a stream that exists is read without it
  std::array<std::atomic<Stream*>, HostDriver::kStreams> by_id_{};
  std::array<std::unique_ptr<Stream>, HostDriver::kStreams> streams_;
  std::size_t next_stream_ = 1;
  std::atomic<bool> stopping_{false};
  std::unique_ptr<Attendant> attendant_;  // last: it uses everything above
};

}  // namespace neaptide::soft
