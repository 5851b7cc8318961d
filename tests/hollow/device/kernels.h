// Kernels: they take time and compute nothing, but for the few that tests look at: fills, and sleeps.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "stream.h"

namespace hollow {

/// A kernel as the program registered it.
struct Kernel {
  std::string name;
  std::size_t fill_width;  // bytes per element if it is torch's fill, else 0
  bool spins;              // torch.cuda._sleep, which takes as many cycles as it is told
};

Kernel describe_kernel(std::string mangled);
/// The operation of one launch; its arguments are read now, as CUDA does.
Op launch_of(const Kernel& kernel, void** arguments);
/// A kernel of a library, which takes at least the time that its operations need.
Op library_kernel(double flops = 0);

}  // namespace hollow
