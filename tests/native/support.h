// What the native tests share: a board in a temporary file, child processes, waiting for a condition.
#pragma once

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "board.h"
#include "check.h"
#include "driver.h"
#include "sm_queue.h"

namespace support {

using namespace neaptide;
using namespace neaptide::soft;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr auto kNever = Deadline::max();
/// Of every board here, unless a test says otherwise.
constexpr std::size_t kChunkBytes = kSmallChunkBytes;

inline std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}
inline Deadline in(std::chrono::nanoseconds time) { return std::chrono::steady_clock::now() + time; }

/// A path in the temporary folder; the file is removed at the end.
class TemporaryPath {
 public:
  TemporaryPath() {
    static std::atomic<int> next{0};
    const char* folder = std::getenv("TMPDIR");
    path_ = std::string(folder != nullptr ? folder : "/tmp") + "/neaptide-test-" + std::to_string(getpid()) + '-' +
            std::to_string(next++);
    unlink(path_.c_str());
  }
  TemporaryPath(const TemporaryPath&) = delete;
  TemporaryPath& operator=(const TemporaryPath&) = delete;
  ~TemporaryPath() {
    if (getpid() == owner_) unlink(path_.c_str());
  }
  operator const std::string&() const { return path_; }
  const std::string& text() const { return path_; }

 private:
  pid_t owner_ = getpid();
  std::string path_;
};

/// Waits for a condition that another thread or process brings about; gives up after half a minute.
inline bool eventually(const std::function<bool()>& condition) {
  const Deadline deadline = in(std::chrono::seconds(30));
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

/// Whether all memory of processes that have ended comes back. Somebody who reads such a process in /proc keeps its
/// memory, and with it the lock of its slot, for a moment after its end.
inline bool reaped(Board& board) {
  return eventually([&] {
    board.reap();
    return board.used_bytes() == 0;
  });
}

/// A value in memory shared with children that are forked later.
template <typename Value>
class Shared {
 public:
  Shared() {
    void* memory = mmap(nullptr, sizeof(Value), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    value_ = ::new (memory) Value();
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() { munmap(value_, sizeof(Value)); }
  Value& operator*() const { return *value_; }
  Value* operator->() const { return value_; }

 private:
  Value* value_;
};

/// A forked process that runs `body` and exits: with 0, or with 1 after an exception. Killed in the destructor.
class Child {
 public:
  explicit Child(const std::function<void()>& body) : pid_(fork()) {
    if (pid_ != 0) return;
    int status = 0;
    try {
      body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "child: %s\n", error.what());
      status = 1;
    }
    _exit(status);
  }
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, 0)) {}
  Child& operator=(Child&& other) noexcept {
    std::swap(pid_, other.pid_);
    return *this;
  }
  ~Child() { kill(); }

  pid_t pid() const { return pid_; }
  void signal(int number) const { ::kill(pid_, number); }
  /// Waits for its end; returns the exit code, or minus the signal.
  int wait() {
    int status = 0;
    if (waitpid(pid_, &status, 0) != pid_) return -1000;
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  /// Stops it and returns when it has stopped.
  void stop() const {
    signal(SIGSTOP);
    int status = 0;
    waitpid(pid_, &status, WUNTRACED);
  }
  void kill() {
    if (pid_ <= 0) return;
    signal(SIGKILL);
    wait();
  }

 private:
  pid_t pid_;
};

}  // namespace support
