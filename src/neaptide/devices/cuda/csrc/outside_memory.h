// Device memory of this process that the arena does not manage: CUDA's context, kernels, and buffers of libraries.
//
// It is leased like the rest, as memory that nobody else may have, and before it can come to exist. A context is leased
// before it is made. Libraries take their buffers, and CUDA loads kernels, inside the first op of a kind (op_kinds.h):
// such an op is launched when room for growth is leased and free on the device. After the op NVML says how much was
// taken, and the rest of the room is given back. Where NVML says nothing of the process, as in some containers, what
// was leased for its context stays leased, and no room is leased.
//
// Lock order: mutex_ -> the page cache's and the member's own.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "../../native/member.h"

namespace neaptide::cuda {

struct CudaRegion;

/// What a context is taken to have before one was seen, on a budget of at least eight times as much.
inline constexpr std::uint64_t kUnknownContextBytes = std::uint64_t{512} << 20;

/// What an op of a new kind is expected to take, on a budget of at least 16 times as much: more than libraries and
/// kernels take at once when CUDA loads kernels one by one. If an op was seen to take more, that is expected from then
/// on, up to an eighth of the budget.
inline constexpr std::uint64_t kExpectedGrowthBytes = std::uint64_t{256} << 20;

/// After so many counts without a change and without an op of a new kind no growth is expected, and pages that nobody
/// owns may take the room that was left for it.
inline constexpr int kSettledCounts = 5;

class OutsideMemory {
 public:
  using PageBytes = std::function<std::uint64_t()>;
  /// Runs a wait during which the thread counts as outside its launch.
  using Wait = std::function<void(const std::function<void()>&)>;

  explicit OutsideMemory(Member& member);

  /// Leases the most that a context on this board had, before this process makes its own. Waits for the lease, and
  /// until the device has as much room beside the pages that are there, owned or not. While no context was seen, one
  /// process at a time makes one.
  void expect_context();
  /// Leases room for growth, and waits until the device has it. Less, or none, if the budget cannot have it beside the
  /// contexts of all processes and what this process holds, and none at the deadline. Returns the bytes, with which
  /// settle() must be called.
  std::uint64_t reserve(const Wait& wait, Deadline deadline);
  /// The op for which room was reserved was launched: counts, and gives back what it has not taken.
  void settle(std::uint64_t reserved, const PageBytes& page_bytes);
  /// Gives all room back that is reserved, because the process does not fit the budget with it. False when there is
  /// none.
  bool give_reserve();
  /// Counts again and changes the lease. `page_bytes` is what NVML counts of the arena's pages as this process's.
  /// Memory that is there already is leased even if that is more than the budget.
  void update(const PageBytes& page_bytes);

 private:
  bool count_locked(const PageBytes& page_bytes);
  bool try_reserve(std::uint64_t bytes);
  std::uint64_t lease_room(const Wait& wait, Deadline deadline);
  bool room_comes_free(const Wait& wait, Deadline deadline);
  void publish_locked();
  std::uint64_t expected_growth() const;
  std::uint64_t room_for_growth() const;

  Member& member_;
  CudaRegion& region_;
  const std::string bus_id_;
  std::atomic<bool> measured_{false};
  std::mutex mutex_;            // one count at a time; guards what follows
  std::uint64_t counted_ = 0;   // by NVML, last
  std::uint64_t reserved_ = 0;  // leased beyond that, for ops that are being launched
  int unchanged_ = 0;           // counts in a row that found the same, with no op of a new kind
};

}  // namespace neaptide::cuda
