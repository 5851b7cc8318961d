// Tells a controller, over a socket, what the device has passed.
//
// A report is a task of the stream: the worker sends it when it comes to it. No thread waits for it, and nobody needs
// the interpreter lock; a thread of the interpreter that did would cost a training loop half a millisecond per report.
//
// Lock order: the reporter's mutex is a leaf. Nobody waits for a controller that does not read, but who sends what is
// large.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "stream.h"

namespace neaptide::soft {

class Reporter : public std::enable_shared_from_this<Reporter> {
 public:
  Reporter() = default;
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;
  ~Reporter() { disconnect(); }

  /// Reports go to this socket from now on. The other side knows of so many ended iterations; if there are more by now,
  /// the end of the last is said again.
  void connect(int socket, std::uint64_t known);
  void disconnect();
  /// In a forked child: lets go of the socket without a word.
  void forget() noexcept;

  /// Sends a message now; large ones wait for the other side. False, and the end of the connection, when it fails.
  bool send(const std::string& message, bool large);
  /// Sends a message when the stream has come to it.
  void send_on(Stream& stream, std::string message);
  /// The same for the end of iteration `index`, which was permitted at `began_ns`: the last eight bytes of the message
  /// become its duration in nanoseconds, the highest byte first.
  void end_on(Stream& stream, std::string message, std::uint64_t index, std::uint64_t began_ns);
  /// Iterations that the device has passed.
  std::uint64_t ended() const { return ended_.load(); }

 private:
  class Report;
  bool send_locked(const std::string& message, bool large);
  void passed(std::string& message, std::uint64_t index, std::uint64_t began_ns);

  std::mutex mutex_;
  int socket_ = -1;
  std::string last_end_;
  std::uint64_t last_end_ns_ = 0;
  std::atomic<std::uint64_t> ended_{0};
};

}  // namespace neaptide::soft
