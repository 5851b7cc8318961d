// Allocating blocks, and waiting for the leases that it takes.
#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "arena_implementation.h"

namespace neaptide {
namespace {

constexpr std::uint64_t kGranule = 512;
constexpr auto kPatience =
    std::chrono::seconds(1);  // before a process says that the device has become too small for it

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
      if (const Attempt attempt = attempt_locked(rounded, stream, hint, Growth::chunks); attempt.address)
        return *attempt.address;
  }
  if (absurd) {
    Attempt none;
    none.need = bytes;
    none.no_addresses = bytes <= member_.board().capacity_bytes();
    fail(bytes, none, false);
  }
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
    case Lease::limit:
      return {Allocation::ceiling, 0, attempt.need};
    case Lease::reserved:
      return {Allocation::reserved, 0, attempt.need};
    default:
      return {Allocation::full, 0, attempt.need};
  }
}

/// An attempt after everything that can be handed back, or reused, has been. When the process alone would not fit, it
/// also gives back its gaps.
Arena::Implementation::Attempt Arena::Implementation::attempt_after_return(std::uint64_t bytes, StreamId stream,
                                                                           Hint hint) {
  const auto fits_alone = [this](const Attempt& attempt) {
    const std::uint64_t capacity = member_.board().capacity_bytes();
    return alone_locked(attempt) <= std::min({capacity, member_.ceiling_bytes(), member_.own_limit_bytes()});
  };
  progress();
  shed();
  const Lock lock(mutex_);
  Attempt attempt = attempt_locked(bytes, stream, hint, Growth::chunks);
  if (!attempt.address && hollow_.bytes() > 0) attempt = attempt_locked(bytes, stream, hint, Growth::pages);
  if (attempt.address || evicted_) return attempt;
  if (attempt.no_addresses && range_.few) {  // no other process has any that it could give
    attempt.busy = heap_.waiting_chunks() > 0 || detached_chunks_ > 0 || !drains_.empty();
    attempt.hopeless = !attempt.busy;
    return attempt;
  }
  if (fits_alone(attempt)) return attempt;
  const bool all_given = give_gaps_locked();
  attempt = attempt_locked(bytes, stream, hint, driver_.page_bytes() > 0 ? Growth::pages : Growth::chunks);
  const std::uint64_t alone = alone_locked(attempt), capacity = member_.board().capacity_bytes();
  const std::uint64_t largest = member_.largest_capacity_bytes();
  attempt.busy = !all_given;
  if (all_given) {
    attempt.alone = alone > capacity ? alone : 0;
    // While nobody knows how large the device is, the process waits.
    attempt.hopeless = (largest > 0 && alone > largest) || alone > member_.own_limit_bytes();
  }
  return attempt;
}

Arena::Implementation::Attempt Arena::Implementation::attempt_locked(std::uint64_t bytes, StreamId stream, Hint hint,
                                                                     Growth growth) {
  if (evicted_) return {};
  Pool& pool = heap_.pool(stream, hint);
  Attempt attempt;
  if (Block* block = heap_.fit(pool, bytes)) {
    attempt = take_block_locked(*block, bytes);
  } else if (const auto range = heap_.plan(pool, bytes)) {
    attempt = grow_and_take_locked(pool, *range, bytes, growth);
  } else {
    attempt.need = bytes;
    attempt.lease = Lease::full;
    attempt.no_addresses = true;
  }
  if (attempt.address) return attempt;
  // A block at the wrong end is better than none.
  Pool& other = heap_.pool(stream, hint == Hint::ephemeral ? Hint::persistent : Hint::ephemeral);
  if (Block* block = heap_.fit(other, bytes))
    if (const Attempt there = take_block_locked(*block, bytes); there.address || there.need < attempt.need)
      return there;
  return attempt;
}

