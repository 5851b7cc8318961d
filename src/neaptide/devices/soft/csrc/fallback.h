// The boxed kernel behind every operator that has none of its own: launches the CPU kernel on the current stream.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>
#include <memory>
#include <string>

namespace neaptide::soft {

/// Launches the operator. Shape errors are thrown here; a kernel's own errors at the next launch or synchronization.
void launch(const c10::OperatorHandle& handle, torch::jit::Stack* stack);

/// What is said of a function that is launched as a kernel.
struct Described {
  const std::string& name;  // for the log; lives as long as the process
  std::uint32_t width;
  std::uint64_t moved_bytes;  // of device memory, that it reads and writes
};

/// Runs `kernel` on the current stream's worker, in order, and waits for it; throws what it throws.
void run_and_wait(const Described& described, const std::function<void()>& kernel);

/// Launches a function as a kernel on the current stream. It must hold what it needs by value.
void launch_function(const Described& described, std::function<void()> kernel);

/// Registers launch() for operators whose composite kernels would otherwise win over the fallback though the CPU has a
/// kernel of its own. Returns how many. Once.
std::size_t override_composites();

}  // namespace neaptide::soft
