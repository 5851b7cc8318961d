#include "member.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "../../core/rules/over_the_link.h"
#include "board_layout.h"
#include "device_region.h"
#include "futex.h"
#include "leases.h"
#include "reaper.h"
#include "slot_locks.h"

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
    if (slot.job[word].load() != packed) slot.job[word].store(packed);
  }
}

void prepare(SlotLayout& slot) {
  slot.claim.store(kDemoted);
  slot.largest_capacity.store(0);
  slot.needed.store(0);
  slot.over.store(0);
  slot.expected_leases.store(0);
  slot.rest.store(0);
  slot.launched.store(0);
  slot.done.store(0);
  slot.waited_ns.store(0);
  slot.waits_since_ns.store(0);
  slot.stalled_ns.store(0);
  slot.state.store(SlotState::idle);
  slot.ceiling.store(kNoCeiling);
  slot.limit.store(kNoCeiling);
  slot.lane.store(0);
  slot.permit.store(kPermitAll);
  slot.inflight_cap.store(kUnbounded);
  slot.deadline_class.store(0);
  slot.share.store(kWholeShare);
  slot.gate_until_ns.store(kAlways);
  slot.gate_holds_light.store(0);
  slot.request.store(Request::none);
}

std::uint64_t monotonic_ns() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

/// The next ticket for the age of an iteration, or for a claim outside iterations: below kOutsideIterations.
std::uint64_t next_ticket(Word64& counter) { return counter.fetch_add(1) & (kOutsideIterations - 1); }

template <typename Word, typename Value>
void restore(Word& word, Value value) {
  if (word.load(std::memory_order_relaxed) != value) word.store(value);
}

}  // namespace

Member::Member(std::shared_ptr<Board> board, const std::string& job)
    : board_(std::move(board)), job_(job.substr(0, kJobWords * 8 - 1)) {
  board_->reap();
  take_slot();
  if (board_->is_at_its_path()) return;
  leave();
  throw BoardReplaced("board " + board_->path() + ": it was removed or replaced while this process joined it");
}

void Member::take_slot() {
  BoardLayout& layout = board_->layout();
  for (std::uint32_t index = 0; index < kSlots; ++index) {
    SlotLayout& slot = layout.slots[index];
    if (!board_->locks().take(index)) continue;
    if (!is_empty(slot)) {  // its owner has died since the reaping, or what it had in transit could not be counted
      board_->locks().drop(index);
      continue;
    }
    prepare(slot);
    slot_ = index;
    words_ = &slot;
    mend();
    return;
  }
  throw BoardFull("board " + board_->path() + ": all " + std::to_string(kSlots) + " slots are taken");
}

void Member::leave() {
  BoardLayout& layout = board_->layout();
  {
    const std::lock_guard lock(mutex_);
    SlotLayout& slot = words();
    if (const DeviceRegion* device = board_->region()) device->vacate(region_of(layout), slot_);
    slot.wanted.store(0);
    slot.over.store(0);
    slot.age.store(kNoIteration);
    give_lease(layout, slot_, truth_.held, 0);
    slot.use.store(SlotUse::free);
  }
  board_->locks().drop(slot_);
  wake_device_waiters(*board_);
}

Member::~Member() {
  if (!board_->forked()) leave();
}

void Member::mend() {
  const std::lock_guard lock(mutex_);
  mend_locked();
}

void Member::mend_locked() {
  BoardLayout& layout = board_->layout();
  SlotLayout& slot = words();
  restore(slot.pid, self_.pid);
  restore(slot.start_time, self_.start_time);
  pack_job(slot, job_);
  restore(slot.wanted, truth_.wanted);
  restore(slot.over, truth_.over);
  restore(slot.age, truth_.age);
  restore(slot.iteration, truth_.iteration);
  restore(slot.entered, truth_.entered);
  if (slot.held.load() != truth_.held) slot.held.store(truth_.held);
  learn_capacity_locked();
  restore(slot.ended, slot.begun.load());  // no lease of this process moves while the mutex is held
  for (std::uint32_t high = layout.slots_high.load(); high <= slot_ || high > kSlots;)
    if (layout.slots_high.compare_exchange_weak(high, high > kSlots ? kSlots : slot_ + 1)) break;
  restore(slot.use, SlotUse::taken);  // last: a slot is free until it is whole
}

void Member::learn_capacity_locked() {
  Sealed& mark = words().largest_capacity;
  std::uint64_t& largest = truth_.largest_capacity;
  largest = std::max(largest, board_->capacity_bytes());  // before the mark: board_layout.h
  largest = std::max(largest, mark.load().value_or(0));
  mark.raise(largest);
}

