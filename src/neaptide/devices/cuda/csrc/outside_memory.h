// Device memory of this process that the arena does not manage: CUDA's context, kernels, and buffers of libraries.
//
// It is leased like the rest, as memory that nobody else may have. NVML says how much a process has on a device. Where
// NVML says nothing of the process, as in some containers, what was leased for its context stays leased.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "../../native/member.h"

namespace neaptide::cuda {

/// What a context is taken to have before one was seen, on a budget of at least eight times as much.
inline constexpr std::uint64_t kUnknownContextBytes = std::uint64_t{512} << 20;

/// Buffers of libraries come with the first iterations. After so many counts without a change no more are expected, and
/// pages that nobody owns may take the room that was left for them.
inline constexpr int kSettledCounts = 5;

class OutsideMemory {
 public:
  explicit OutsideMemory(Member& member);

  /// Leases what the last context on this board had, before this process makes its own. Waits for the lease, and until
  /// the device has as much room beside the pages that are there, owned or not.
  void expect_context();
  /// Counts again and changes the lease. `page_bytes` is what NVML counts of the arena's pages as this process's.
  /// Memory that is there already is leased even if that is more than the budget.
  void update(const std::function<std::uint64_t()>& page_bytes);
  /// What is leased for it. Changes nothing.
  std::uint64_t bytes() const { return member_.outside_bytes(); }

 private:
  void publish(std::uint64_t outside);

  Member& member_;
  const std::string bus_id_;
  bool measured_ = false;
  int unchanged_ = 0;  // counts in a row that found the same
  std::mutex mutex_;   // one count at a time; taken before the member's own
};

}  // namespace neaptide::cuda
