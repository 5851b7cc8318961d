// Allocating blocks, and waiting for the leases that it takes.
#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "arena_implementation.h"

namespace neaptide {
namespace {

constexpr std::uint64_t kGranule = 512;

std::uint64_t rounded_up(std::size_t bytes) {
  return (std::max<std::uint64_t>(bytes, 1) + kGranule - 1) / kGranule * kGranule;
}

std::string mebibytes(std::uint64_t bytes) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text.data();
}

}  // namespace

Address Arena::Implementation::allocate(std::size_t bytes, StreamId stream, Hint hint) {
  const bool absurd = bytes > range_bytes_;  // may overflow in the next line
  const std::uint64_t rounded = rounded_up(bytes);
  {
    const Lock lock = guard();
    ++stats_.allocations;
    if (!absurd)
      if (const Attempt attempt = attempt_locked(rounded, stream, hint); attempt.address) return *attempt.address;
  }
  if (absurd) fail(bytes, {std::nullopt, bytes}, false);
  return allocate_slowly(rounded, stream, hint);
}

AllocationAttempt Arena::Implementation::try_allocate(std::size_t bytes, StreamId stream, Hint hint) {
  if (bytes > range_bytes_) return {Allocation::over_capacity, 0, bytes};
  {
    const Lock lock = guard();
    ++stats_.allocations;
  }
  const Attempt attempt = attempt_after_return(rounded_up(bytes), stream, hint);
  if (attempt.address) return {Allocation::granted, *attempt.address, 0};
  const Lock lock(mutex_);
  --stats_.allocations;
  if (evicted_) return {Allocation::evicted, 0, attempt.need};
  if (attempt.hopeless) return {Allocation::over_capacity, 0, attempt.need};
  switch (attempt.lease) {
    case Lease::ceiling:
      return {Allocation::ceiling, 0, attempt.need};
    case Lease::reserved:
      return {Allocation::reserved, 0, attempt.need};
    default:
      return {Allocation::full, 0, attempt.need};
  }
}

/// An attempt after everything that can be handed back, or reused, has been.
Arena::Implementation::Attempt Arena::Implementation::attempt_after_return(std::uint64_t bytes, StreamId stream,
                                                                           Hint hint) {
  progress();
  shed();
  const Lock lock(mutex_);
  Attempt attempt = attempt_locked(bytes, stream, hint);
  if (!attempt.address) attempt.hopeless = hopeless_locked(attempt);
  return attempt;
}

Arena::Implementation::Attempt Arena::Implementation::attempt_locked(std::uint64_t bytes, StreamId stream, Hint hint) {
  if (evicted_) return {};
  Pool& pool = heap_.pool(stream, hint);
  if (Block* block = heap_.fit(pool, bytes)) return {take_block_locked(*block, bytes)};

  Attempt attempt;
  if (const auto range = heap_.plan(pool, bytes)) {
    attempt.need = range->bytes();
    attempt.lease = member_.try_take(attempt.need);
    if (attempt.lease == Lease::granted) {
      grow_locked(pool, *range);
      attempt.address = take_block_locked(*heap_.fit(pool, bytes), bytes);
      const std::uint64_t used_chunks = heap_.held_chunks() - heap_.waiting_chunks() - heap_.kept_chunks();
      stats_.spare_peak = std::max(stats_.spare_peak, used_chunks * kChunkBytes - stats_.needed);
      return attempt;
    }
  } else {
    attempt.need = bytes;  // no gap in the address range is wide enough
    attempt.lease = Lease::full;
  }
  // A block at the wrong end is better than none.
  Pool& other = heap_.pool(stream, hint == Hint::ephemeral ? Hint::persistent : Hint::ephemeral);
  if (Block* block = heap_.fit(other, bytes)) attempt.address = take_block_locked(*block, bytes);
  return attempt;
}

void Arena::Implementation::grow_locked(Pool& pool, ChunkRange range) {
  try {
    driver_.back(heap_.address_of(range.first), range.bytes());
  } catch (...) {
    member_.give(range.bytes());
    throw;
  }
  heap_.add(pool, range);
  stats_.chunks_taken += range.count;
  count_held_locked();
}

Address Arena::Implementation::take_block_locked(Block& free, std::uint64_t bytes) {
  const Block& block = heap_.carve(free, bytes);
  stats_.needed += bytes;
  stats_.needed_total += bytes;
  count_needed_locked();
  return block.start;
}

Address Arena::Implementation::allocate_slowly(std::uint64_t bytes, StreamId stream, Hint hint) {
  const Deadline deadline = std::chrono::steady_clock::now() + options_.wait;
  std::optional<LeaseClaim> claim;
  bool counted = false;
  struct Waiting {
    std::atomic<std::uint32_t>& count;
    explicit Waiting(std::atomic<std::uint32_t>& counter) : count(counter) { count.fetch_add(1); }
    ~Waiting() { count.fetch_sub(1); }
  } const waiting(waiters_);

  for (;;) {
    // The epoch is read before the attempt: whatever comes free after it ends the wait below.
    const std::uint32_t epoch = member_.memory_epoch();
    const Attempt attempt = attempt_after_return(bytes, stream, hint);
    if (attempt.address) return *attempt.address;
    if (attempt.hopeless) fail(bytes, attempt, false);
    if (!std::exchange(counted, true)) {
      const Lock lock(mutex_);
      ++stats_.lease_waits;
    }
    if (options_.on_request && member_.request() != Request::none) {
      claim.reset();  // an evicted process must not keep bytes from the one it makes room for
      options_.on_request(member_.request());
      continue;
    }
    // A ceiling is not lifted by others giving back, so it must not keep others waiting.
    const std::uint64_t wanted = attempt.lease == Lease::ceiling ? 0 : attempt.need;
    if (claim)
      claim->resize(wanted);
    else
      claim.emplace(member_, wanted);
    bool in_time = false;
    run_blocking([&] { in_time = claim->wait(epoch, deadline); });
    if (!in_time) fail(bytes, attempt, true);
  }
}

bool Arena::Implementation::hopeless_locked(const Attempt& attempt) const {
  if (evicted_ || heap_.waiting_chunks() > 0 || detached_chunks_ > 0 || !drains_.empty()) return false;
  const std::uint64_t own = (heap_.held_chunks() - heap_.kept_chunks()) * kChunkBytes;
  return own + attempt.need > member_.board().capacity_bytes();
}

void Arena::Implementation::fail(std::uint64_t bytes, const Attempt& attempt, bool waited) {
  const std::uint64_t capacity = member_.board().capacity_bytes();
  const std::uint64_t limit = std::min(capacity, member_.ceiling_bytes());
  const std::uint64_t held = member_.held_bytes(), used = member_.board().used_bytes();
  {
    const Lock lock(mutex_);
    ++stats_.out_of_memory;
  }
  std::string message = "out of memory: a block of " + mebibytes(bytes) + " needs " + mebibytes(attempt.need) +
                        " more, this process holds " + mebibytes(held) + " of the device's " + mebibytes(capacity) +
                        ", others hold " + mebibytes(used - std::min(used, held));
  if (limit < capacity) message += ", its ceiling is " + mebibytes(limit);
  if (waited && options_.wait.count() > 0) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "; waited %.3g s", std::chrono::duration<double>(options_.wait).count());
    message += text.data();
  }
  throw OutOfMemory(message, bytes, held, limit);
}

void Arena::Implementation::run_blocking(const std::function<void()>& wait) const {
  if (options_.blocking)
    options_.blocking(wait);
  else
    wait();
}

}  // namespace neaptide
