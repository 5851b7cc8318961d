#include "page_cache.h"

#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "driver_api.h"
#include "region/nvml.h"
#include "region/page_table.h"

namespace neaptide::cuda {
namespace {

constexpr auto kRetiringTime = std::chrono::seconds(2);  // in which other jobs let go of pages that retire
constexpr auto kPause = std::chrono::milliseconds(2);

CUmemAccessDesc access_of(int ordinal) {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = ordinal;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return access;
}

/// Runs of neighbours among the chunks, as address and bytes.
template <typename Visit>
void each_run(std::vector<Address> chunks, std::uint64_t chunk_bytes, Visit visit) {
  std::sort(chunks.begin(), chunks.end());
  for (std::size_t first = 0, next = 1; first < chunks.size(); first = next++) {
    while (next < chunks.size() && chunks[next] == chunks[next - 1] + chunk_bytes) ++next;
    visit(chunks[first], (next - first) * chunk_bytes);
  }
}

}  // namespace

PageCache::PageCache(Member& member, KeeperLine& keeper, int ordinal)
    : member_(member),
      keeper_(keeper),
      region_(cuda_region(member.board())),
      slot_(member.slot()),
      chunk_bytes_(member.board().chunk_bytes()),
      ordinal_(ordinal),
      isolate_(region_.isolate.load() != 0),
      bus_id_(bus_id_of(member.board().region_setting())),
      users_{access_of(ordinal)},
      wake_(eventfd(0, EFD_CLOEXEC)) {
  listener_ = std::thread([this] { listen(); });
}

PageCache::~PageCache() {
  stopping_.store(true);
  const std::uint64_t one = 1;
  static_cast<void>(!write(wake_, &one, sizeof(one)));
  listener_.join();
  clear();
  close(wake_);
}

void PageCache::back(Address address, std::size_t bytes) {
  const OnDevice on_device(ordinal_);
  const auto deadline = std::chrono::steady_clock::now() + kRetiringTime;
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (try_back_locked(address, bytes)) return;
    }
    if (std::chrono::steady_clock::now() >= deadline)
      throw DeviceFull("no page of device memory is free: pages that other jobs keep mapped are still retiring");
    member_.board().reap();
    std::this_thread::sleep_for(kPause);  // without the mutex: this process's own pages may have to be let go
  }
}

/// False when too few pages are there now; then nothing was taken.
bool PageCache::try_back_locked(Address address, std::size_t bytes) {
  Addresses all, wanted;
  for (std::size_t offset = 0; offset < bytes; offset += chunk_bytes_) all.push_back(address + offset);
  const auto undo = [&] {
    for (const Address chunk : all)
      if (const auto found = mappings_.find(chunk); found != mappings_.end() && found->second.owned) give_locked(chunk);
  };
  for (const Address chunk : all)
    if (!reuse_locked(chunk)) wanted.push_back(chunk);
  try {
    while (!wanted.empty()) {
      std::vector<Claim> claims = claim_locked(wanted);
      if (claims.empty()) {
        undo();
        return false;
      }
      const bool asks = !importers_charged_.has_value();
      const auto before = asks ? bytes_of(bus_id_, getpid()) : std::nullopt;
      const std::uint64_t imported = calls_.imported;
      const bool whole = import_locked(claims);  // leaves out pages of a keeper that is gone
      map_locked(claims);
      if (asks) watch_charges(before, imported);
      if (whole) break;
      const auto mapped = [&](Address chunk) { return mappings_.count(chunk) != 0 && mappings_.at(chunk).owned; };
      wanted.erase(std::remove_if(wanted.begin(), wanted.end(), mapped), wanted.end());
    }
    if (isolate_) zero(all);
  } catch (...) {
    undo();
    throw;
  }
  return true;
}

/// Takes the page that is still mapped at the address, if it is free.
bool PageCache::reuse_locked(Address address) {
  const auto kept = mappings_.find(address);
  if (kept == mappings_.end()) return false;
  const PageWord word = page_at(region_, kept->second.page);
  if (word.state != PageState::free || word.serial != handles_.at(kept->second.page).serial) return false;
  if (!claim_page(region_, kept->second.page, word, slot_)) return false;
  kept->second.owned = true;
  ++owned_pages_;
  ++calls_.reused;
  return true;
}

/// Maps claimed pages. If it throws, none of them stays claimed.
void PageCache::map_locked(const std::vector<Claim>& claims) {
  Addresses fresh;
  std::size_t done = 0;
  try {
    for (; done < claims.size(); ++done) {
      const Claim& claim = claims[done];
      if (mappings_.count(claim.address) != 0) unmap_locked(claim.address);  // of a page that another job has now
      check(driver_api().cuMemMap(claim.address, chunk_bytes_, 0, handles_.at(claim.page).handle, 0), "map a page");
      handles_.at(claim.page).mapped_at.push_back(claim.address);
      mappings_[claim.address] = {claim.page, true};
      ++owned_pages_;
      ++calls_.mapped;
      fresh.push_back(claim.address);
    }
    each_run(fresh, chunk_bytes_, [&](Address address, std::size_t bytes) {
      check(driver_api().cuMemSetAccess(address, bytes, users_.data(), users_.size()), "give access to a page");
    });
  } catch (...) {
    for (const Address chunk : fresh) {
      const std::uint32_t page = mappings_.at(chunk).page;
      unmap_locked(chunk);
      --owned_pages_;
      give_page(region_, page);
    }
    for (; done < claims.size(); ++done) give_page(region_, claims[done].page);
    throw;
  }
}

