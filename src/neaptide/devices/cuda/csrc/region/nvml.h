// What NVIDIA's management library says of a GPU's processes, without torch and without a context on the GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace neaptide::cuda {

struct GpuProcess {
  std::int32_t pid = 0;
  std::optional<std::uint64_t> bytes;  // NVML does not always know
};

/// The processes that have a context on the GPU with this PCI address; nothing where NVML is not there or does not know
/// the GPU. Takes some microseconds, and milliseconds the first time.
std::optional<std::vector<GpuProcess>> processes_on(const std::string& bus_id);

/// What NVML says that one process has there; nothing where it does not say.
std::optional<std::uint64_t> bytes_of(const std::string& bus_id, std::int32_t pid);

/// A PCI address (domain, bus, device) as a number, and back. 0 where the text is none.
std::uint64_t packed_bus_id(const std::string& bus_id);
std::string bus_id_of(std::uint64_t packed);

}  // namespace neaptide::cuda
