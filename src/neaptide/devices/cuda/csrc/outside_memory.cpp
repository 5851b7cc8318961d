#include "outside_memory.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "../../native/launch/say.h"
#include "region/cuda_region.h"
#include "region/nvml.h"
#include "region/page_table.h"

namespace neaptide::cuda {
namespace {

constexpr int kAttempts = 3;

constexpr auto kPause = std::chrono::milliseconds(2);
constexpr auto kFirstContext = std::chrono::seconds(10);  // a process that stands still keeps nobody waiting longer

std::string mebibytes(std::uint64_t bytes) { return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB"; }

/// What libraries and kernels are taken to need before more was seen: half as much as the context, and a sixteenth of
/// the budget at most.
std::uint64_t allowance_beside(std::uint64_t context, const Board& board) {
  return std::min(context / 2, board.capacity_bytes() / 16);
}

/// Whether this process may make the first context on the board.
bool makes_first_context(CudaRegion& region, std::uint32_t slot) {
  std::uint32_t maker = 0;
  return region.first_context.compare_exchange_strong(maker, slot + 1) || maker == slot + 1;
}

}  // namespace

OutsideMemory::OutsideMemory(Member& member, std::uint32_t program)
    : member_(member), program_(program), bus_id_(bus_id_of(member.board().region_setting())) {}

void OutsideMemory::expect_context() {
  Board& board = member_.board();
  CudaRegion& region = cuda_region(board);
  // Two processes that both guess too little could together exceed the budget; a single context cannot.
  const auto deadline = std::chrono::steady_clock::now() + kFirstContext;
  while (region.context_bytes.load() == 0 && !makes_first_context(region, member_.slot()) &&
         std::chrono::steady_clock::now() < deadline) {
    board.reap();
    std::this_thread::sleep_for(kPause);
  }
  const std::uint64_t known = region.context_bytes.load(), capacity = board.capacity_bytes();
  // The first process on a board can only guess; a small device has a small part of its memory to spare for that.
  const std::uint64_t context = known != 0 ? known : std::min(kUnknownContextBytes, capacity / 8);
  if (context > capacity)
    throw DriverError("the budget of " + mebibytes(capacity) + " is too small for CUDA's own memory of " +
                      mebibytes(context));
  const std::uint64_t libraries = known != 0 ? allowance_beside(known, board) : 0;
  const std::uint64_t expected =
      std::min(std::max(context + libraries, outside_of_program(region, program_)), capacity);
  member_.take_outside(expected);
  region.outside_bytes[member_.slot()].store(expected);
  wait_for_room();
}

void OutsideMemory::expect_libraries(const PageBytes& page_bytes) {
  Board& board = member_.board();
  CudaRegion& region = cuda_region(board);
  if (const auto context = count(page_bytes)) {
    const std::lock_guard lock(mutex_);
    counts_ = true;
    seen_ = most_ = *context;
    for_libraries_ = allowance_beside(*context, board);
    allowance_ = std::max(*context + for_libraries_, outside_of_program(region, program_));
    lease_locked(std::max(*context, std::min(member_.outside_bytes(), allowance_)));
    region.context_bytes.store(*context);
  }
  std::uint32_t maker = member_.slot() + 1;
  region.first_context.compare_exchange_strong(maker, 0);
  if (allowance_ <= member_.outside_bytes()) return;
  member_.take_outside(allowance_ - member_.outside_bytes());
  region.outside_bytes[member_.slot()].store(allowance_);
  wait_for_room();
}

void OutsideMemory::update(const PageBytes& page_bytes) {
  const std::lock_guard lock(mutex_);
  if (!counts_) return;
  const auto seen = count(page_bytes);
  if (!seen) return;
  seen_ = *seen;
  if (seen_ >= most_ || ++since_most_ >= kRecentCounts) {
    most_ = seen_;
    since_most_ = 0;
  }
  const std::uint64_t leased = member_.outside_bytes();
  if (seen_ > leased) {
    lease_locked(seen_);
    know_outside_of_program(cuda_region(member_.board()), program_, seen_ + for_libraries_);
    if (!within_budget(member_.board())) say_beyond_locked(leased);
  }
  const std::uint64_t wanted = wanted_locked(), now = member_.outside_bytes();
  if (wanted < now) lease_locked(wanted);
  // Nobody waits here: counts must go on.
  if (wanted > now && member_.try_take_outside(wanted - now))
    cuda_region(member_.board()).outside_bytes[member_.slot()].store(wanted);
}

bool OutsideMemory::give_allowance() {
  const std::lock_guard lock(mutex_);
  if (!counts_ || seen_ >= member_.outside_bytes()) return false;
  given_at_ = member_.board().capacity_bytes();
  lease_locked(seen_);
  return true;
}

std::uint64_t OutsideMemory::wanted_locked() const {
  if (given_at_ != 0 && member_.board().capacity_bytes() <= given_at_) return seen_;
  return most_ > allowance_ ? most_ + for_libraries_ : allowance_;
}

/// What the process has outside its arena; nothing when NVML does not say, or memory moved at every look.
std::optional<std::uint64_t> OutsideMemory::count(const PageBytes& page_bytes) const {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const auto before = page_bytes();
    const auto own = before ? bytes_of(bus_id_, getpid()) : std::nullopt;
    if (!own) return std::nullopt;
    if (page_bytes() == before) return *own - std::min(*own, *before);
  }
  return std::nullopt;
}

/// Pages are made in the room that the board's word leaves, so it is right before the leases are.
void OutsideMemory::lease_locked(std::uint64_t bytes) {
  cuda_region(member_.board()).outside_bytes[member_.slot()].store(bytes);
  member_.set_outside(bytes);
}

/// Until the keeper and the jobs have let go of pages that nobody owns.
void OutsideMemory::wait_for_room() const {
  while (!within_budget(member_.board())) {
    member_.board().reap();
    std::this_thread::sleep_for(kPause);
  }
}

void OutsideMemory::say_beyond_locked(std::uint64_t allowed) {
  if (std::exchange(said_, true)) return;
  say(std::string("neaptide: job ") + member_.board().slot(member_.slot()).job.text + " took " + mebibytes(seen_) +
      " on the GPU besides its tensors, " + mebibytes(seen_ - allowed) +
      " more than was kept for it: the GPU has more in use than the budget until other jobs have made way\n");
}

}  // namespace neaptide::cuda
