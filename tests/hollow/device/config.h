// What the environment says about the hollow devices. Read once per process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace hollow {

using Nanos = std::int64_t;

/// A call's cost in time, added to the caller's time for each handle that the call concerns.
using Costs = std::map<std::string, Nanos>;

struct Config {
  std::string board;     // HOLLOW_BOARD        file that all processes share (/dev/shm/hollow-UID)
  int devices;           // HOLLOW_DEVICES      how many (1)
  std::size_t capacity;  // HOLLOW_MEMORY       bytes of each device (16G)
  std::size_t context;   // HOLLOW_CONTEXT      bytes that a process's context takes on a device (256M)
  std::size_t library;   // HOLLOW_LIBRARY      bytes that a cuBLAS or cuDNN handle takes beside torch's allocator (8M)
  std::size_t granularity;   // HOLLOW_GRANULARITY  smallest unit of virtual memory management (2M)
  Nanos kernel;              // HOLLOW_KERNEL_US    how long a kernel takes (0)
  double flops_per_nano;     // HOLLOW_TFLOPS       a matrix product takes at least its operations (no limit)
  double bytes_per_nano;     // HOLLOW_GBPS         a copy to or from the host takes at least its bytes (no limit)
  std::uint64_t depth;       // HOLLOW_DEPTH        launches that a stream queues before a launch blocks (1024)
  Costs costs;               // HOLLOW_COSTS        "cuMemMap=1.5,cuMemUnmap=26" in microseconds; "0": none (kMeasured)
  Nanos teardown;            // HOLLOW_TEARDOWN_MS  how long a killed process's bytes stay on the device (0)
  int driver_version;        // HOLLOW_DRIVER       as cuDriverGetVersion gives it (13000)
  bool nvml_is_silent;       // HOLLOW_NVML=silent  NVML knows no bytes by process, as in many containers
  bool holders_are_charged;  // HOLLOW_CHARGE=holders  NVML counts a page as every holder's, not as its creator's
};

const Config& config();

/// CLOCK_MONOTONIC, which is the same in all processes.
Nanos now();
void sleep_until(Nanos when);

}  // namespace hollow
