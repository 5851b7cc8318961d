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

/// Runs `kernel` on the current stream's worker, in order, and waits for it; throws what it throws. `name` is for the
/// log and lives as long as the process.
void run_and_wait(const std::string& name, std::uint32_t width, const std::function<void()>& kernel);

/// Launches a function as a kernel on the current stream. It must hold what it needs by value.
void launch_function(const std::string& name, std::uint32_t width, std::function<void()> kernel);

/// Registers launch() for operators whose composite kernels would otherwise win over the fallback though the CPU has a
/// kernel of its own. Returns how many. Once.
std::size_t override_composites();

}  // namespace neaptide::soft
