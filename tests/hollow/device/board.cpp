#include "board.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "pages.h"

namespace hollow {
namespace {

[[noreturn]] void die(const char* what, const std::string& path) {
  std::fprintf(stderr, "hollow: cannot %s the board %s: %s\n", what, path.c_str(), std::strerror(errno));
  std::abort();
}

/// The start time of a process that lives, else 0. A process that waits to be collected has given up its memory.
std::uint64_t born(pid_t pid) {
  char path[32], text[512];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t size = read(file, text, sizeof text - 1);
  close(file);
  if (size <= 0) return 0;
  text[size] = 0;
  const char* at = std::strrchr(text, ')');  // the name may hold anything
  if (!at || at[2] == 'Z' || at[2] == 'X') return 0;
  for (int field = 2; at && field < 22; ++field) at = std::strchr(at + 1, ' ');
  return at ? std::strtoull(at, nullptr, 10) : 0;
}

}  // namespace

Board::Board(std::string path, bool to_join) : path_(std::move(path)) {
  file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file_ < 0) die("open", path_);
  flock(file_, LOCK_EX);
  Layout head{};
  if (pread(file_, &head.size, sizeof head.size, 0) != sizeof head.size || head.size != sizeof(Layout)) {
    if (ftruncate(file_, 0) || ftruncate(file_, sizeof(Layout))) die("make", path_);
  }
  void* mapped = mmap(nullptr, sizeof(Layout), PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (mapped == MAP_FAILED) die("map", path_);
  layout_ = static_cast<Layout*>(mapped);
  layout_->size = sizeof(Layout);
  flock(file_, LOCK_UN);
  Lock lock(*this);
  reap(true);
  if (to_join) adopt_settings();
}

Board::~Board() {
  munmap(layout_, sizeof(Layout));
  close(file_);
}

void Board::adopt_settings() {
  for (const Process& process : layout_->process)
    if (process.pid) return;
  for (int i = 0; i < layout_->page_end; ++i)
    if (layout_->page[i].bytes) return;
  layout_->devices = std::min(config().devices, kDevices);
  for (int i = 0; i < layout_->devices; ++i) layout_->device[i].capacity = config().capacity;
}

Board::Lock::Lock(Board& board) : board_(board), threads_(board.mutex_) {
  while (flock(board_.file_, LOCK_EX) && errno == EINTR) {
  }
}
Board::Lock::~Lock() { flock(board_.file_, LOCK_UN); }

Process& Board::mine() {
  static std::mutex joining;
  if (Process* process = mine_.load(std::memory_order_acquire)) return *process;
  const std::lock_guard<std::mutex> alone(joining);
  if (Process* process = mine_.load(std::memory_order_acquire)) return *process;
  Lock lock(*this);
  reap(true);
  for (Process& process : layout_->process) {
    if (process.pid) continue;
    process.ended = 0;
    process.born = born(getpid());
    process.teardown = config().teardown;
    process.died = 0;
    process.pid = getpid();
    mine_.store(&process, std::memory_order_release);
    return process;
  }
  errno = EUSERS;
  die("join", path_);
}

std::uint64_t Board::sum(int device) const {
  std::uint64_t total = layout_->device[device].page_bytes;
  for (const Process& process : layout_->process)
    if (process.pid) total += process.use[device].context + process.use[device].bytes;
  return total;
}

std::uint64_t Board::used(int device) {
  Lock lock(*this);
  reap(true);
  return sum(device);
}

std::uint64_t Board::used_by(const Process& process, int device) const {
  std::uint64_t total = process.use[device].context + process.use[device].bytes;
  const auto slot = static_cast<int>(&process - layout_->process);
  for (int i = 0; i < layout_->page_end; ++i) {
    const Page& page = layout_->page[i];
    const bool charged = config().holders_are_charged ? page.holders[slot / 64] >> slot % 64 & 1 : page.creator == slot;
    if (page.bytes && page.device == device && charged) total += page.bytes;
  }
  return total;
}

bool Board::fits(int device, std::size_t bytes) {
  Device& state = layout_->device[device];
  // A new peak must not count what a process held that has died unnoticed.
  if (sum(device) + bytes > std::min(state.peak, state.capacity)) reap(sum(device) + bytes > state.capacity);
  const std::uint64_t wanted = sum(device) + bytes;
  if (wanted > state.capacity) return false;
  state.peak = std::max(state.peak, wanted);
  return true;
}

bool Board::take(int device, std::size_t bytes, bool as_context) {
  Use& use = mine().use[device];
  Lock lock(*this);
  if (!fits(device, bytes)) return false;
  (as_context ? use.context : use.bytes) += bytes;
  return true;
}

void Board::give(int device, std::size_t bytes, bool as_context) {
  Use& use = mine().use[device];
  Lock lock(*this);
  (as_context ? use.context : use.bytes) -= bytes;
}

void Board::reap(bool thoroughly) {
  bool gone = false;
  for (int slot = 0; slot < kProcesses; ++slot) {
    Process& process = layout_->process[slot];
    if (!process.pid || born(process.pid) == process.born) continue;
    if (!process.died) process.died = now();
    if (!process.ended && now() < process.died + process.teardown) continue;
    for (int i = 0; i < layout_->calls; ++i) {
      layout_->departed[i].calls += process.tallies[i].calls.exchange(0);
      layout_->departed[i].charged += process.tallies[i].charged.exchange(0);
    }
    for (Use& use : process.use) use.context = use.bytes = 0, use.busy = 0;
    for (int i = 0; i < layout_->page_end; ++i) {
      Page& page = layout_->page[i];
      page.holders[slot / 64] &= ~(std::uint64_t{1} << slot % 64);
      if (page.creator == slot) page.creator = -1;
    }
    process.pid = 0;
    gone = true;
  }
  if (gone || thoroughly) free_orphans(*this);
}

Nanos Board::claim(int device, Engine engine, Nanos earliest, Nanos duration) {
  std::atomic<Nanos>& free_at = layout_->device[device].free_at[static_cast<int>(engine)];
  Nanos seen = free_at.load(std::memory_order_relaxed);
  while (!free_at.compare_exchange_weak(seen, std::max(seen, earliest) + duration, std::memory_order_relaxed)) {
  }
  mine().use[device].busy.fetch_add(duration, std::memory_order_relaxed);
  return std::max(seen, earliest) + duration;
}

int Board::call_index(const char* name) {
  Lock lock(*this);
  for (int i = 0; i < layout_->calls; ++i)
    if (!std::strncmp(layout_->names[i], name, kNameBytes)) return i;
  if (layout_->calls == kCalls) {
    errno = ENOSPC;
    die("count calls on", path_);
  }
  std::strncpy(layout_->names[layout_->calls], name, kNameBytes - 1);
  return layout_->calls++;
}

void Board::leave() {
  if (Process* process = mine_.load()) process->ended = 1;
}

namespace {
std::atomic<Board*> ours{nullptr};

struct End {
  ~End() {
    if (Board* board = ours.load()) board->leave();
  }
} end;
}  // namespace

Board& board() {
  static Board& instance = *[] {
    ours = new Board(config().board, true);  // never destroyed: torch calls us from static destructors
    return ours.load();
  }();
  return instance;
}

}  // namespace hollow
