// Sends frames to the daemon over a socket: now, or from the device when it has done what was launched.
//
// A report that waits for the device is sent by a thread of the device: no thread of the program waits for it, and none
// needs the interpreter lock. A thread of the interpreter would cost a training loop half a millisecond per report.
//
// No call waits for the other side to read. What its socket has no room for is queued, and a thread of the reporter
// sends it when there is room. Ends of iterations that are queued become one, so that the queue stays small however
// long the other side does not read.
//
// Lock order: the reporter's mutex is a leaf.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

namespace neaptide {

/// What the frame of an iteration's end holds where its duration goes, as eight bytes, the highest first.
inline constexpr std::uint64_t kDurationPlaceholder = std::uint64_t{1} << 62;

/// The frame of an iteration's end, with the place of its duration.
class IterationFrame {
 public:
  /// Throws std::invalid_argument unless the frame holds kDurationPlaceholder at `duration_offset`.
  IterationFrame(std::string frame, std::size_t duration_offset);
  /// The frame with this duration in its place.
  std::string filled(std::uint64_t duration_ns) const;

 private:
  std::string frame_;
  std::size_t offset_;
};

class Reporter {
 public:
  Reporter() = default;
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;
  ~Reporter();

  /// Sends reports to this socket from now on, and owns the descriptor. The other side knows of `known` ended
  /// iterations; if there are more by now, the end of the last is sent again.
  void connect(int socket, std::uint64_t known);
  /// Sends what is queued, for which it waits up to a second, and closes the socket.
  void disconnect();
  /// In a forked child: closes the socket here, and sends nothing.
  void forget() noexcept;

  /// Sends a frame. False when nothing is connected. Too many small frames in the queue end the connection; there may
  /// be any number of large ones.
  bool send(const std::string& frame, bool large);
  /// As send(), for a frame that tells how far the device has come: dropped if the end of an iteration overtakes it.
  void send_progress(const std::string& frame);
  /// The device has passed iteration `index`, which was permitted at `began_ns`: fills in its duration and sends it. If
  /// the end of an earlier iteration is still queued, one frame stands for all, with the sum of the durations.
  void end_iteration(const IterationFrame& frame, std::uint64_t index, std::uint64_t began_ns, std::uint64_t now_ns);
  /// Iterations that the device has passed. Changes nothing.
  std::uint64_t ended() const { return ended_.load(); }

 private:
  enum class Kind : std::uint8_t { small, large, progress, iteration_end };
  struct Queued {
    Kind kind;
    std::string bytes;
    std::size_t sent = 0;
    std::uint64_t took_ns = 0;  // iteration_end: the duration that it holds
  };

  bool add_locked(Queued frame);
  void send_some_locked();
  void give_up_locked();
  std::uint64_t take_back_ends_locked();
  void send_the_rest();
  static void await_room(int socket, std::chrono::milliseconds time);

  std::mutex mutex_;
  int socket_ = -1;
  std::deque<Queued> queue_;
  std::size_t small_bytes_ = 0;  // in the queue
  std::thread sender_;
  bool sending_ = false;  // the thread runs
  std::string last_end_;
  std::uint64_t last_end_ns_ = 0;
  std::atomic<std::uint64_t> ended_{0};
};

}  // namespace neaptide
