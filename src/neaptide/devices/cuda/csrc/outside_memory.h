// Device memory of this process that the arena does not manage: CUDA's context, kernels, and buffers of libraries.
//
// Nobody is asked before it is taken, so an allowance is leased for it before the process makes its context, and kept
// for as long as the process lives: no other job may have these bytes, and no page is made in their place. What is
// taken beyond the allowance is leased when it is seen, even if that is more than the budget; then the allowance grows
// until that was given back, and the next process of the same program on this board begins with as much. NVML says how
// much a process has on a device. Where NVML says nothing of the process, as in some containers, what was leased for
// its context stays leased.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "../../native/member.h"

namespace neaptide::cuda {

/// What a context and libraries are taken to need before one was seen, on a budget of at least eight times as much.
inline constexpr std::uint64_t kUnknownContextBytes = std::uint64_t{512} << 20;

/// What was taken beyond the allowance may come again and again: it counts until so many counts have found less.
inline constexpr int kRecentCounts = 50;

class OutsideMemory {
 public:
  /// What NVML counts of the arena's pages as this process's; nothing while that is not known.
  using PageBytes = std::function<std::optional<std::uint64_t>()>;

  /// `program` tells programs apart; 0: it is not known.
  OutsideMemory(Member& member, std::uint32_t program);

  /// Before this process makes its context: leases what the last one here needed, and the allowance for libraries.
  /// Waits for the lease, and until the device has as much room beside the pages that are there, owned or not. While no
  /// context was seen, one process at a time makes one.
  void expect_context();
  /// The context is there: counts it, and has the rest of the allowance leased.
  void expect_libraries(const PageBytes& page_bytes);
  /// Counts again. What is there beyond the allowance is leased, whether the budget has room or not, and said once.
  void update(const PageBytes& page_bytes);
  /// Gives back what is leased beyond what was seen, until the budget is raised: the process does not fit it
  /// otherwise. False when there is nothing to give.
  bool give_allowance();

 private:
  std::optional<std::uint64_t> count(const PageBytes& page_bytes) const;
  void lease_locked(std::uint64_t bytes);
  void wait_for_room() const;
  std::uint64_t wanted_locked() const;
  void say_beyond_locked(std::uint64_t allowed);

  Member& member_;
  const std::uint32_t program_;
  const std::string bus_id_;
  std::mutex mutex_;                   // guards what follows; taken before the member's own
  bool counts_ = false;                // NVML knows this process
  std::uint64_t seen_ = 0, most_ = 0;  // by the last count, and recently
  int since_most_ = 0;                 // counts
  std::uint64_t allowance_ = 0;        // from the beginning on
  std::uint64_t for_libraries_ = 0;    // of it, or beyond what was seen if that is more than the allowance
  std::uint64_t given_at_ = 0;         // the budget in which the allowance was given back; 0: it was not
  bool said_ = false;
};

}  // namespace neaptide::cuda
