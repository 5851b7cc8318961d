#include "outside_memory.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "region/cuda_region.h"
#include "region/nvml.h"
#include "region/page_table.h"

namespace neaptide::cuda {
namespace {

constexpr int kAttempts = 3;

constexpr auto kPause = std::chrono::milliseconds(2);

}  // namespace

OutsideMemory::OutsideMemory(Member& member) : member_(member), bus_id_(bus_id_of(member.board().region_setting())) {}

void OutsideMemory::expect_context() {
  const std::uint64_t known = cuda_region(member_.board()).context_bytes.load();
  // The first process on a board can only guess; a small device has a small part of its memory to spare for that.
  const std::uint64_t guess = std::min(kUnknownContextBytes, member_.board().capacity_bytes() / 8);
  const std::uint64_t expected = known != 0 ? known : guess;
  if (expected > member_.board().capacity_bytes())
    throw DriverError("the budget of " + std::to_string(member_.board().capacity_bytes() >> 20) +
                      " MiB is too small for CUDA's own memory of " + std::to_string(expected >> 20) + " MiB");
  member_.take_outside(expected);
  CudaRegion& region = cuda_region(member_.board());
  region.expected_outside_bytes[member_.slot()].store(std::max(expected, region.most_outside_bytes.load()));
  region.outside_bytes[member_.slot()].store(expected);
  while (!within_budget(member_.board())) {  // the keeper and the jobs let go of pages that nobody owns
    member_.board().reap();
    std::this_thread::sleep_for(kPause);
  }
}

void OutsideMemory::update(const std::function<std::uint64_t()>& page_bytes) {
  const std::lock_guard lock(mutex_);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const std::uint64_t before = page_bytes();
    const auto own = bytes_of(bus_id_, getpid());
    if (!own) return;                      // what was expected stays leased
    if (page_bytes() != before) continue;  // memory moved between the two looks
    const std::uint64_t outside = *own - std::min(*own, before);
    unchanged_ = outside == member_.outside_bytes() ? unchanged_ + 1 : 0;
    member_.set_outside(outside);
    publish(outside);
    if (!measured_) cuda_region(member_.board()).context_bytes.store(outside);
    measured_ = true;
    return;
  }
}

/// Tells the keeper how much room to leave.
void OutsideMemory::publish(std::uint64_t outside) {
  CudaRegion& region = cuda_region(member_.board());
  std::uint64_t most = region.most_outside_bytes.load();
  while (most < outside && !region.most_outside_bytes.compare_exchange_weak(most, outside)) {
  }
  const bool settled = unchanged_ >= kSettledCounts;
  region.expected_outside_bytes[member_.slot()].store(settled ? outside : std::max(outside, most));
  region.outside_bytes[member_.slot()].store(outside);
}

}  // namespace neaptide::cuda
