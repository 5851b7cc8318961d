#include "reporter.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <stdexcept>
#include <utility>

namespace neaptide {
namespace {

using EightBytes = std::array<char, 8>;

EightBytes highest_first(std::uint64_t value) {
  EightBytes bytes{};
  for (std::size_t byte = 0; byte < 8; ++byte) bytes[byte] = static_cast<char>(value >> (8 * (7 - byte)) & 0xff);
  return bytes;
}

}  // namespace

IterationFrame::IterationFrame(std::string frame, std::size_t duration_offset)
    : frame_(std::move(frame)), offset_(duration_offset) {
  const EightBytes place = highest_first(kDurationPlaceholder);
  if (offset_ > frame_.size() || frame_.compare(offset_, place.size(), place.data(), place.size()) != 0)
    throw std::invalid_argument("the frame of an iteration's end holds no place for its duration at byte " +
                                std::to_string(offset_));
}

std::string IterationFrame::filled(std::uint64_t duration_ns) const {
  const EightBytes bytes = highest_first(duration_ns);
  return std::string(frame_).replace(offset_, bytes.size(), bytes.data(), bytes.size());
}

void Reporter::connect(int socket, std::uint64_t known) {
  disconnect();
  std::lock_guard lock(mutex_);
  socket_ =
      ::fcntl(socket, F_DUPFD_CLOEXEC, 0);  // a descriptor of its own: the number cannot come to mean another file
  if (ended_.load() > known) send_locked(last_end_, false);
}

void Reporter::disconnect() {
  std::lock_guard lock(mutex_);
  forget();
}

void Reporter::forget() noexcept {
  if (const int socket = std::exchange(socket_, -1); socket >= 0) ::close(socket);
}

bool Reporter::send(const std::string& frame, bool large) {
  std::lock_guard lock(mutex_);
  return send_locked(frame, large);
}

bool Reporter::send_locked(const std::string& frame, bool large) {
  for (std::size_t sent = 0; sent < frame.size();) {
    if (socket_ < 0) return false;
    const auto more =
        ::send(socket_, frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL | (large ? 0 : MSG_DONTWAIT));
    if (more >= 0) {
      sent += static_cast<std::size_t>(more);
    } else if (errno != EINTR) {
      ::shutdown(socket_, SHUT_RDWR);  // the thread that reads from it sees the end
      forget();
    }
  }
  return true;
}

void Reporter::end_iteration(const IterationFrame& frame, std::uint64_t index, std::uint64_t began_ns,
                             std::uint64_t now_ns) {
  std::lock_guard lock(mutex_);
  // An iteration that was permitted while the device was busy with the one before began when that had ended.
  const std::uint64_t took_ns = now_ns - std::min(now_ns, std::max(began_ns, last_end_ns_));
  last_end_ns_ = now_ns;
  last_end_ = frame.filled(took_ns);
  ended_.store(index + 1);
  send_locked(last_end_, false);
}

}  // namespace neaptide