std::uint64_t Member::new_claim_locked() const {
  return truth_.age != kNoIteration ? truth_.age : kOutsideIterations | next_ticket(board_->layout().next_claim);
}

Lease Member::try_take(std::uint64_t bytes) {
  BoardLayout& layout = board_->layout();
  const std::uint64_t ceiling = ceiling_bytes();
  const std::lock_guard lock(mutex_);
  mend_locked();
  const auto allows = [&](std::uint64_t limit, std::uint64_t has) { return has <= limit && bytes <= limit - has; };
  if (!allows(own_limit_bytes(), truth_.held + truth_.over)) return Lease::ceiling;
  if (!allows(ceiling, truth_.held) && !daemon_silent()) return Lease::ceiling;
  if (!allows(limit_bytes(), truth_.held)) return Lease::limit;
  const Lease lease = take_lease(layout, slot_, truth_.held, bytes);
  if (lease == Lease::granted) truth_.held += bytes;
  return lease;
}

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
  BoardLayout& layout = board_->layout();
  const std::lock_guard lock(mutex_);
  if (bytes > truth_.held)
    throw std::logic_error("gave back " + std::to_string(bytes) + " bytes, but holds " + std::to_string(truth_.held));
  truth_.held -= bytes;
  give_lease(layout, slot_, bytes, truth_.held);
}

bool Member::overflows(Lease refused) const {
  if (refused == Lease::limit) return true;
  return (refused == Lease::full || refused == Lease::reserved) && board_->oversubscribed();
}

std::uint64_t Member::room_bytes() const {
  const std::uint64_t limit = limit_bytes();
  std::uint64_t room = kNoCeiling;
  if (board_->oversubscribed()) {
    const std::uint64_t capacity = board_->capacity_bytes();
    room = capacity - std::min(board_->used_bytes(), capacity);
  }
  const std::lock_guard lock(mutex_);
  return std::min(room, limit - std::min(truth_.held, limit));
}

void Member::count_over_locked(std::uint64_t bytes) {
  truth_.over = bytes;
  over_bytes_.store(bytes, std::memory_order_relaxed);
  words().over.store(bytes);
}

void Member::take_over(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  count_over_locked(truth_.over + bytes);
}

void Member::give_over(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes > truth_.over)
    throw std::logic_error("gave back " + std::to_string(bytes) + " bytes over the link, but has " +
                           std::to_string(truth_.over));
  count_over_locked(truth_.over - bytes);
}

bool Member::bring_back(std::uint64_t bytes) {
  if (try_take(bytes) != Lease::granted) return false;
  const std::lock_guard lock(mutex_);
  count_over_locked(truth_.over - bytes);
  words().rest.store(words().rest.load() + bytes);
  return true;
}

void Member::send_over(std::uint64_t bytes) {
  take_over(bytes);
  give(bytes);
  const std::lock_guard lock(mutex_);
  if (words().rest.load() > truth_.held) words().rest.store(truth_.held);
}

std::uint64_t Member::excess_bytes() const {
  const std::uint64_t limit = limit_bytes(), held = held_bytes();
  const std::uint64_t beyond = held - std::min(held, limit);
  if (!board_->oversubscribed()) return beyond;
  const std::uint64_t capacity = board_->capacity_bytes(), used = board_->used_bytes();
  return std::max(beyond, std::min(used - std::min(used, capacity), held));
}

double Member::over_the_link_ns(std::uint64_t moved_bytes, double link_bandwidth) const {
  const auto moved = static_cast<double>(moved_bytes);
  if (board_->oversubscribed()) {
    const auto all = static_cast<double>(board_->used_bytes() + board_->over_bytes());
    return paging_ns(all, static_cast<double>(board_->capacity_bytes()), moved, link_bandwidth);
  }
  const auto over = static_cast<double>(over_bytes());
  return neaptide::over_the_link_ns(over, over + static_cast<double>(held_bytes()), moved, link_bandwidth);
}

void Member::take_outside(std::uint64_t bytes) {
  if (bytes == 0 || take(bytes, Deadline::max()) != Lease::granted) return;
  outside_bytes_.fetch_add(bytes);
}

bool Member::try_take_outside(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  mend_locked();
  if (take_lease(board_->layout(), slot_, truth_.held, bytes) != Lease::granted) return false;
  truth_.held += bytes;
  outside_bytes_.fetch_add(bytes);
  return true;
}

void Member::set_outside(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  mend_locked();
  const std::uint64_t before = outside_bytes_.exchange(bytes), held = truth_.held;
  truth_.held = held - before + bytes;
  if (bytes < before)
    give_lease(board_->layout(), slot_, before - bytes, truth_.held);
  else
    charge_lease(board_->layout(), slot_, held, bytes - before);
}

