#include "keeper_line.h"

#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "../../native/driver.h"

extern char** environ;

namespace neaptide::cuda {
namespace {

// devices/cuda/page_keeper.py has the same.
enum class Ask : std::uint32_t { make = 1, share = 2, listen = 3, swept = 4 };
std::uint32_t word_of(Ask ask) { return static_cast<std::uint32_t>(ask); }

constexpr auto kStartTime = std::chrono::seconds(60);
constexpr auto kPause = std::chrono::milliseconds(10);
constexpr std::size_t kMostWords = 512;

/// Descriptors that a forked child must not keep: the keeper would take it for a job.
class OpenLines {
 public:
  OpenLines() {
    for (auto& line : lines_) line.store(-1);
    pthread_atfork(nullptr, nullptr, [] { instance().close_all(); });
  }
  static OpenLines& instance() {
    static OpenLines all;
    return all;
  }
  void replace(int from, int to) {
    for (auto& line : lines_) {
      int expected = from;
      if (line.compare_exchange_strong(expected, to)) return;
    }
  }

 private:
  void close_all() {
    for (auto& line : lines_)
      if (const int descriptor = line.exchange(-1); descriptor >= 0) close(descriptor);
  }
  std::array<std::atomic<int>, 8> lines_;
};

/// Tells the board apart from another that took its place.
std::string file_number(const Board& board) {
  struct stat status{};
  if (fstat(board.descriptor(), &status) != 0) throw DriverError("the board's file cannot be read");
  return std::to_string(status.st_ino);
}

/// A connection to the process of this user that listens there; -1: none does.
int try_connect(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path))
    throw DriverError("the path " + path + " is too long for a socket; set NEAPTIDE_RUNTIME");
  std::memcpy(address.sun_path, path.c_str(), path.size());
  const int line = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (line < 0) throw DriverError(std::string("no socket can be made: ") + std::strerror(errno));
  ucred peer{};
  socklen_t bytes = sizeof(peer);
  if (connect(line, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    if (getsockopt(line, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == geteuid()) return line;
    close(line);
    throw DriverError("another user listens at " + path + "; set NEAPTIDE_RUNTIME");
  }
  close(line);
  return -1;
}

/// Starts a keeper, which leaves this process's family, and waits until it listens. A program that waits for all its
/// children may take this one's end; whether a keeper listens is then found out by connecting.
void start_keeper(std::vector<std::string> command, const std::string& number) {
  std::vector<char*> arguments, environment;
  command.push_back(number);
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  for (char** entry = environ; *entry != nullptr; ++entry)  // the keeper is no job
    if (std::strncmp(*entry, "NEAPTIDE_SOCKET=", 16) != 0) environment.push_back(*entry);
  environment.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child = 0;
  const int result = posix_spawn(&child, arguments[0], nullptr, &attributes, arguments.data(), environment.data());
  posix_spawnattr_destroy(&attributes);
  if (result != 0) throw DriverError("the keeper of pages cannot be started: " + std::string(std::strerror(result)));
  int status = 0;
  pid_t ended = 0;
  while ((ended = waitpid(child, &status, 0)) < 0 && errno == EINTR) {
  }
  if (ended == child && WIFEXITED(status) && WEXITSTATUS(status) != 0)
    throw DriverError("the keeper of the GPU's pages cannot start; it says why on stderr");
}

}  // namespace

KeeperSocket::KeeperSocket(const Board& board, const std::vector<std::string>& command) {
  const std::string number = file_number(board), path = board.path() + ".pages-" + number;
  const auto deadline = std::chrono::steady_clock::now() + kStartTime;
  while ((descriptor_ = try_connect(path)) < 0) {
    if (std::chrono::steady_clock::now() >= deadline)
      throw DriverError("no keeper of the GPU's pages listens at " + path);
    start_keeper(command, number);
    if ((descriptor_ = try_connect(path)) >= 0) break;
    std::this_thread::sleep_for(kPause);
  }
  OpenLines::instance().replace(-1, descriptor_);
}

KeeperSocket::KeeperSocket(KeeperSocket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

KeeperSocket& KeeperSocket::operator=(KeeperSocket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

KeeperSocket::~KeeperSocket() { close(); }

void KeeperSocket::close() {
  if (descriptor_ < 0) return;
  OpenLines::instance().replace(descriptor_, -1);
  ::close(std::exchange(descriptor_, -1));
}

bool KeeperSocket::send(const std::vector<std::uint32_t>& words) const {
  const std::size_t bytes = words.size() * sizeof(words[0]);
  for (;;) {
    const ssize_t sent = ::send(descriptor_, words.data(), bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    return sent == static_cast<ssize_t>(bytes);
  }
}

std::vector<std::uint32_t> KeeperSocket::receive(std::vector<int>* descriptors) const {
  std::vector<std::uint32_t> words(kMostWords);
  alignas(cmsghdr) std::array<char, CMSG_SPACE(KeeperLine::kMostShared * sizeof(int))> rights{};
  iovec part{words.data(), words.size() * sizeof(words[0])};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = rights.data();
  message.msg_controllen = rights.size();
  ssize_t received = 0;
  do received = recvmsg(descriptor_, &message, MSG_CMSG_CLOEXEC);
  while (received < 0 && errno == EINTR);
  for (cmsghdr* part_of = received > 0 ? CMSG_FIRSTHDR(&message) : nullptr; part_of != nullptr;
       part_of = CMSG_NXTHDR(&message, part_of)) {
    if (part_of->cmsg_level != SOL_SOCKET || part_of->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part_of->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    std::vector<int> found(count);
    std::memcpy(found.data(), CMSG_DATA(part_of), count * sizeof(int));
    for (const int descriptor : found) {
      if (descriptors != nullptr)
        descriptors->push_back(descriptor);
      else
        ::close(descriptor);
    }
  }
  words.resize(received > 0 ? static_cast<std::size_t>(received) / sizeof(words[0]) : 0);
  return words;
}

KeeperLine::KeeperLine(const Board& board, std::vector<std::string> command)
    : board_(board), command_(std::move(command)), line_(board, command_) {}

KeeperSocket KeeperLine::listen() const {
  for (;;) {
    KeeperSocket line(board_, command_);
    if (line.send({word_of(Ask::listen)})) return line;
  }
}

bool KeeperLine::say_swept(const KeeperSocket& line) { return line.send({word_of(Ask::swept)}); }

std::vector<std::uint32_t> KeeperLine::ask(const std::vector<std::uint32_t>& request, std::vector<int>* descriptors) {
  const std::lock_guard lock(mutex_);
  for (;;) {
    if (!line_.connected()) line_ = KeeperSocket(board_, command_);
    if (line_.send(request))
      if (auto answer = line_.receive(descriptors); !answer.empty()) return answer;
    line_.close();  // the keeper died; the next one is asked again
  }
}

std::uint32_t KeeperLine::make(std::uint32_t pages) { return ask({word_of(Ask::make), pages}, nullptr)[0]; }

std::vector<int> KeeperLine::share(const std::vector<std::uint32_t>& pages) {
  std::vector<std::uint32_t> request{word_of(Ask::share)};
  request.insert(request.end(), pages.begin(), pages.end());
  std::vector<int> sent, found;
  const std::vector<std::uint32_t> made_here = ask(request, &sent);
  std::size_t next = 0;
  for (std::size_t index = 0; index < pages.size(); ++index) {
    const bool there = index < made_here.size() && made_here[index] != 0 && next < sent.size();
    found.push_back(there ? sent[next++] : -1);
  }
  return found;
}

}  // namespace neaptide::cuda
