#include "reporter.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace neaptide {
namespace {

constexpr std::size_t kMostSmallBytes = 1 << 20;
constexpr auto kFarewell = std::chrono::seconds(1);
constexpr auto kLook = std::chrono::milliseconds(100);  // between looks whether the connection has ended

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

Reporter::~Reporter() {
  disconnect();
  if (sender_.joinable()) sender_.join();
}

void Reporter::connect(int socket, std::uint64_t known) {
  disconnect();
  std::lock_guard lock(mutex_);
  socket_ = socket;
  if (ended_.load() > known) add_locked({Kind::iteration_end, last_end_});
}

void Reporter::disconnect() {
  const auto deadline = std::chrono::steady_clock::now() + kFarewell;
  std::unique_lock lock(mutex_);
  while (socket_ >= 0 && !queue_.empty() && std::chrono::steady_clock::now() < deadline) {
    const int socket = socket_;
    lock.unlock();
    await_room(socket, kLook);
    lock.lock();
    send_some_locked();
  }
  forget();
  queue_.clear();
  small_bytes_ = 0;
}

void Reporter::forget() noexcept {
  if (const int socket = std::exchange(socket_, -1); socket >= 0) ::close(socket);
}

bool Reporter::send(const std::string& frame, bool large) {
  std::lock_guard lock(mutex_);
  return add_locked({large ? Kind::large : Kind::small, frame});
}

void Reporter::send_progress(const std::string& frame) {
  std::lock_guard lock(mutex_);
  add_locked({Kind::progress, frame});
}

bool Reporter::add_locked(Queued frame) {
  if (socket_ < 0) return false;
  if (frame.kind != Kind::large) small_bytes_ += frame.bytes.size();
  queue_.push_back(std::move(frame));
  if (!sending_) send_some_locked();
  if (small_bytes_ > kMostSmallBytes) give_up_locked();
  if (socket_ < 0) return false;
  if (queue_.empty() || sending_) return true;
  if (sender_.joinable()) sender_.join();  // it has ended
  try {
    sender_ = std::thread([this] { send_the_rest(); });
    sending_ = true;
  } catch (const std::system_error&) {
    // The process may have no more threads: the next frame takes the queue along.
  }
  return true;
}

void Reporter::send_some_locked() {
  while (socket_ >= 0 && !queue_.empty()) {
    Queued& next = queue_.front();
    const auto more =
        ::send(socket_, next.bytes.data() + next.sent, next.bytes.size() - next.sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (more < 0 && errno == EINTR) continue;
    if (more < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (more < 0) return give_up_locked();
    next.sent += static_cast<std::size_t>(more);
    if (next.sent < next.bytes.size()) continue;
    if (next.kind != Kind::large) small_bytes_ -= next.bytes.size();
    queue_.pop_front();
  }
}

void Reporter::give_up_locked() {
  ::shutdown(socket_, SHUT_RDWR);  // the thread that reads from it sees the end
  forget();
  queue_.clear();
  small_bytes_ = 0;
}

void Reporter::send_the_rest() {
  std::unique_lock lock(mutex_);
  while (socket_ >= 0 && !queue_.empty()) {
    const int socket = socket_;  // if it is closed meanwhile, this waits for nothing, or for another file: in vain
    lock.unlock();
    await_room(socket, kLook);
    lock.lock();
    send_some_locked();
  }
  sending_ = false;
}

void Reporter::await_room(int socket, std::chrono::milliseconds time) {
  pollfd room{socket, POLLOUT, 0};
  static_cast<void>(::poll(&room, 1, static_cast<int>(time.count())));
}

void Reporter::end_iteration(const IterationFrame& frame, std::uint64_t index, std::uint64_t began_ns,
                             std::uint64_t now_ns) {
  std::lock_guard lock(mutex_);
  // An iteration that was permitted while the device was busy with the one before began when that had ended.
  const std::uint64_t took_ns = now_ns - std::min(now_ns, std::max(began_ns, last_end_ns_));
  const std::uint64_t all_ns = took_ns + take_back_ends_locked();
  last_end_ns_ = now_ns;
  last_end_ = frame.filled(took_ns);
  ended_.store(index + 1);
  add_locked({Kind::iteration_end, frame.filled(all_ns), 0, all_ns});
}

/// Takes the ends of iterations, and the progress made before them, out of the queue; returns their durations.
std::uint64_t Reporter::take_back_ends_locked() {
  const auto unsent_end = [](const Queued& each) { return each.kind == Kind::iteration_end && each.sent == 0; };
  if (std::none_of(queue_.begin(), queue_.end(), unsent_end)) return 0;
  std::uint64_t took_ns = 0;
  std::deque<Queued> rest;
  for (Queued& each : queue_) {
    if (unsent_end(each)) took_ns += each.took_ns;
    if (unsent_end(each) || (each.kind == Kind::progress && each.sent == 0)) {
      small_bytes_ -= each.bytes.size();
    } else {
      rest.push_back(std::move(each));
    }
  }
  queue_ = std::move(rest);
  return took_ns;
}

}  // namespace neaptide
