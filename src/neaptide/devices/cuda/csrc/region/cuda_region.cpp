#include "cuda_region.h"

#include <algorithm>

#include "../../../native/device_region.h"
#include "nvml.h"
#include "page_table.h"

namespace neaptide::cuda {
namespace {

void initialise(void* /*region*/, std::uint64_t /*bus_id*/) {}  // no pages, and nothing known: all words are 0

void vacate(void* region, std::uint32_t slot) { vacate_pages(*static_cast<CudaRegion*>(region), slot); }
void wake(void* /*region*/) {}

/// The GPU's driver takes a killed process's memory back some time after the process is gone; until then NVML lists it.
bool lingers(std::uint64_t bus_id, std::int32_t pid) {
  const auto processes = processes_on(bus_id_of(bus_id));
  if (!processes) return false;
  return std::any_of(processes->begin(), processes->end(), [&](const GpuProcess& each) { return each.pid == pid; });
}

constexpr DeviceRegion kRegion{"cuda", 4, sizeof(CudaRegion), &initialise, &vacate, &wake, &lingers};
const LinkedRegion linked(kRegion);

}  // namespace

CudaRegion& cuda_region(const Board& board) {
  if (board.region() != &kRegion) throw BoardError("board " + board.path() + ": of another device");
  return *static_cast<CudaRegion*>(region_of(board.layout()));
}

}  // namespace neaptide::cuda
