// The pages of a GPU's memory that its jobs hand to each other, as the board has them.
//
// A keeper process makes pages, once, and takes them apart; jobs take and give them by their words alone. A page is
//   absent    not there;
//   making    in the keeper's hands alone: announced, and not yet there, or about to go;
//   free      anyone's; processes may keep handles and mappings of it;
//   owned     by the process of a slot, which has a lease for it;
//   retiring  the keeper takes it apart as soon as no process has a handle of it; a job that finds no other page may
//             still have it.
// Only the keeper moves a page from and to `absent`. A page is claimed before its handle is asked for, so that a page
// on its way to a process is never taken apart. The pages of a dead process become free when its slot is reaped, which
// is when the device has torn its context down.
//
// The budget: pages that are not absent, owned or not, and what all processes may have outside their arenas are
// together never more than the capacity. The keeper announces a page before it looks, and a process announces its
// context before it looks; so of two that grow at once, at least one sees the other. One count decides which pages are
// made, which retire, and what may be leased: by two, pages that retire by one would be made again by the other.
#pragma once

#include <cstdint>

#include "cuda_region.h"

namespace neaptide::cuda {

enum class PageState : std::uint8_t { absent, making, free, retiring, owned };

struct PageWord {
  PageState state = PageState::absent;
  std::uint8_t slot = 0;         // of the owner
  std::uint16_t generation = 0;  // of the keeper that made it
  std::uint32_t serial = 0;      // tells the pages apart that are made in one place

  std::uint64_t pack() const;
  static PageWord unpack(std::uint64_t word);
  /// The same page in another state.
  PageWord in(PageState next, std::uint8_t owner = 0) const { return {next, owner, generation, serial}; }
};

inline PageWord page_at(const CudaRegion& region, std::uint32_t page) {
  return PageWord::unpack(region.pages[page].word.load());
}
std::uint32_t pages_high(const CudaRegion& region);

/// Makes the slot the owner of the page in this word, which is free or retiring; false when the word has changed.
bool claim_page(CudaRegion& region, std::uint32_t page, const PageWord& word, std::uint32_t slot);
/// The owner has done with the page. `retiring`: no other process can have it, because its keeper is gone.
void give_page(CudaRegion& region, std::uint32_t page, PageState state = PageState::free);
/// The slot's process is about to have a handle of the page, or has none any more.
void hold_page(CudaRegion& region, std::uint32_t page, std::uint32_t slot);
void drop_page(CudaRegion& region, std::uint32_t page, std::uint32_t slot);
/// What processes of this program were seen to need outside their arenas where that was more than was kept for them; 0:
/// nothing is known of it.
std::uint64_t outside_of_program(const CudaRegion& region, std::uint32_t program);
void know_outside_of_program(CudaRegion& region, std::uint32_t program, std::uint64_t bytes);
/// Frees the pages of a process that is gone. Safe to repeat.
void vacate_pages(CudaRegion& region, std::uint32_t slot);

struct PageCounts {
  std::uint32_t there = 0;  // all that are not absent
  std::uint32_t free = 0;
  std::uint32_t retiring = 0;
};
PageCounts count_pages(const CudaRegion& region);
/// What all processes may have outside their arenas.
std::uint64_t outside_of_all(const CudaRegion& region);
/// Whether all pages and what processes may have outside their arenas are within the capacity.
bool within_budget(const Board& board);

}  // namespace neaptide::cuda