std::uint64_t Member::arena_bytes() const {
  const std::lock_guard lock(mutex_);
  return truth_.held - outside_bytes();
}

std::uint64_t Member::held_bytes() const {
  board_->require_owner();
  const std::lock_guard lock(mutex_);
  return truth_.held;
}

std::uint64_t Member::largest_capacity_bytes() {
  const std::lock_guard lock(mutex_);
  learn_capacity_locked();
  return truth_.largest_capacity;
}

bool Member::others_wait() const {
  const BoardLayout& board = board_->layout();
  for (std::uint32_t index = 0, high = slots_high(board); index < high; ++index)
    if (index != slot_ && board.slots[index].wanted.load() > 0) return true;
  return false;
}

std::uint32_t Member::memory_epoch() const { return words().memory_epoch.load(); }
void Member::poke() { futex_wake(words().memory_epoch, Reach::all_processes); }

std::uint64_t Member::begin_iteration() {
  BoardLayout& layout = board_->layout();
  std::uint64_t begun = 0;
  {
    const std::lock_guard lock(mutex_);
    words().rest.store(truth_.held);
    truth_.age = next_ticket(layout.next_age);
    words().age.store(truth_.age);
    words().iteration.store(++truth_.iteration);
    begun = truth_.iteration - 1;
  }
  if (others_wait()) wake_memory_waiters(layout);  // before, it was older than one that may be the oldest now
  return begun;
}

void Member::enter_iteration(std::uint64_t iteration) {
  SlotLayout& slot = words();
  const std::lock_guard lock(mutex_);
  truth_.entered = iteration + 1;
  slot.entered.store(truth_.entered);
  // While it waited for its permit, the kernels of the iteration before it may have ended.
  if (slot.rest.load() > truth_.held) slot.rest.store(truth_.held);
}

void Member::renew_age() {
  BoardLayout& layout = board_->layout();
  {
    const std::lock_guard lock(mutex_);
    if (truth_.age != kNoIteration) truth_.age = next_ticket(layout.next_age);
    words().age.store(truth_.age);
  }
  if (others_wait()) wake_memory_waiters(layout);
}

void Member::end_iteration() {
  {
    SlotLayout& slot = words();
    const std::lock_guard lock(mutex_);
    truth_.age = kNoIteration;
    slot.age.store(kNoIteration);
  }
  words().expected_leases.store(0);
  if (others_wait()) wake_memory_waiters(board_->layout());  // its lane has room again
}

void Member::set_expected_leases(std::uint64_t bytes) {
  if (words().expected_leases.exchange(bytes) > bytes && others_wait()) wake_memory_waiters(board_->layout());
}

void Member::demote_claim() {
  words().claim.store(kDemoted);
  wake_memory_waiters(board_->layout());
}

void Member::set_state(SlotState state) {
  words().state.store(state);
  // An iteration that stands still may have been the oldest, and another is the oldest now.
  if (state != SlotState::running && others_wait()) wake_memory_waiters(board_->layout());
}
void Member::publish_needed(std::uint64_t bytes) { words().needed.store(bytes, std::memory_order_relaxed); }
void Member::count_launched(std::uint64_t kernels) { words().launched.fetch_add(kernels, std::memory_order_relaxed); }
void Member::count_done(std::uint64_t kernels) { words().done.fetch_add(kernels, std::memory_order_relaxed); }

bool Member::runs_ahead() const { return words().permit.load() == kPermitAll; }

bool Member::permitted(std::uint64_t iteration) const {
  const std::uint32_t permit = words().permit.load();
  return permit == kPermitAll || iteration < permit || daemon_silent();
}

std::uint64_t Member::heavy_until_ns() const {
  const std::uint64_t until_ns = words().gate_until_ns.load();
  return until_ns == kAlways || daemon_silent() ? kAlways : until_ns;
}
bool Member::gate_holds_light() const { return words().gate_holds_light.load(std::memory_order_relaxed) == 1; }
bool Member::in_deadline_class() const { return words().deadline_class.load(std::memory_order_relaxed) == 1; }
double Member::share() const {
  const std::uint32_t share = words().share.load(std::memory_order_relaxed);
  if (share == kWholeShare || daemon_silent()) return 1;
  return static_cast<double>(std::clamp(share, 1U, kWholeShare)) / kWholeShare;
}
std::uint32_t Member::inflight_cap() const { return words().inflight_cap.load(std::memory_order_relaxed); }
bool Member::unhindered() const {
  const SlotLayout& slot = words();
  return slot.request.load(std::memory_order_relaxed) == Request::none && slot.gate_until_ns.load() == kAlways;
}
bool Member::alone() const {
  const BoardLayout& board = board_->layout();
  for (std::uint32_t index = 0, high = slots_high(board); index < high; ++index)
    if (index != slot_ && board.slots[index].use.load() == SlotUse::taken) return false;
  return true;
}
std::uint64_t Member::ceiling_bytes() const { return words().ceiling.load(); }
std::uint64_t Member::limit_bytes() const { return limit_of(board_->layout(), words()); }
Request Member::request() const {
  const Request request = words().request.load(std::memory_order_relaxed);
  return request <= Request::resume ? request : Request::none;
}
bool Member::finish_request(Request request) { return words().request.compare_exchange_strong(request, Request::none); }

