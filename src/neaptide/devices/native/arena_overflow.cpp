// Bytes over the link: chunks, or pages of chunks, behind which there is memory of the host. They have no lease, and
// kernels use them in place, slower (core/rules/over_the_link.h).
//
// They come to be where a lease is refused that the process does not wait for (Member::overflows): at its limit, or
// under a policy that oversubscribes. They end when their chunk is handed back, when an iteration begins and their
// lease is granted, or when the process is evicted and they are pages of a chunk that has leased ones.
#include <algorithm>

#include "arena_implementation.h"

namespace neaptide {

/// Takes leases for bytes; what the process does not wait for is to be over the link, in multiples of `unit` beside
/// what it may still lease.
Arena::Implementation::Taken Arena::Implementation::take(std::uint64_t bytes, std::uint64_t unit) {
  Lease lease = member_.try_take(bytes);
  if (lease == Lease::granted || !driver_.maps_host() || !member_.overflows(lease)) return {lease, 0, bytes};
  std::uint64_t leased = member_.room_bytes() / unit * unit;
  if (leased >= bytes) leased = 0;  // the room is an older iteration's
  if (leased > 0) lease = member_.try_take(leased);
  if (leased > 0 && lease != Lease::granted) {
    if (!member_.overflows(lease)) return {lease, 0, leased};  // within its limit it waits, as for all memory
    leased = 0;
  }
  member_.take_over(bytes - leased);
  return {Lease::granted, bytes - leased, bytes};
}

/// Puts memory behind chunks: that of the host where they are over the link.
void Arena::Implementation::back(ChunkRange range, Span over) {
  const Address start = heap_.address_of(range.first), end = heap_.address_of(range.end());
  if (over.start < over.end) driver_.back_with_host(over.start, over.end - over.start);
  try {
    if (start < over.start) driver_.back(start, std::min(over.start, end) - start);
    if (over.end < end) driver_.back(over.end, end - over.end);
  } catch (...) {
    if (over.start < over.end) driver_.unback(over.start, over.end - over.start);
    throw;
  }
}

/// Ends that pages of chunks are over the link; returns their bytes.
std::uint64_t Arena::Implementation::forget_over_locked(ChunkRange range) {
  const std::uint64_t bytes = over_.remove(heap_.address_of(range.first), heap_.address_of(range.end()));
  if (bytes > 0) member_.give_over(bytes);
  return bytes;
}

/// Whether a chunk is over the link as a whole.
bool Arena::Implementation::is_over(std::uint32_t chunk) const {
  return over_.bytes() > 0 && over_.within(heap_.address_of(chunk), heap_.address_of(chunk + 1)) == chunk_bytes_;
}

/// Chunks of the heap that have memory behind them.
std::uint64_t Arena::Implementation::chunks_here_locked() const {
  return evicted_ ? over_.bytes() / chunk_bytes_ : heap_.held_chunks();
}

void Arena::Implementation::rebalance() {
  if (!member_.may_pay_for_link() && member_.limit_bytes() == kNoCeiling) return;
  const Lock lock = guard();
  if (evicted_) return;
  if (const std::uint64_t excess = member_.excess_bytes())
    send_over_locked(excess);
  else
    bring_back_locked();
  count_held_locked();
}

void Arena::Implementation::bring_back_locked() {
  std::vector<Span> pieces;  // each within a chunk
  over_.each(base_, base_ + range_bytes_, [&](Address start, Address end) {
    while (start < end) {
      const Address next = std::min(end, heap_.address_of(heap_.chunk_of(start) + 1));
      pieces.push_back({start, next});
      start = next;
    }
  });
  for (const Span& piece : pieces) {
    const Chunk& chunk = heap_.chunk(heap_.chunk_of(piece.start));
    if (chunk.pool == nullptr || chunk.emptied != 0) continue;  // on its way back
    if (!member_.bring_back(piece.end - piece.start)) return;
    over_.remove(piece.start, piece.end);
    driver_.move_to_device(piece.start, piece.end - piece.start);
  }
}

void Arena::Implementation::send_over_locked(std::uint64_t bytes) {
  if (!driver_.maps_host()) return;
  std::uint64_t sent = 0;
  for (std::uint32_t chunk = heap_.size(); chunk > 0 && sent < bytes; --chunk)
    if (heap_.chunk(chunk - 1).pool != nullptr && heap_.chunk(chunk - 1).emptied == 0)
      sent += send_chunk_over_locked(chunk - 1);
}

/// Sends the leased pages of a chunk over the link; returns their bytes.
std::uint64_t Arena::Implementation::send_chunk_over_locked(std::uint32_t chunk) {
  std::vector<Span> leased;
  Address from = heap_.address_of(chunk);
  const Address end = heap_.address_of(chunk + 1);
  const auto until = [&](Address start, Address next) {
    if (from < start) leased.push_back({from, start});
    from = next;
  };
  hollow_.each(from, end, until);
  until(end, end);
  std::uint64_t sent = 0;
  for (const Span& span : leased) {
    const std::uint64_t bytes = over_.add(span.start, span.end);
    if (bytes > 0) driver_.move_to_host(span.start, span.end - span.start);
    sent += bytes;
  }
  if (sent > 0) member_.send_over(sent);
  return sent;
}

}  // namespace neaptide