void PageCache::unmap_locked(Address address) noexcept {
  const auto found = mappings_.find(address);
  driver_api().cuMemUnmap(address, chunk_bytes_);
  ++calls_.unmapped;
  auto& places = handles_.at(found->second.page).mapped_at;
  places.erase(std::find(places.begin(), places.end(), address));
  mappings_.erase(found);
}

/// The page at the address is anyone's again; its mapping stays, unless jobs are isolated.
void PageCache::give_locked(Address address) noexcept {
  Mapping& mapping = mappings_.at(address);
  const std::uint32_t page = mapping.page;
  mapping.owned = false;
  --owned_pages_;
  if (isolate_) unmap_locked(address);
  give_page(region_, page);
}

void PageCache::unback(Address address, std::size_t bytes) {
  const OnDevice on_device(ordinal_);
  const std::lock_guard lock(mutex_);
  for (std::size_t offset = 0; offset < bytes; offset += chunk_bytes_) give_locked(address + offset);
}

/// Unmaps a page that this process does not own and lets go of it.
void PageCache::forget_locked(std::uint32_t page) noexcept {
  const Handle& handle = handles_.at(page);
  for (const Address address : Addresses(handle.mapped_at)) unmap_locked(address);
  driver_api().cuMemRelease(handle.handle);
  handles_.erase(page);
  drop_page(region_, page, slot_);
}

void PageCache::clear() noexcept {
  const std::lock_guard lock(mutex_);
  std::vector<std::uint32_t> owned;
  for (const auto& [address, mapping] : mappings_)
    if (mapping.owned) owned.push_back(mapping.page);
  while (!handles_.empty()) forget_locked(handles_.begin()->first);
  for (const std::uint32_t page : owned) give_page(region_, page);
  owned_pages_ = 0;
}

void PageCache::zero(const Addresses& chunks) const {
  const c10::cuda::CUDAStreamCaptureModeGuard relaxed(cudaStreamCaptureModeRelaxed);
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "make a stream");
  cudaError_t result = cudaSuccess;
  each_run(chunks, chunk_bytes_, [&](Address address, std::size_t bytes) {
    if (result == cudaSuccess) result = cudaMemsetAsync(reinterpret_cast<void*>(address), 0, bytes, stream);
  });
  if (result == cudaSuccess) result = cudaStreamSynchronize(stream);
  cudaStreamDestroy(stream);
  check(result, "clear a page");
}

void PageCache::add_peer(int ordinal) {
  const std::lock_guard lock(mutex_);
  users_.push_back(access_of(ordinal));
  for (const auto& [address, mapping] : mappings_)
    check(driver_api().cuMemSetAccess(address, chunk_bytes_, users_.data(), users_.size()), "give access to a page");
}

std::uint64_t PageCache::owned_bytes() const {
  const std::lock_guard lock(mutex_);
  return owned_pages_ * chunk_bytes_;
}

std::optional<std::uint64_t> PageCache::charged_bytes() const {
  const std::lock_guard lock(mutex_);
  if (handles_.empty()) return 0;
  if (!importers_charged_) return std::nullopt;
  return *importers_charged_ ? handles_.size() * chunk_bytes_ : 0;
}

PageCalls PageCache::calls() const {
  const std::lock_guard lock(mutex_);
  return calls_;
}

/// Finds out, when pages were imported, whether NVML counts them as this process's. An answer that other memory of the
/// process may have changed counts for nothing.
void PageCache::watch_charges(const std::optional<std::uint64_t>& before, std::uint64_t imported_before) {
  const std::uint64_t bytes = (calls_.imported - imported_before) * chunk_bytes_;
  if (!before || bytes == 0) return;
  const auto after = bytes_of(bus_id_, getpid());
  if (!after) return;
  if (*after == *before) importers_charged_ = false;
  if (*after == *before + bytes) importers_charged_ = true;
}

/// Lets go of pages that the keeper takes apart.
void PageCache::sweep() {
  const OnDevice on_device(ordinal_);
  const std::lock_guard lock(mutex_);
  std::vector<std::uint32_t> retiring;
  for (const auto& [page, handle] : handles_) {
    const PageWord word = page_at(region_, page);
    if (word.state == PageState::retiring && word.serial == handle.serial) retiring.push_back(page);
  }
  for (const std::uint32_t page : retiring) forget_locked(page);
}

/// The thread: sweeps when the keeper says so, and finds a new keeper when it is gone.
void PageCache::listen() {
  while (!stopping_.load()) {
    try {
      const KeeperSocket line = keeper_.listen();
      for (bool there = true; there && !stopping_.load();) {
        std::array<pollfd, 2> sources{pollfd{line.descriptor(), POLLIN, 0}, pollfd{wake_, POLLIN, 0}};
        if (poll(sources.data(), sources.size(), -1) < 0 || sources[0].revents == 0) continue;
        there = !line.receive(nullptr).empty();
        if (!there) break;
        sweep();
        there = KeeperLine::say_swept(line);
      }
    } catch (const std::exception&) {  // no keeper can be started; the next allocation says so
      pollfd source{wake_, POLLIN, 0};
      poll(&source, 1, 1000);
    }
  }
}

}  // namespace neaptide::cuda
