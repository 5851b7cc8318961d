// Processes as the kernel sees them: whether another runs, whether this one is a fork, how its threads are scheduled.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace neaptide {

/// A process for good: the start time tells a recycled pid apart.
struct ProcessId {
  pid_t pid = 0;
  std::uint64_t start_time = 0;  // clock ticks since boot
};

enum class ProcessState { running, stopped, gone };

ProcessId this_process();
/// Whether the process runs, is stopped by a signal or a debugger, or is gone (a zombie is gone). About 10 us.
ProcessState probe(const ProcessId& process);
/// Whether another process has its pid by now.
bool is_recycled(const ProcessId& process);

/// A number that differs between pid namespaces: pids mean nothing across them.
std::uint64_t pid_namespace();

/// Asks the kernel for short turns on the processor for the calling thread, and those that it starts: it then gets its
/// next one sooner after it has slept, at no one's cost in the long run. Does nothing where the kernel cannot.
void take_short_turns() noexcept;

/// Tells a forked child apart from the process that made the guard, at the cost of a load.
class ForkGuard {
 public:
  ForkGuard();
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;
  ~ForkGuard();
  bool forked() const noexcept { return *mark_ == 0; }

 private:
  volatile int* mark_;  // on a page that the kernel wipes in a child
};

}  // namespace neaptide
