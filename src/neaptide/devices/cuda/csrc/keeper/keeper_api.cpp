// What the keeper of a GPU's pages does on the board, as plain functions; ../region/page_table.h has the rules.
// There is one keeper at a time. A function that can fail returns -1, and neaptide_error() says why.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "../../../board/native/guarded.h"
#include "../../../native/device_region.h"
#include "../../../native/process.h"
#include "../region/page_table.h"

using namespace neaptide;
using namespace neaptide::cuda;

namespace {

/// A page that nobody uses, and how much is lost with it.
struct Candidate {
  std::uint32_t page = 0;
  PageWord word;
  int holders = 0;  // processes that keep handles, and perhaps mappings
  std::uint64_t given = 0;
  bool operator<(const Candidate& other) const {
    return holders != other.holders ? holders < other.holders : given < other.given;
  }
};

/// How many pages the budget has room for beside what processes may have outside their arenas.
std::uint64_t pages_allowed(const Board& board) {
  const std::uint64_t outside = outside_of_all(cuda_region(board));
  return (board.capacity_bytes() - std::min(board.capacity_bytes(), outside)) / board.chunk_bytes();
}

/// Whether the device still has memory that only the last keeper held. Its lock ends before its process does: while it
/// is on its way out, it counts as there.
bool last_keeper_lingers(const Board& board) {
  const CudaRegion& region = cuda_region(board);
  const ProcessId keeper{region.keeper_pid.load(), region.keeper_start_time.load()};
  if (keeper.pid == 0 || keeper.pid == this_process().pid) return false;
  if (probe(keeper) != ProcessState::gone) return true;
  if (is_recycled(keeper)) return false;  // NVML would speak of the process that has the number now
  return board.region()->lingers(board.region_setting(), keeper.pid);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

void neaptide_pages_set_isolate(BoardHandle* handle) { cuda_region(*handle->board).isolate.store(1); }
std::int32_t neaptide_pages_keeper(BoardHandle* handle) { return cuda_region(*handle->board).keeper_pid.load(); }

/// This process becomes the keeper. 0: not yet, because the device still has memory of the last one; -1: it cannot.
int neaptide_pages_begin(BoardHandle* handle) {
  return guarded(
      [&] {
        CudaRegion& region = cuda_region(*handle->board);
        if (last_keeper_lingers(*handle->board)) return 0;
        region.generation.fetch_add(1);
        for (std::uint32_t page = 0; page < pages_high(region); ++page)
          if (const PageWord word = page_at(region, page); word.state == PageState::making)
            region.pages[page].word.store(word.in(PageState::absent).pack());
        const ProcessId self = this_process();
        region.keeper_start_time.store(self.start_time);
        region.keeper_pid.store(self.pid);
        return 1;
      },
      -1);
}

/// Announces a page and gives its place; -1: the budget or the table has no room for it.
int neaptide_pages_announce(BoardHandle* handle) {
  CudaRegion& region = cuda_region(*handle->board);
  std::uint32_t page = 0;
  while (page < pages_high(region) && page_at(region, page).state != PageState::absent) ++page;
  if (page == kMostPages) return -1;
  if (page == pages_high(region)) region.pages_high.store(page + 1);
  const PageWord before = page_at(region, page);
  const auto generation = static_cast<std::uint16_t>(region.generation.load());
  const PageWord announced{PageState::making, 0, generation, before.serial + 1};
  region.pages[page].word.store(announced.pack());
  if (within_budget(*handle->board)) return static_cast<int>(page);
  region.pages[page].word.store(announced.in(PageState::absent).pack());
  return -1;
}

/// A page that was announced is there, or could not be made; or a page that was taken is gone.
void neaptide_pages_settle(BoardHandle* handle, std::uint32_t page, std::uint32_t there) {
  CudaRegion& region = cuda_region(*handle->board);
  const PageState state = there != 0 ? PageState::free : PageState::absent;
  region.pages[page].word.store(page_at(region, page).in(state).pack());
}

/// Retires free pages: those of earlier keepers, and as many as the budget has no room for; with `all`, every one.
/// Returns how many.
int neaptide_pages_retire(BoardHandle* handle, std::uint32_t all) {
  CudaRegion& region = cuda_region(*handle->board);
  const auto generation = static_cast<std::uint16_t>(region.generation.load());
  std::vector<Candidate> candidates;
  int retired = 0;
  const auto retire = [&](const Candidate& each) {
    std::uint64_t seen = each.word.pack();
    const bool done =
        region.pages[each.page].word.compare_exchange_strong(seen, each.word.in(PageState::retiring).pack());
    retired += done;
    return done;
  };
  for (std::uint32_t page = 0; page < pages_high(region); ++page) {
    const PageWord word = page_at(region, page);
    if (word.state != PageState::free) continue;
    const Candidate each{page, word, __builtin_popcountll(region.pages[page].holders.load()),
                         region.pages[page].given.load()};
    if (all != 0 || word.generation != generation)
      retire(each);
    else
      candidates.push_back(each);
  }
  const PageCounts counts = count_pages(region);
  const std::uint64_t staying = counts.there - counts.retiring, allowed = pages_allowed(*handle->board);
  std::uint64_t over = staying - std::min(staying, allowed);
  std::sort(candidates.begin(), candidates.end());
  for (auto each = candidates.begin(); over > 0 && each != candidates.end(); ++each) over -= retire(*each) ? 1 : 0;
  return retired;
}

/// Takes the retiring pages that no process has a handle of, at most `most`, so that no job can have them any more;
/// returns how many.
int neaptide_pages_take_unheld(BoardHandle* handle, std::uint32_t* pages, std::uint32_t most) {
  CudaRegion& region = cuda_region(*handle->board);
  std::uint32_t found = 0;
  for (std::uint32_t page = 0; page < pages_high(region) && found < most; ++page) {
    const PageWord word = page_at(region, page);
    if (word.state != PageState::retiring || region.pages[page].holders.load() != 0) continue;
    std::uint64_t seen = word.pack();
    if (region.pages[page].word.compare_exchange_strong(seen, word.in(PageState::making).pack())) pages[found++] = page;
  }
  return static_cast<int>(found);
}

/// What processes may have outside their arenas: their allowances.
std::uint64_t neaptide_pages_allowances(BoardHandle* handle) { return outside_of_all(cuda_region(*handle->board)); }

/// How many pages are there, free and retiring.
void neaptide_pages_count(BoardHandle* handle, std::uint32_t* counts) {
  const PageCounts seen = count_pages(cuda_region(*handle->board));
  counts[0] = seen.there;
  counts[1] = seen.free;
  counts[2] = seen.retiring;
}

}  // extern "C"
#pragma GCC visibility pop
