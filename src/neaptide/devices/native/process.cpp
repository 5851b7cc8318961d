#include "process.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <system_error>

namespace neaptide {
namespace {

constexpr std::uint64_t kShortTurn_ns = 100'000;  // the least that Linux gives

std::optional<std::string> read_small_file(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  std::array<char, 1024> buffer{};
  const ssize_t size = read(file, buffer.data(), buffer.size());
  close(file);
  if (size < 0) return std::nullopt;
  return std::string(buffer.data(), static_cast<std::size_t>(size));
}

struct Stat {
  char state = '?';
  long threads = 0;
  std::uint64_t start_time = 0;
};

std::optional<Stat> read_stat(const std::string& pid) {
  const auto text = read_small_file("/proc/" + pid + "/stat");
  // The command name may hold spaces and brackets: fields count from the last closing one. See proc_pid_stat(5).
  const auto name_end = text ? text->rfind(')') : std::string::npos;
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text->substr(name_end + 1));
  Stat stat;
  fields >> stat.state;
  std::string skipped;
  for (int field = 4; field < 20; ++field) fields >> skipped;
  fields >> stat.threads >> skipped >> stat.start_time;
  if (!fields) return std::nullopt;
  return stat;
}

}  // namespace

ProcessId this_process() {
  const auto stat = read_stat("self");
  return {getpid(), stat ? stat->start_time : 0};
}

ProcessState probe(const ProcessId& process) {
  if (process.pid <= 0) return ProcessState::gone;  // to kill(), such a number means many processes
  const auto stat = read_stat(std::to_string(process.pid));
  if (!stat) {
    const bool exists = kill(process.pid, 0) == 0 || errno == EPERM;
    return exists ? ProcessState::running : ProcessState::gone;
  }
  const bool known = process.start_time != 0;  // the process may have had no descriptor to read it
  if (known && stat->start_time != process.start_time) return ProcessState::gone;
  // A leader that has exited shows as a zombie while its other threads run on.
  if ((stat->state == 'Z' || stat->state == 'X') && stat->threads <= 1) return ProcessState::gone;
  return stat->state == 'T' || stat->state == 't' ? ProcessState::stopped : ProcessState::running;
}

bool is_recycled(const ProcessId& process) {
  const auto stat = read_stat(std::to_string(process.pid));
  return stat && process.start_time != 0 && stat->start_time != process.start_time;
}

std::uint64_t pid_namespace() {
  struct stat status{};
  return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

void take_short_turns() noexcept {
  struct {  // the kernel's sched_attr, for which older C libraries have no name
    std::uint32_t size, policy;
    std::uint64_t flags;
    std::int32_t nice;
    std::uint32_t priority;
    std::uint64_t runtime, deadline, period;
  } attributes{};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0 || attributes.policy != SCHED_OTHER) {
    return;  // the user chose another policy
  }
  attributes.size = sizeof attributes;
  attributes.runtime = kShortTurn_ns;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

ForkGuard::ForkGuard() {
  void* page = mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "fork guard");
  madvise(page, static_cast<std::size_t>(sysconf(_SC_PAGESIZE)), MADV_WIPEONFORK);
  mark_ = static_cast<int*>(page);
  *mark_ = 1;
}

ForkGuard::~ForkGuard() { munmap(const_cast<int*>(mark_), sizeof(int)); }

}  // namespace neaptide