/// Makes the near end of a free block a live one, if there are leases for what is hollow there.
Arena::Implementation::Attempt Arena::Implementation::take_block_locked(Block& free, std::uint64_t bytes) {
  Attempt attempt;
  const Address start = free.pool->hint == Hint::ephemeral ? free.start : free.end() - bytes;
  if (const std::uint64_t hollow = hollow_.within(start, start + bytes)) {
    const Taken taken = take(hollow, driver_.page_bytes());
    attempt.need = taken.need;
    attempt.lease = taken.lease;
    if (attempt.lease != Lease::granted) return attempt;
    std::uint64_t over = taken.over;
    hollow_.remove(start, start + bytes, [&](Address from, Address to) {
      driver_.back_pages(from, to - from);
      const std::uint64_t part = std::min(over, to - from);
      over_.add(from, from + part);
      over -= part;
    });
    count_held_locked();
  }
  attempt.address = heap_.carve(free, bytes).start;
  stats_.needed += bytes;
  stats_.needed_total += bytes;
  count_needed_locked();
  return attempt;
}

Arena::Implementation::Attempt Arena::Implementation::grow_and_take_locked(Pool& pool, ChunkRange range,
                                                                           std::uint64_t bytes, Growth growth) {
  Attempt attempt;
  Taken taken;
  if (growth == Growth::chunks) {
    taken = take(heap_.bytes_of(range), chunk_bytes_);
    attempt.need = taken.need;
    attempt.lease = taken.lease;
    if (attempt.lease != Lease::granted) return attempt;
  }
  const Address start = heap_.address_of(range.first), end = heap_.address_of(range.end());
  const Span over = pool.hint == Hint::ephemeral ? Span{end - taken.over, end} : Span{start, start + taken.over};
  try {
    back(range, over);
  } catch (...) {
    if (growth == Growth::chunks) member_.give(end - start - taken.over);
    member_.give_over(taken.over);
    throw;
  }
  heap_.add(pool, range);
  over_.add(over.start, over.end);
  stats_.chunks_taken += range.count;
  if (growth == Growth::pages)
    hollow_.add(start, end, [this](Address from, Address to) { driver_.unback_pages(from, to - from); });
  count_held_locked();
  attempt = take_block_locked(*heap_.fit(pool, bytes), bytes);
  if (!attempt.address) {
    remove_chunks_locked(range);
    if (growth == Growth::chunks) attempt.need += heap_.bytes_of(range);
  } else if (hollow_.bytes() == 0) {
    const std::uint64_t used_chunks = heap_.held_chunks() - heap_.waiting_chunks() - heap_.kept_chunks();
    stats_.spare_peak = std::max(stats_.spare_peak, used_chunks * chunk_bytes_ - stats_.needed);
  }
  return attempt;
}

/// Undoes that chunks were added: the block that was to be placed there needs hollow pages that could not be leased.
void Arena::Implementation::remove_chunks_locked(ChunkRange range) {
  const Address start = heap_.address_of(range.first), end = heap_.address_of(range.end());
  heap_.remove(range);
  driver_.unback(start, heap_.bytes_of(range));
  heap_.put_back(range);
  member_.give(heap_.bytes_of(range) - hollow_.remove(start, end) - forget_over_locked(range));
  stats_.chunks_given += range.count;
  count_held_locked();
}

/// Gives back the pages that only free blocks touch. False while a stream may still use some of them, or while chunks
/// are on their way back.
bool Arena::Implementation::give_gaps_locked() {
  bool all = heap_.waiting_chunks() == 0 && detached_chunks_ == 0 && drains_.empty();
  if (driver_.page_bytes() == 0) return all;
  std::uint64_t given = 0, over = 0;  // over: of what is given, bytes that were over the link
  for (const auto& [key, pool] : heap_.pools()) {
    const Event event = driver_.record(key.first);
    const bool idle = driver_.passed(event);
    driver_.drop(event);
    all = all && idle;
    if (!idle) continue;
    for (const FreeKey& entry : pool->free.entries())
      given += hollow_.add(entry.block->start, entry.block->end(), [&](Address from, Address to) {
        driver_.unback_pages(from, to - from);
        over += over_.remove(from, to);
      });
  }
  if (given > over) member_.give(given - over);
  if (over > 0) member_.give_over(over);
  count_held_locked();
  return all;
}

