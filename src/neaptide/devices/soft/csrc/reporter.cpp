#include "reporter.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "blocking.h"

namespace neaptide::soft {

namespace {
constexpr std::uint64_t kNoIteration = ~std::uint64_t{0};
}  // namespace

class Reporter::Report final : public Task {
 public:
  Report(std::shared_ptr<Reporter> reporter, std::string message, std::uint64_t index, std::uint64_t began_ns)
      : Task(0), reporter_(std::move(reporter)), message_(std::move(message)), index_(index), began_ns_(began_ns) {}
  void run() override { reporter_->passed(message_, index_, began_ns_); }

 private:
  std::shared_ptr<Reporter> reporter_;
  std::string message_;
  std::uint64_t index_;
  std::uint64_t began_ns_;
};

void Reporter::connect(int socket, std::uint64_t known) {
  disconnect();
  std::lock_guard lock(mutex_);
  socket_ = ::fcntl(socket, F_DUPFD_CLOEXEC, 0);  // its own: the number cannot come to mean another file
  if (ended_.load() > known) send_locked(last_end_, false);
}

void Reporter::disconnect() {
  std::lock_guard lock(mutex_);
  forget();
}

void Reporter::forget() noexcept {
  if (const int socket = std::exchange(socket_, -1); socket >= 0) ::close(socket);
}

bool Reporter::send(const std::string& message, bool large) {
  std::lock_guard lock(mutex_);
  return send_locked(message, large);
}

bool Reporter::send_locked(const std::string& message, bool large) {
  for (std::size_t sent = 0; sent < message.size();) {
    if (socket_ < 0) return false;
    const auto more =
        ::send(socket_, message.data() + sent, message.size() - sent, MSG_NOSIGNAL | (large ? 0 : MSG_DONTWAIT));
    if (more >= 0) {
      sent += static_cast<std::size_t>(more);
    } else if (errno != EINTR) {
      ::shutdown(socket_, SHUT_RDWR);  // whoever reads from it notices
      forget();
    }
  }
  return true;
}

void Reporter::send_on(Stream& stream, std::string message) {
  stream.push(std::make_unique<Report>(shared_from_this(), std::move(message), kNoIteration, 0));
}

void Reporter::end_on(Stream& stream, std::string message, std::uint64_t index, std::uint64_t began_ns) {
  stream.push(std::make_unique<Report>(shared_from_this(), std::move(message), index, began_ns));
}

void Reporter::passed(std::string& message, std::uint64_t index, std::uint64_t began_ns) {
  std::lock_guard lock(mutex_);
  if (index != kNoIteration) {
    // Permitted while the device was still busy with the one before: it began when that had ended.
    const std::uint64_t now = now_ns();
    const std::uint64_t took_ns = now - std::min(now, std::max(began_ns, last_end_ns_));
    for (std::size_t byte = 0; byte < 8; ++byte) {
      message[message.size() - 1 - byte] = static_cast<char>(took_ns >> (8 * byte) & 0xff);
    }
    last_end_ns_ = now;
    last_end_ = message;
    ended_.store(index + 1);
  }
  send_locked(message, false);
}

}  // namespace neaptide::soft
