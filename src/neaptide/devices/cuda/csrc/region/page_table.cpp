#include "page_table.h"

#include <algorithm>

namespace neaptide::cuda {

std::uint64_t PageWord::pack() const {
  return std::uint64_t{serial} << 32 | std::uint64_t{generation} << 16 | std::uint64_t{slot} << 8 |
         static_cast<std::uint64_t>(state);
}

PageWord PageWord::unpack(std::uint64_t word) {
  const auto state = static_cast<std::uint8_t>(word & 0xff);
  const auto most = static_cast<std::uint8_t>(PageState::owned);
  return {static_cast<PageState>(std::min(state, most)), static_cast<std::uint8_t>(word >> 8 & 0xff),
          static_cast<std::uint16_t>(word >> 16 & 0xffff), static_cast<std::uint32_t>(word >> 32)};
}

std::uint32_t pages_high(const CudaRegion& region) { return std::min(region.pages_high.load(), kMostPages); }

bool claim_page(CudaRegion& region, std::uint32_t page, const PageWord& word, std::uint32_t slot) {
  std::uint64_t seen = word.pack();
  const PageWord owned = word.in(PageState::owned, static_cast<std::uint8_t>(slot));
  return region.pages[page].word.compare_exchange_strong(seen, owned.pack());
}

void give_page(CudaRegion& region, std::uint32_t page, PageState state) {
  region.pages[page].given.store(region.next_given.fetch_add(1));
  region.pages[page].word.store(page_at(region, page).in(state).pack());
}

void hold_page(CudaRegion& region, std::uint32_t page, std::uint32_t slot) {
  region.pages[page].holders.fetch_or(std::uint64_t{1} << slot);
}

void drop_page(CudaRegion& region, std::uint32_t page, std::uint32_t slot) {
  region.pages[page].holders.fetch_and(~(std::uint64_t{1} << slot));
}

void vacate_pages(CudaRegion& region, std::uint32_t slot) {
  for (std::uint32_t page = 0; page < pages_high(region); ++page) {
    if (const PageWord word = page_at(region, page); word.state == PageState::owned && word.slot == slot)
      give_page(region, page);
    drop_page(region, page, slot);
  }
  std::uint32_t maker = slot + 1;
  region.first_context.compare_exchange_strong(maker, 0);
  region.outside_bytes[slot].store(0);
}

std::uint64_t outside_of_program(const CudaRegion& region, std::uint32_t program) {
  const std::uint64_t known = region.programs[program % kKnownPrograms].load();
  return program != 0 && known >> 32 == program ? (known & 0xffffffff) << 10 : 0;
}

void know_outside_of_program(CudaRegion& region, std::uint32_t program, std::uint64_t bytes) {
  if (program == 0 || bytes <= outside_of_program(region, program)) return;
  const std::uint64_t kib = std::min<std::uint64_t>((bytes + 1023) >> 10, 0xffffffff);
  region.programs[program % kKnownPrograms].store(std::uint64_t{program} << 32 | kib);
}

PageCounts count_pages(const CudaRegion& region) {
  PageCounts counts;
  for (std::uint32_t page = 0; page < pages_high(region); ++page) {
    const PageState state = page_at(region, page).state;
    counts.there += state != PageState::absent;
    counts.free += state == PageState::free;
    counts.retiring += state == PageState::retiring;
  }
  return counts;
}

std::uint64_t outside_of_all(const CudaRegion& region) {
  std::uint64_t bytes = 0;
  for (const Word64& outside : region.outside_bytes) bytes += outside.load();
  return bytes;
}

bool within_budget(const Board& board) {
  const CudaRegion& region = cuda_region(board);
  const std::uint64_t pages = std::uint64_t{count_pages(region).there} * board.chunk_bytes();
  return pages + outside_of_all(region) <= board.capacity_bytes();
}

}  // namespace neaptide::cuda
