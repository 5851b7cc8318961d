#include "outside_memory.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "region/cuda_region.h"
#include "region/nvml.h"
#include "region/page_table.h"

namespace neaptide::cuda {
namespace {

constexpr int kAttempts = 3;

constexpr auto kPause = std::chrono::milliseconds(2);
constexpr auto kFirstContext = std::chrono::seconds(10);  // a process that stands still keeps nobody waiting longer

void raise(Word64& word, std::uint64_t value) {
  for (std::uint64_t seen = word.load(); seen < value && !word.compare_exchange_weak(seen, value);) {
  }
}

/// Whether this process is the one that makes the first context on the board.
bool makes_first_context(CudaRegion& region, std::uint32_t slot) {
  std::uint32_t maker = 0;
  return region.first_context.compare_exchange_strong(maker, slot + 1) || maker == slot + 1;
}

}  // namespace

OutsideMemory::OutsideMemory(Member& member)
    : member_(member), region_(cuda_region(member.board())), bus_id_(bus_id_of(member.board().region_setting())) {}

void OutsideMemory::expect_context() {
  // Two processes that both guess too little could together exceed the budget; a single context cannot.
  const auto deadline = std::chrono::steady_clock::now() + kFirstContext;
  while (region_.context_bytes.load() == 0 && !makes_first_context(region_, member_.slot()) &&
         std::chrono::steady_clock::now() < deadline) {
    member_.board().reap();
    std::this_thread::sleep_for(kPause);
  }
  const std::uint64_t known = region_.context_bytes.load();
  // The first process on a board can only guess; a small device has a small part of its memory to spare for that.
  const std::uint64_t guess = std::min(kUnknownContextBytes, member_.board().capacity_bytes() / 8);
  const std::uint64_t expected = known != 0 ? known : guess;
  if (expected > member_.board().capacity_bytes())
    throw DriverError("the budget of " + std::to_string(member_.board().capacity_bytes() >> 20) +
                      " MiB is too small for CUDA's own memory of " + std::to_string(expected >> 20) + " MiB");
  member_.take_outside(expected);
  region_.expected_outside_bytes[member_.slot()].store(std::max(expected, region_.most_outside_bytes.load()));
  region_.outside_bytes[member_.slot()].store(expected);
  while (!within_budget(member_.board())) {  // the keeper and the jobs let go of pages that nobody owns
    member_.board().reap();
    std::this_thread::sleep_for(kPause);
  }
}

std::uint64_t OutsideMemory::expected_growth() const {
  const std::uint64_t capacity = member_.board().capacity_bytes();
  const std::uint64_t seen = std::min(region_.largest_growth_bytes.load(), capacity / 8);
  return std::max(seen, std::min(kExpectedGrowthBytes, capacity / 16));
}

/// The expected growth, as far as the budget can have it when all other processes have given back what they can.
std::uint64_t OutsideMemory::room_for_growth() const {
  const std::uint64_t capacity = member_.board().capacity_bytes();
  std::uint64_t taken = member_.held_bytes();
  for (std::uint32_t slot = 0; slot < kSlots; ++slot)
    if (slot != member_.slot()) taken += region_.outside_bytes[slot].load();
  return std::min(expected_growth(), capacity - std::min(capacity, taken));
}

bool OutsideMemory::try_reserve(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (!member_.try_take_outside(bytes)) return false;
  reserved_ += bytes;
  unchanged_ = 0;
  publish_locked();
  return true;
}

std::uint64_t OutsideMemory::reserve(const Wait& wait, Deadline deadline) {
  if (!measured_.load()) return 0;
  for (;;) {
    const std::uint64_t bytes = lease_room(wait, deadline);
    if (bytes == 0 || room_comes_free(wait, deadline)) return bytes;
    give_reserve();
    wait([] {});  // the gate serves the request
  }
}

std::uint64_t OutsideMemory::lease_room(const Wait& wait, Deadline deadline) {
  std::optional<Stalls> stalls;
  std::optional<LeaseClaim> claim;
  for (;;) {
    const std::uint32_t epoch = member_.memory_epoch();  // before the attempt, so that no wake-up is lost
    const std::uint64_t bytes = room_for_growth();
    if (bytes == 0 || try_reserve(bytes)) return bytes;
    if (claim) {
      claim->resize(bytes);
    } else {
      stalls.emplace(member_);
      claim.emplace(member_, bytes);
    }
    bool in_time = false;
    wait([&] { in_time = claim->wait(epoch, deadline); });
    if (!in_time) return 0;
  }
}

/// Waits until pages that nobody owns have left the room. False when the process is asked to move its memory: then it
/// must not keep room from the process for which it moves.
bool OutsideMemory::room_comes_free(const Wait& wait, Deadline deadline) {
  while (!within_budget(member_.board()) && std::chrono::steady_clock::now() < deadline) {
    if (member_.request() != Request::none) return false;
    wait([] { std::this_thread::sleep_for(kPause); });
  }
  return true;
}

void OutsideMemory::settle(std::uint64_t reserved, const PageBytes& page_bytes) {
  const std::lock_guard lock(mutex_);
  reserved_ -= std::min(reserved_, reserved);
  const std::uint64_t before = counted_;
  if (!count_locked(page_bytes)) return;  // the room stays leased until the next count
  if (counted_ > before) raise(region_.largest_growth_bytes, counted_ - before);
}

bool OutsideMemory::give_reserve() {
  const std::lock_guard lock(mutex_);
  if (reserved_ == 0) return false;
  const std::uint64_t leased = member_.outside_bytes();
  member_.set_outside(leased - std::min(leased, reserved_));
  reserved_ = 0;
  publish_locked();
  return true;
}

void OutsideMemory::update(const PageBytes& page_bytes) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t before = counted_;
  if (count_locked(page_bytes)) unchanged_ = counted_ == before && reserved_ == 0 ? unchanged_ + 1 : 0;
  // Where NVML is silent, what was expected is all that is known.
  if (!measured_.load()) raise(region_.context_bytes, member_.outside_bytes());
}

/// False when NVML says nothing, or memory moved at every look: then nothing changes.
bool OutsideMemory::count_locked(const PageBytes& page_bytes) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const std::uint64_t before = page_bytes();
    const auto own = bytes_of(bus_id_, getpid());
    if (!own) return false;
    if (page_bytes() != before) continue;  // memory moved between the two looks
    counted_ = *own - std::min(*own, before);
    // Ops that are still being launched may have taken a part of their room, which is counted already. So they need no
    // more than what is leased now.
    const std::uint64_t leased = member_.outside_bytes();
    member_.set_outside(std::max(counted_, std::min(leased, counted_ + reserved_)));
    raise(region_.most_outside_bytes, counted_);
    if (!measured_.exchange(true)) raise(region_.context_bytes, counted_);
    publish_locked();
    return true;
  }
  return false;
}

/// Tells the keeper how much room to leave.
void OutsideMemory::publish_locked() {
  const std::uint64_t leased = member_.outside_bytes();
  const std::uint64_t soon = std::max(counted_ + expected_growth(), region_.most_outside_bytes.load());
  const bool settled = unchanged_ >= kSettledCounts;
  region_.expected_outside_bytes[member_.slot()].store(settled ? leased : std::max(leased, soon));
  region_.outside_bytes[member_.slot()].store(leased);
}

}  // namespace neaptide::cuda