bool Member::wait_permit(std::uint64_t iteration, Deadline deadline) {
  if (!wait_control([&] { return permitted(iteration); }, deadline)) return false;
  enter_iteration(iteration);
  return true;
}

bool Member::wait_control(const std::function<bool()>& ready, Deadline deadline) {
  SlotLayout& slot = words();
  for (;;) {
    const std::uint32_t epoch = slot.control_epoch.load();
    if (ready()) return true;
    const Deadline now = std::chrono::steady_clock::now();
    if (now >= deadline) return false;
    mend();
    // The daemon may die between the change and the wake-up.
    futex_wait(slot.control_epoch, epoch, std::min(deadline, now + board_->patience()), Reach::all_processes);
  }
}

void Member::poke_controls() { futex_wake(words().control_epoch, Reach::all_processes); }

Waits::Waits(Member& member) : member_(member) {
  const std::lock_guard lock(member_.waits_mutex_);
  if (member_.waiting_threads_++ > 0) return;
  member_.waits_since_ns_ = monotonic_ns();
  member_.words().waits_since_ns.store(member_.waits_since_ns_);
}

Waits::~Waits() {
  if (member_.board().forked()) return;
  const std::lock_guard lock(member_.waits_mutex_);
  if (--member_.waiting_threads_ > 0) return;
  SlotLayout& slot = member_.words();
  member_.waited_ns_ += monotonic_ns() - member_.waits_since_ns_;
  slot.waits_since_ns.store(0);
  slot.waited_ns.store(member_.waited_ns_);
}

Stalls::Stalls(Member& member) : waits_(member), member_(member), counts_(member.words().age.load() != kNoIteration) {
  if (!counts_) return;
  const std::lock_guard lock(member_.waits_mutex_);
  if (member_.stalled_threads_++ == 0) member_.stalls_since_ns_ = monotonic_ns();
}

Stalls::~Stalls() {
  if (!counts_ || member_.board().forked()) return;
  const std::lock_guard lock(member_.waits_mutex_);
  if (--member_.stalled_threads_ > 0) return;
  member_.stalled_ns_ += monotonic_ns() - member_.stalls_since_ns_;
  member_.words().stalled_ns.store(member_.stalled_ns_);
}

LeaseClaim::LeaseClaim(Member& member, std::uint64_t bytes) : member_(member), bytes_(bytes) {
  SlotLayout& slot = member_.words();
  const std::lock_guard lock(member_.mutex_);
  if (member_.truth_.wanted == 0) slot.claim.store(member_.new_claim_locked());
  member_.truth_.wanted += bytes_;
  slot.wanted.store(member_.truth_.wanted);
}

LeaseClaim::~LeaseClaim() {
  if (!member_.board().forked()) resize(0);
}

void LeaseClaim::resize(std::uint64_t bytes) {
  const bool less = bytes < bytes_;
  {
    SlotLayout& slot = member_.words();
    const std::lock_guard lock(member_.mutex_);
    member_.truth_.wanted += bytes - bytes_;  // wraps round to a subtraction
    slot.wanted.store(member_.truth_.wanted);
  }
  bytes_ = bytes;
  if (less) wake_memory_waiters(member_.board().layout());  // younger ones may fit now
}

bool LeaseClaim::wait(std::uint32_t epoch, Deadline deadline) {
  SlotLayout& slot = member_.words();
  BoardLayout& board = member_.board().layout();
  {
    const std::lock_guard lock(member_.mutex_);
    if (slot.claim.load() == kDemoted) slot.claim.store(member_.new_claim_locked());
    member_.mend_locked();
  }
  const Deadline now = std::chrono::steady_clock::now();
  if (now >= deadline) return false;
  member_.board().mend_capacity();
  member_.board().reap();
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

std::unique_ptr<Member> join(const std::function<std::shared_ptr<Board>()>& open, const std::string& job) {
  constexpr int kAttempts = 10;
  for (int attempt = 1;; ++attempt) {
    try {
      return std::make_unique<Member>(open(), job);
    } catch (const BoardReplaced&) {
      if (attempt == kAttempts) throw;
    }
  }
}

}  // namespace neaptide
