// Which pages a process takes, and how it gets handles of them.
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "driver_api.h"
#include "page_cache.h"
#include "region/page_table.h"

namespace neaptide::cuda {
namespace {

void close_file(int descriptor) {
  if (descriptor >= 0) close(descriptor);
}

}  // namespace

/// A page for each address; none when there are too few.
std::vector<PageCache::Claim> PageCache::claim_locked(const Addresses& wanted) {
  Addresses left(wanted.rbegin(), wanted.rend());  // the last one is served first
  std::vector<Claim> claims;
  claim_free_locked(left, claims, false);
  while (!left.empty()) {
    const std::uint32_t made = keeper_.make(static_cast<std::uint32_t>(left.size()));
    calls_.made += made;
    if (made == 0) break;
    claim_free_locked(left, claims, false);  // another process may have been faster
  }
  if (!left.empty()) claim_free_locked(left, claims, true);
  if (left.empty()) return claims;
  for (const Claim& claim : claims) give_page(region_, claim.page);
  return {};
}

/// Claims free pages: those that no process keeps mapped or, with `any`, all and at last retiring ones; in the order in
/// which they were given back.
void PageCache::claim_free_locked(Addresses& wanted, std::vector<Claim>& claims, bool any) {
  struct Candidate {
    std::uint32_t page;
    PageWord word;
    std::uint64_t given;
  };
  std::vector<Candidate> candidates;
  const auto generation = static_cast<std::uint16_t>(region_.generation.load());
  for (std::uint32_t page = 0; page < pages_high(region_); ++page) {
    const PageWord word = page_at(region_, page);
    if (word.state != PageState::free && !(any && word.state == PageState::retiring)) continue;
    const auto own = handles_.find(page);
    if (own == handles_.end() && word.generation != generation) continue;  // nobody can share it any more
    if (!any) {
      // A page whose handle this process has, and which is mapped nowhere here, spoils nothing either.
      const std::uint64_t others = region_.pages[page].holders.load() & ~(std::uint64_t{1} << slot_);
      if (others != 0 || (own != handles_.end() && !own->second.mapped_at.empty())) continue;
    }
    candidates.push_back({page, word, region_.pages[page].given.load()});
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.word.state != b.word.state ? a.word.state < b.word.state : a.given < b.given;
  });
  for (const Candidate& each : candidates) {
    if (wanted.empty()) return;
    if (!claim_page(region_, each.page, each.word, slot_)) continue;
    claims.push_back({wanted.back(), each.page, each.word.serial});
    wanted.pop_back();
  }
}

/// Imports the pages of which this process has no handle. False when some are a dead keeper's: those leave `claims`.
bool PageCache::import_locked(std::vector<Claim>& claims) {
  std::vector<Claim> there, missing, lost;
  for (const Claim& claim : claims) (handles_.count(claim.page) != 0 ? there : missing).push_back(claim);
  try {
    share_locked(missing, there, lost);
  } catch (...) {  // no keeper can be started, or CUDA cannot import its pages
    for (const Claim& claim : claims) {
      if (handles_.count(claim.page) == 0) drop_page(region_, claim.page, slot_);
      give_page(region_, claim.page);
    }
    throw;
  }
  for (const Claim& claim : lost) {
    drop_page(region_, claim.page, slot_);
    give_page(region_, claim.page, PageState::retiring);
  }
  claims = std::move(there);
  return lost.empty();
}

/// Imports the missing pages: they come to `there`, and those of a dead keeper to `lost`.
void PageCache::share_locked(const std::vector<Claim>& missing, std::vector<Claim>& there, std::vector<Claim>& lost) {
  for (std::size_t first = 0; first < missing.size(); first += KeeperLine::kMostShared) {
    std::vector<std::uint32_t> pages;
    for (std::size_t index = first; index < std::min(first + KeeperLine::kMostShared, missing.size()); ++index) {
      pages.push_back(missing[index].page);
      hold_page(region_, pages.back(), slot_);
    }
    const std::vector<int> descriptors = keeper_.share(pages);
    for (std::size_t index = 0; index < pages.size(); ++index) {
      const Claim& claim = missing[first + index];
      if (descriptors[index] < 0) {
        lost.push_back(claim);
        continue;
      }
      Handle handle{claim.serial, 0, {}};
      const CUresult imported = driver_api().cuMemImportFromShareableHandle(
          &handle.handle, reinterpret_cast<void*>(static_cast<std::uintptr_t>(descriptors[index])),
          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
      close(descriptors[index]);
      if (imported != CUDA_SUCCESS) std::for_each(descriptors.begin() + index + 1, descriptors.end(), &close_file);
      check(imported, "import a page");
      handles_.emplace(claim.page, handle);
      ++calls_.imported;
      there.push_back(claim);
    }
  }
}

}  // namespace neaptide::cuda
