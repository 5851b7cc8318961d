#include "calls.h"

#include <pthread.h>

#include <atomic>
#include <cstring>

#include "board.h"

namespace hollow {
namespace {

std::atomic<bool> broken{false};
std::atomic<bool> forked{false};
thread_local cudaError_t last = cudaSuccess;

// As with CUDA, a child that is forked after its parent's first call cannot use the device.
void watch_forks() {
  static const int once = pthread_atfork(nullptr, nullptr, [] {
    forked = true;
    board().forget();
  });
  static_cast<void>(once);
}

Nanos cost_of(const char* name) {
  const Costs& costs = config().costs;
  auto found = costs.find(name);
  const std::size_t length = std::strlen(name);  // cuMemAlloc_v2 is known as cuMemAlloc
  if (found == costs.end() && length > 3 && !std::strncmp(name + length - 3, "_v", 2))
    found = costs.find(std::string(name, length - 3));
  return found == costs.end() ? 0 : found->second;
}

}  // namespace

Call::Call(const char* name) : index_(board().call_index(name)), cost_(cost_of(name)) { watch_forks(); }

cudaError_t Call::enter() const {
  if (forked.load(std::memory_order_relaxed)) return fail(cudaErrorInitializationError);
  board().mine().tallies[index_].calls.fetch_add(1, std::memory_order_relaxed);
  charge(1);
  return context_is_broken() ? fail(cudaErrorIllegalAddress) : cudaSuccess;
}

void Call::concerns(std::size_t handles) const {
  if (handles > 1) charge(handles - 1);
}

void Call::charge(std::size_t times) const {
  if (!cost_) return;
  const Nanos spent = cost_ * static_cast<Nanos>(times);
  board().mine().tallies[index_].charged.fetch_add(static_cast<std::uint64_t>(spent), std::memory_order_relaxed);
  // A driver call keeps its caller's core busy. What is longer than a timer's jitter is slept, for the others' sake.
  const Nanos end = now() + spent;
  if (spent > 200000) sleep_until(end - 100000);
  while (now() < end) {
  }
}

void break_context() { broken = true; }
bool context_is_broken() { return broken.load(std::memory_order_relaxed); }

cudaError_t fail(cudaError_t error) { return last = error; }
cudaError_t last_error(bool forget) {
  if (context_is_broken()) return cudaErrorIllegalAddress;
  const cudaError_t error = last;
  if (forget) last = cudaSuccess;
  return error;
}

}  // namespace hollow
