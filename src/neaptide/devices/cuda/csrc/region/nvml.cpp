#include "nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <type_traits>

namespace neaptide::cuda {
namespace {

// NVML's header is in no package that torch brings. These are the parts of its interface that are used.
using Device = void*;
struct Process {
  unsigned pid;
  unsigned long long bytes;
  unsigned gpu_instance, compute_instance;
};
constexpr int kSuccess = 0;
constexpr unsigned long long kUnknown = ~0ULL;

struct Library {
  int (*initialise)() = nullptr;
  int (*device_by_bus_id)(const char*, Device*) = nullptr;
  int (*compute_processes)(Device, unsigned*, Process*) = nullptr;
  bool there = false;
};

const Library& library() {
  static const Library found = [] {
    Library nvml;
    void* const handle = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (handle == nullptr) return nvml;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
      return function != nullptr;
    };
    nvml.there =
        find(nvml.initialise, "nvmlInit_v2") && find(nvml.device_by_bus_id, "nvmlDeviceGetHandleByPciBusId_v2") &&
        find(nvml.compute_processes, "nvmlDeviceGetComputeRunningProcesses_v3") && nvml.initialise() == kSuccess;
    return nvml;
  }();
  return found;
}

}  // namespace

std::optional<std::vector<GpuProcess>> processes_on(const std::string& bus_id) {
  Device device = nullptr;
  if (!library().there || library().device_by_bus_id(bus_id.c_str(), &device) != kSuccess) return std::nullopt;
  std::vector<Process> seen(1024);
  unsigned count = static_cast<unsigned>(seen.size());
  if (library().compute_processes(device, &count, seen.data()) != kSuccess) return std::nullopt;
  std::vector<GpuProcess> processes;
  for (unsigned index = 0; index < std::min<std::size_t>(count, seen.size()); ++index) {
    GpuProcess process{static_cast<std::int32_t>(seen[index].pid), std::nullopt};
    if (seen[index].bytes != kUnknown) process.bytes = seen[index].bytes;
    processes.push_back(process);
  }
  return processes;
}

std::optional<std::uint64_t> bytes_of(const std::string& bus_id, std::int32_t pid) {
  const auto processes = processes_on(bus_id);
  if (!processes) return std::nullopt;
  for (const GpuProcess& process : *processes)
    if (process.pid == pid) return process.bytes;
  return std::nullopt;
}

std::uint64_t packed_bus_id(const std::string& bus_id) {
  unsigned domain = 0, bus = 0, device = 0;
  if (std::sscanf(bus_id.c_str(), "%x:%x:%x", &domain, &bus, &device) != 3) return 0;
  return std::uint64_t{1} << 63 | std::uint64_t{domain} << 16 | (bus & 0xff) << 8 | (device & 0xff);
}

std::string bus_id_of(std::uint64_t packed) {
  if (packed == 0) return {};
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%08x:%02x:%02x.0", static_cast<unsigned>(packed >> 16 & 0xffffffff),
                static_cast<unsigned>(packed >> 8 & 0xff), static_cast<unsigned>(packed & 0xff));
  return text.data();
}

}  // namespace neaptide::cuda
