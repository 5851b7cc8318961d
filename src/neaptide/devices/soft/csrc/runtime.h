// The process's side of the device: its board, streams and launch port, made once and found from everywhere.
//
// Order of locks across the parts: launch gate (not a lock, a count) -> queue mutex -> driver counters; the launch
// layer's and the arena's own orders are in launch_port.h and arena.h. A forked child touches nothing of this: get()
// throws there. A child that was forked before the device was first used may start one of its own.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "../../native/board.h"
#include "../../native/launch/launch_port.h"
#include "stream.h"

namespace neaptide::soft {

struct RuntimeOptions {
  std::string board_path;
  bool makes_board = false;          // when there is none; a job of a daemon does not
  std::uint64_t capacity_bytes = 0;  // of the board, when it is new
  std::uint32_t sms = 1;             // of the board, when it is new
  std::uint32_t width = 1;           // most SMs a kernel of this process uses; 0 means all the board has
  std::string job;
  double wait_seconds = 60;
  double link_bandwidth = 0;  // to host memory, bytes per second
  bool held = false;          // launches are held from the beginning
};

class Runtime {
 public:
  /// Has get() call this, which calls start(), when the device is first used. It may throw.
  static void start_on_first_use(void (*first_use)());
  /// Joins the board and starts the default stream. Once per process.
  static void start(const RuntimeOptions& options, void (*prepare_worker)(), void (*set_width)(std::uint32_t));
  /// Starts the device if this is its first use. Throws std::runtime_error when it was stopped, and in a forked child.
  static Runtime& get();
  /// Null when the device has not started, was stopped, and in a forked child of a process that has started it.
  static Runtime* find() noexcept;
  /// Whether this process was forked from one that had started the device.
  static bool forked() noexcept;
  /// Drains, leaves the board and ends the workers; the device cannot be used afterwards.
  static void stop();

  Runtime(const RuntimeOptions& options, void (*prepare_worker)(), void (*set_width)(std::uint32_t));
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  ~Runtime();

  Board& board() { return member_->board(); }
  Member& member() { return *member_; }
  HostDriver& driver() { return driver_; }
  LaunchPort& port() { return port_; }
  Arena& arena() { return port_.arena(); }
  ErrorBox& errors() { return errors_; }
  const SmRegion& sms() const { return sms_; }
  /// Most SMs a kernel of this process may use.
  std::uint32_t width() const { return width_; }

  /// Begins a launch, waiting for whatever holds it; torch.OutOfMemoryError when launches are refused.
  Launch begin_launch();

  /// The calling thread's current stream.
  Stream& current() { return stream(HostDriver::current()); }
  Stream& stream(StreamId id);
  StreamId new_stream();
  /// Waits for every stream; then throws what a kernel threw since the last time.
  void synchronize();
  void drain();

 private:
  LaunchOptions launch_options(const RuntimeOptions& options);

  std::unique_ptr<Member> member_;
  HostDriver driver_;
  SmRegion& sms_;
  SmPace pace_;
  ErrorBox errors_;
  std::uint32_t width_;
  std::mutex streams_mutex_;  // guards making streams; a stream that exists is read without it
  std::array<std::atomic<Stream*>, HostDriver::kStreams> by_id_{};
  LaunchPort port_;
  StreamContext context_;
  std::array<std::unique_ptr<Stream>, HostDriver::kStreams> streams_;
  std::size_t next_stream_ = 1;
};

/// Waits for everything that was launched, if anything was; then throws what a kernel threw since the last time.
void synchronize();

}  // namespace neaptide::soft
