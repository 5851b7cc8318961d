// The arena's lifetime, figures and public face.
#include "arena.h"

#include <algorithm>
#include <utility>

#include "arena_implementation.h"

namespace neaptide {
namespace {

constexpr std::uint64_t kLeastRange = std::uint64_t{1} << 30;
constexpr std::uint64_t kMostRange = std::uint64_t{4} << 40;  // an arena keeps some bytes for each of its chunks

/// Reserves the range, or a smaller one where the process may not have so many addresses (ulimit -v): then half of what
/// it may have, so that the program keeps some for itself.
AddressRange reserve_range(Driver& driver, std::uint64_t bytes, std::uint64_t chunk) {
  for (bool less = false;; less = true) {
    bytes = (bytes + chunk - 1) / chunk * chunk;
    try {
      const Address start = driver.reserve(bytes, chunk);
      if (!less || bytes <= chunk) return {start, bytes, less};
      driver.release(start, bytes);
      bytes = (bytes / 2 + chunk - 1) / chunk * chunk;
      return {driver.reserve(bytes, chunk), bytes, less};
    } catch (const DriverError&) {
      if (bytes <= chunk) throw;
    }
    bytes /= 2;
  }
}

AddressRange range_for(Driver& driver, const ArenaOptions& options, const Member& member) {
  const std::uint64_t capacity = member.board().capacity_bytes();
  const std::uint64_t wanted =
      options.range_bytes != 0 ? options.range_bytes : std::min(std::max(4 * capacity, kLeastRange), kMostRange);
  return reserve_range(driver, wanted, member.board().chunk_bytes());
}

}  // namespace

Arena::Implementation::Implementation(Driver& driver, Member& member, ArenaOptions options)
    : driver_(driver),
      member_(member),
      options_(std::move(options)),
      chunk_bytes_(member.board().chunk_bytes()),
      range_(range_for(driver, options_, member)),
      range_bytes_(range_.bytes),
      base_(range_.start),
      heap_(base_, static_cast<std::uint32_t>(range_bytes_ / chunk_bytes_), chunk_bytes_),
      hollow_(driver.page_bytes()),
      over_(driver.page_bytes() > 0 ? driver.page_bytes() : chunk_bytes_) {
  driver_.set_listener([this] { progress(); });
}

Arena::Implementation::~Implementation() {
  if (member_.board().forked()) return;
  driver_.set_listener({});
  driver_.release(base_, range_bytes_);
  if (!evicted_) member_.give(heap_.held_chunks() * chunk_bytes_ - hollow_.bytes() - over_.bytes());
  member_.give_over(over_.bytes());
  member_.publish_needed(0);
}

std::size_t Arena::Implementation::block_bytes(Address address) const {
  const Lock lock = guard();
  const Block* const block = heap_.find(address);
  return block != nullptr && block->state == BlockState::live ? block->bytes : 0;
}

void Arena::Implementation::count_needed_locked() {
  stats_.needed_peak = std::max(stats_.needed_peak, stats_.needed);
  recent_.peak = std::max(recent_.peak, stats_.needed);
  member_.publish_needed(stats_.needed);
  series_.add(stats_.needed, stats_.held);
}

void Arena::Implementation::count_held_locked() {
  const std::uint64_t unleased = over_.bytes() + (evicted_ ? 0 : hollow_.bytes());
  stats_.held = (chunks_here_locked() + detached_chunks_) * chunk_bytes_ - unleased;
  stats_.held_peak = std::max(stats_.held_peak, stats_.held);
  stats_.over = over_.bytes();
  stats_.over_peak = std::max(stats_.over_peak, stats_.over);
  series_.add(stats_.needed, stats_.held);
}

ArenaStats Arena::Implementation::stats() const {
  const Lock lock = guard();
  ArenaStats copy = stats_;
  copy.live_blocks = heap_.blocks_in_use() - drains_.size();
  return copy;
}

void Arena::Implementation::reset_peaks() {
  const Lock lock = guard();
  stats_.needed_peak = stats_.needed;
  stats_.held_peak = stats_.held;
  stats_.over_peak = stats_.over;
}

RecentNeeds Arena::Implementation::take_recent() {
  const Lock lock = guard();
  const RecentNeeds before = std::exchange(recent_, {stats_.needed, stats_.needed_total});
  return {before.peak, stats_.needed_total - before.allocated};
}

void Arena::Implementation::record_series(std::size_t samples) {
  const Lock lock = guard();
  series_.restart(samples);
  series_.add(stats_.needed, stats_.held);
}

std::vector<MemorySample> Arena::Implementation::series() const {
  const Lock lock = guard();
  return series_.samples();
}

std::vector<HeldBlock> Arena::Implementation::blocks() const {
  const Lock lock = guard();
  std::vector<HeldBlock> found;
  heap_.each_block([&](const Block& block) {
    found.push_back({block.start, block.bytes, block.pool->stream, block.state == BlockState::free});
  });
  return found;
}

void Arena::Implementation::check_integrity() const {
  const auto require = [](bool holds, const char* invariant) {
    if (!holds) throw std::logic_error(std::string("arena: broken invariant: ") + invariant);
  };
  const Lock lock = guard();
  std::uint64_t live = 0;
  heap_.check(live);
  require(live == stats_.needed, "needed bytes are those of live blocks");
  require(stats_.held == member_.arena_bytes(), "held bytes are those leased on the board");
  require(stats_.over == over_.bytes() && over_.bytes() == member_.over_bytes(), "bytes over the link");
  over_.each(base_, base_ + range_bytes_, [&](Address start, Address end) {
    require(hollow_.within(start, end) == 0, "what is over the link has memory");
  });
  const std::uint64_t chunks = chunks_here_locked() + detached_chunks_;
  const std::uint64_t hollow = evicted_ ? 0 : hollow_.bytes();
  require(chunks * chunk_bytes_ - hollow - over_.bytes() == stats_.held,
          "a lease for every page, a page for every lease");
  require(stats_.chunks_taken - stats_.chunks_given == chunks, "chunks taken and given back");
  require(stats_.allocations - stats_.deallocations - stats_.out_of_memory >= heap_.blocks_in_use() - drains_.size(),
          "every live block was allocated");
  require(stats_.needed <= stats_.needed_peak && stats_.held <= stats_.held_peak, "peaks");
  std::uint64_t waiting = 0;
  for (const auto& [stream, queue] : returns_)
    for (const Return& entry : queue)
      for (std::uint32_t chunk = entry.chunks.first; chunk < entry.chunks.end(); ++chunk)
        waiting += heap_.chunk(chunk).emptied == entry.serial;
  require(waiting == heap_.waiting_chunks(), "a return under way for every waiting chunk");
  for (const Drain& drain : drains_) require(drain.block->state == BlockState::draining, "drains");
}

Arena::Arena(Driver& driver, Member& member, ArenaOptions options)
    : implementation_(std::make_unique<Implementation>(driver, member, std::move(options))) {}
Arena::~Arena() = default;

Address Arena::allocate(std::size_t bytes, StreamId stream, Hint hint) {
  return implementation_->allocate(bytes, stream, hint);
}
AllocationAttempt Arena::try_allocate(std::size_t bytes, StreamId stream, Hint hint) {
  return implementation_->try_allocate(bytes, stream, hint);
}
void Arena::deallocate(Address address) { implementation_->deallocate(address); }
void Arena::record_stream(Address address, StreamId stream) { implementation_->record_stream(address, stream); }
void Arena::set_reuse_at_launch(bool reuse) { implementation_->set_reuse_at_launch(reuse); }
bool Arena::contains(Address address) const { return implementation_->contains(address); }
std::size_t Arena::block_bytes(Address address) const { return implementation_->block_bytes(address); }
std::size_t Arena::progress() { return implementation_->progress(); }
std::size_t Arena::empty_cache() { return implementation_->empty_cache(); }
ArenaStats Arena::stats() const { return implementation_->stats(); }
void Arena::reset_peaks() { implementation_->reset_peaks(); }
RecentNeeds Arena::take_recent() { return implementation_->take_recent(); }
void Arena::record_series(std::size_t samples) { implementation_->record_series(samples); }
std::vector<MemorySample> Arena::series() const { return implementation_->series(); }
void Arena::rebalance() { implementation_->rebalance(); }
std::size_t Arena::evict(Deadline deadline) { return implementation_->evict(deadline); }
bool Arena::restore(Deadline deadline) { return implementation_->restore(deadline); }
bool Arena::evicted() const { return implementation_->evicted(); }
std::vector<HeldBlock> Arena::blocks() const { return implementation_->blocks(); }
void Arena::check_integrity() const { implementation_->check_integrity(); }

}  // namespace neaptide
