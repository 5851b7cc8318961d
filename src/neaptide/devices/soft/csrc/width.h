// How wide kernels are and how a worker's thread count follows.
#pragma once

#include <cstdint>

namespace neaptide::soft {

/// Makes idle OpenMP threads of this process sleep soon instead of spinning for milliseconds. Once, before any kernel.
void calm_idle_threads(std::uint32_t most_width);

/// Prepares the calling thread to run kernels: below autograd.
void prepare_worker();
/// Sets how many threads the calling thread's kernels use.
void set_worker_width(std::uint32_t width);

}  // namespace neaptide::soft
