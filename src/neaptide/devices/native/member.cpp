#include "member.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "board_layout.h"
#include "board_lock.h"
#include "futex.h"
#include "leases.h"
#include "process.h"
#include "reaper.h"

namespace neaptide {
namespace {

void pack_job(SlotLayout& slot, const std::string& job) {
  for (std::size_t word = 0; word < kJobWords; ++word) {
    std::uint64_t packed = 0;
    for (std::size_t byte = 0; byte < 8; ++byte) {
      const std::size_t letter = word * 8 + byte;
      if (letter < job.size() && letter < kJobWords * 8 - 1)
        packed |= std::uint64_t{static_cast<unsigned char>(job[letter])} << (8 * byte);
    }
    slot.job[word].store(packed);
  }
}

void prepare(SlotLayout& slot, const std::string& job) {
  const ProcessId self = this_process();
  slot.pid.store(self.pid);
  slot.start_time.store(self.start_time);
  slot.generation.fetch_add(1);
  pack_job(slot, job);
  slot.wanted.store(0);
  slot.claim.store(kDemoted);
  slot.age.store(kNoIteration);
  slot.needed.store(0);
  slot.expected_leases.store(0);
  slot.rest.store(0);
  slot.iteration.store(0);
  slot.launched.store(0);
  slot.done.store(0);
  slot.state.store(SlotState::idle);
  slot.ceiling.store(kNoCeiling);
  slot.permit.store(kPermitAll);
  slot.heavy_open.store(1);
  slot.inflight_cap.store(kUnbounded);
  slot.request.store(Request::none);
}

std::uint64_t new_claim(BoardLayout& board, const SlotLayout& slot) {
  const std::uint64_t age = slot.age.load();
  return age != kNoIteration ? age : kOutsideIterations | board.next_claim.fetch_add(1);
}

}  // namespace

Member::Member(std::shared_ptr<Board> board, const std::string& job) : board_(std::move(board)) {
  BoardLayout& layout = board_->layout();
  board_->reap();
  const BoardLock lock(layout.lock, board_->path());
  const auto taken = std::find_if(layout.slots.begin(), layout.slots.end(),
                                  [](const SlotLayout& slot) { return slot.use.load() == SlotUse::free; });
  if (taken == layout.slots.end())
    throw BoardError("board " + board_->path() + ": all " + std::to_string(kSlots) + " slots are taken");
  prepare(*taken, job);
  slot_ = static_cast<std::uint32_t>(taken - layout.slots.begin());
  layout.slots_high.store(std::max(layout.slots_high.load(), slot_ + 1));
  taken->use.store(SlotUse::taken);  // last: a slot is free until it is whole
}

Member::~Member() {
  if (board_->forked()) return;
  BoardLayout& layout = board_->layout();
  try {
    const BoardLock lock(layout.lock, board_->path());
    vacate(layout, slot_);
    settle(layout);
  } catch (const BoardError&) {
    return;  // the next reaper finds the slot when this process has ended
  }
  wake_memory_waiters(layout);
  wake_device_waiters(layout);
}

SlotLayout& Member::words() const { return board_->layout().slots[slot_]; }

Lease Member::try_take(std::uint64_t bytes) { return take_lease(board_->layout(), slot_, bytes); }

Lease Member::take(std::uint64_t bytes, Deadline deadline) {
  Lease lease = try_take(bytes);
  if (lease == Lease::granted) return lease;
  LeaseClaim claim(*this, bytes);
  for (;;) {
    const std::uint32_t epoch = memory_epoch();
    lease = try_take(bytes);
    if (lease == Lease::granted || !claim.wait(epoch, deadline)) return lease;
  }
}

void Member::give(std::uint64_t bytes) {
  if (!give_lease(board_->layout(), slot_, bytes))
    throw std::logic_error("gave back " + std::to_string(bytes) + " bytes, but holds " + std::to_string(held_bytes()));
}

std::uint64_t Member::held_bytes() const { return words().held.load(); }

bool Member::others_wait() const {
  const BoardLayout& board = board_->layout();
  for (std::uint32_t index = 0, high = board.slots_high.load(); index < high; ++index)
    if (index != slot_ && board.slots[index].wanted.load() > 0) return true;
  return false;
}

std::uint32_t Member::memory_epoch() const { return words().memory_epoch.load(); }
void Member::poke() { futex_wake(words().memory_epoch, Reach::all_processes); }

std::uint64_t Member::begin_iteration() {
  words().rest.store(held_bytes());
  words().age.store(board_->layout().next_age.fetch_add(1));
  return words().iteration.fetch_add(1);
}

void Member::renew_age() {
  if (words().age.load() != kNoIteration) words().age.store(board_->layout().next_age.fetch_add(1));
}

void Member::end_iteration() {
  words().age.store(kNoIteration);
  set_expected_leases(0);
}

void Member::set_expected_leases(std::uint64_t bytes) {
  if (words().expected_leases.exchange(bytes) > bytes && others_wait()) wake_memory_waiters(board_->layout());
}

void Member::demote_claim() {
  words().claim.store(kDemoted);
  wake_memory_waiters(board_->layout());
}

void Member::set_state(SlotState state) { words().state.store(state); }
void Member::publish_needed(std::uint64_t bytes) { words().needed.store(bytes, std::memory_order_relaxed); }
void Member::count_launched(std::uint64_t kernels) { words().launched.fetch_add(kernels, std::memory_order_relaxed); }
void Member::count_done(std::uint64_t kernels) { words().done.fetch_add(kernels, std::memory_order_relaxed); }

bool Member::permitted(std::uint64_t iteration) const {
  const std::uint32_t permit = words().permit.load();
  return permit == kPermitAll || iteration < permit;
}

bool Member::heavy_open() const { return words().heavy_open.load() != 0; }
std::uint32_t Member::inflight_cap() const { return words().inflight_cap.load(std::memory_order_relaxed); }
std::uint64_t Member::ceiling_bytes() const { return words().ceiling.load(); }
Request Member::request() const { return words().request.load(std::memory_order_relaxed); }
void Member::clear_request() { words().request.store(Request::none); }
bool Member::finish_request(Request request) { return words().request.compare_exchange_strong(request, Request::none); }

bool Member::wait_permit(std::uint64_t iteration, Deadline deadline) {
  return wait_control([&] { return permitted(iteration); }, deadline);
}

bool Member::wait_heavy_open(Deadline deadline) {
  return wait_control([&] { return heavy_open(); }, deadline);
}

bool Member::wait_control(const std::function<bool()>& ready, Deadline deadline) {
  SlotLayout& slot = words();
  for (;;) {
    const std::uint32_t epoch = slot.control_epoch.load();
    if (ready()) return true;
    const Deadline now = std::chrono::steady_clock::now();
    if (now >= deadline) return false;
    // A controller may die between the change and the wake-up.
    futex_wait(slot.control_epoch, epoch, std::min(deadline, now + board_->patience()), Reach::all_processes);
  }
}

void Member::poke_controls() { futex_wake(words().control_epoch, Reach::all_processes); }

LeaseClaim::LeaseClaim(Member& member, std::uint64_t bytes) : member_(member), bytes_(bytes) {
  SlotLayout& slot = member_.words();
  if (slot.wanted.load() == 0) slot.claim.store(new_claim(member_.board().layout(), slot));
  slot.wanted.fetch_add(bytes_);
}

LeaseClaim::~LeaseClaim() {
  if (!member_.board().forked()) resize(0);
}

void LeaseClaim::resize(std::uint64_t bytes) {
  const bool less = bytes < bytes_;
  member_.words().wanted.fetch_add(bytes - bytes_);  // wraps round to a subtraction
  bytes_ = bytes;
  if (less) wake_memory_waiters(member_.board().layout());  // younger ones may fit now
}

bool LeaseClaim::wait(std::uint32_t epoch, Deadline deadline) {
  SlotLayout& slot = member_.words();
  BoardLayout& board = member_.board().layout();
  if (slot.claim.load() == kDemoted) slot.claim.store(new_claim(board, slot));
  const Deadline now = std::chrono::steady_clock::now();
  if (now >= deadline) return false;
  reap_dead(board, member_.board().path(), Patience::skip_when_locked);
  futex_wait(slot.memory_epoch, epoch, std::min(deadline, now + member_.board().patience()), Reach::all_processes);
  if (slot.memory_epoch.load() == epoch) {
    // Nothing came for long: do not let a stopped process keep bytes from those that run.
    for (const std::uint32_t elder : elders_of(board, member_.slot(), claim_of(slot))) {
      SlotLayout& other = board.slots[elder];
      if (probe({other.pid.load(), other.start_time.load()}) != ProcessState::stopped) continue;
      other.claim.store(kDemoted);
      other.expected_leases.store(0);
    }
  }
  return true;
}

}  // namespace neaptide