/// What the process would hold with what the attempt lacks, when all that is on its way back has been given.
std::uint64_t Arena::Implementation::alone_locked(const Attempt& attempt) const {
  const std::uint64_t leaving = (heap_.waiting_chunks() + heap_.kept_chunks() + detached_chunks_) * chunk_bytes_;
  return stats_.held - std::min(stats_.held, leaving) + member_.outside_bytes() + attempt.need;
}

Address Arena::Implementation::allocate_slowly(std::uint64_t bytes, StreamId stream, Hint hint) {
  const Deadline began = std::chrono::steady_clock::now(), deadline = began + options_.wait;
  std::optional<LeaseClaim> claim;
  bool counted = false, told = !options_.on_too_small;
  struct Waiting {
    std::atomic<std::uint32_t>& count;
    explicit Waiting(std::atomic<std::uint32_t>& counter) : count(counter) { count.fetch_add(1); }
    ~Waiting() { count.fetch_sub(1); }
  } const waiting(waiters_);
  const Stalls stalls(member_);

  for (;;) {
    // The epoch is read before the attempt: whatever comes free after it ends the wait below.
    const std::uint32_t epoch = member_.memory_epoch();
    const Attempt attempt = attempt_after_return(bytes, stream, hint);
    if (attempt.address) return *attempt.address;
    if (attempt.alone > 0 && options_.give_allowance && options_.give_allowance()) continue;
    if (attempt.hopeless) fail(bytes, attempt, false);
    if (!std::exchange(counted, true)) {
      const Lock lock(mutex_);
      ++stats_.lease_waits;
    }
    if (options_.on_request && asks_to_leave(member_.request())) {
      claim.reset();  // an evicted process must not keep bytes from the one it makes room for
      options_.on_request(member_.request());
      continue;
    }
    if (attempt.busy && drain_streams(deadline)) continue;
    if (!told && attempt.alone > 0 && std::chrono::steady_clock::now() - began >= kPatience) {
      told = true;
      options_.on_too_small(attempt.alone);
    }
    // A ceiling is not lifted by others giving back, so it must not keep others waiting.
    const bool by_others = attempt.lease != Lease::ceiling && attempt.lease != Lease::limit;
    const std::uint64_t wanted = by_others ? attempt.need : 0;
    if (claim)
      claim->resize(wanted);
    else
      claim.emplace(member_, wanted);
    bool in_time = false;
    run_blocking([&] { in_time = claim->wait(epoch, deadline); });
    if (!in_time) fail(bytes, attempt, true);
    if (options_.look_for_interrupts) options_.look_for_interrupts();
  }
}

void Arena::Implementation::fail(std::uint64_t bytes, const Attempt& attempt, bool waited) {
  const std::uint64_t capacity = member_.board().capacity_bytes();
  const std::uint64_t limit = std::min({capacity, member_.ceiling_bytes(), member_.own_limit_bytes()});
  const std::uint64_t held = member_.held_bytes(), used = member_.board().used_bytes();
  {
    const Lock lock(mutex_);
    ++stats_.out_of_memory;
  }
  std::string message = "out of memory: a block of " + mebibytes(bytes) + " needs " + mebibytes(attempt.need) +
                        " more, this process holds " + mebibytes(held) + " of the device's " + mebibytes(capacity) +
                        ", others hold " + mebibytes(used - std::min(used, held));
  if (attempt.no_addresses && range_.few)
    message += ", and it may have no more addresses than " + mebibytes(range_bytes_) + " (ulimit -v)";
  else if (limit == member_.own_limit_bytes())
    message +=
        ", the program allows itself " + mebibytes(member_.arena_limit_bytes()) + " (set_per_process_memory_fraction)";
  else if (limit < capacity)
    message += ", its ceiling is " + mebibytes(limit);
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
