// Sends frames to a controller over a socket: now, or from the device when it has done what was launched.
//
// A report that waits for the device is sent by a thread of the device: no thread of the program waits for it, and none
// needs the interpreter lock. A thread of the interpreter would cost a training loop half a millisecond per report.
//
// Lock order: the reporter's mutex is a leaf. Small sends never block; large sends may.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

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
  ~Reporter() { disconnect(); }

  /// Sends reports to this socket from now on. The other side knows of `known` ended iterations; if there are more by
  /// now, the end of the last is sent again.
  void connect(int socket, std::uint64_t known);
  void disconnect();
  /// In a forked child: closes the socket here, and sends nothing.
  void forget() noexcept;

  /// Sends a frame now; a large one may wait for the other side to read. False, and the end of the connection, when it
  /// fails; false when nothing is connected.
  bool send(const std::string& frame, bool large);
  /// The device has passed iteration `index`, which was permitted at `began_ns`: fills in its duration and sends it.
  void end_iteration(const IterationFrame& frame, std::uint64_t index, std::uint64_t began_ns, std::uint64_t now_ns);
  /// Iterations that the device has passed. Changes nothing.
  std::uint64_t ended() const { return ended_.load(); }

 private:
  bool send_locked(const std::string& frame, bool large);

  std::mutex mutex_;
  int socket_ = -1;
  std::string last_end_;
  std::uint64_t last_end_ns_ = 0;
  std::atomic<std::uint64_t> ended_{0};
};

}  // namespace neaptide
