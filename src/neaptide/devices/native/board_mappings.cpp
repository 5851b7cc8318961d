#include "board_mappings.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>

#include "file_identity.h"

namespace neaptide {
namespace {

/// Read by a signal handler and in a forked child, so of atomics alone. A place is free while `used` is false; `file`
/// is written last and cleared first.
struct Place {
  std::atomic<bool> used{false};
  std::atomic<std::uintptr_t> memory{0};
  std::atomic<std::size_t> bytes{0};
  std::atomic<std::uint64_t> device{0}, inode{0};
  std::atomic<int> file{-1};

  /// Whether its descriptor still names the file: a program may have closed it.
  bool is_open(int descriptor) const { return FileIdentity::of(descriptor) == FileIdentity{device, inode}; }
};
std::array<Place, 64> places;
struct sigaction handler_before;

bool make_whole(std::uintptr_t address) {
  for (const Place& place : places) {
    const int file = place.file.load();
    const std::uintptr_t first = place.memory.load();
    if (file < 0 || address < first || address - first >= place.bytes.load()) continue;
    if (!place.is_open(file)) return false;
    const auto size = static_cast<off_t>(place.bytes.load());
    if (fallocate(file, 0, 0, size) == 0) return true;
    struct stat status{};
    return errno == EOPNOTSUPP && fstat(file, &status) == 0 && status.st_size < size && ftruncate(file, size) == 0;
  }
  return false;
}

void on_bus_error(int number, siginfo_t* info, void* /*context*/) {
  const int error = errno;
  const bool fault = info->si_code == BUS_ADRERR;
  if (!fault || !make_whole(reinterpret_cast<std::uintptr_t>(info->si_addr))) {
    sigaction(SIGBUS, &handler_before, nullptr);
    if (info->si_code <= 0) raise(number);  // sent by a process: a fault comes again by itself
  }
  errno = error;
}

void close_in_child() {
  for (Place& place : places)
    if (const int file = place.file.exchange(-1); file >= 0 && place.is_open(file)) close(file);
}

void watch_process() {
  pthread_atfork(nullptr, nullptr, &close_in_child);
  struct sigaction action{};
  action.sa_sigaction = &on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGBUS, &action, &handler_before);
}

}  // namespace

KnownMapping::KnownMapping(void* memory, std::size_t bytes, int file) {
  static std::once_flag once;
  std::call_once(once, &watch_process);
  for (std::size_t index = 0; index < places.size(); ++index) {
    Place& place = places[index];
    if (place.used.exchange(true)) continue;
    place.memory.store(reinterpret_cast<std::uintptr_t>(memory));
    place.bytes.store(bytes);
    const FileIdentity identity = FileIdentity::of(file);
    place.device.store(identity.device);
    place.inode.store(identity.inode);
    place.file.store(file);
    place_ = static_cast<int>(index);
    return;
  }
}

KnownMapping::~KnownMapping() {
  if (place_ < 0) return;
  Place& place = places[static_cast<std::size_t>(place_)];
  place.file.store(-1);
  place.used.store(false);
}

}  // namespace neaptide
