// The pages behind this process's addresses: taken from and given back to the board, with mappings that are kept.
//
// A page that is given back stays mapped where it was, and its handle stays imported. If the page can be had again when
// memory is needed at that address, its word on the board changes and no driver call is made. Otherwise another page is
// mapped there: by preference one that nobody keeps mapped, else a new one if the budget has room, else the one that
// was given back longest ago. A thread lets go of pages that the keeper takes apart. Under isolation nothing stays
// mapped, and a page that is taken is zeroed.
//
// Lock order: mutex_ -> the keeper line's own.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "../../native/driver.h"
#include "../../native/member.h"
#include "keeper_line.h"

namespace neaptide::cuda {

struct CudaRegion;

/// Calls so far, in pages.
struct PageCalls {
  std::uint64_t made = 0;  // by the keeper, for this process
  std::uint64_t imported = 0;
  std::uint64_t mapped = 0;
  std::uint64_t unmapped = 0;
  std::uint64_t reused = 0;  // taken where they were still mapped: no call
};

class PageCache {
 public:
  /// The device's context must be there. Chunks are pages.
  PageCache(Member& member, KeeperLine& keeper, int ordinal);
  PageCache(const PageCache&) = delete;
  PageCache& operator=(const PageCache&) = delete;
  ~PageCache();

  /// Puts pages behind whole chunks. The process has leases for them. Throws DriverError, changing nothing but what is
  /// kept; DeviceFull when pages that retire have not gone for a while.
  void back(Address address, std::size_t bytes);
  /// Gives the pages behind whole chunks back.
  void unback(Address address, std::size_t bytes);
  /// Gives everything back and unmaps it.
  void clear() noexcept;
  /// Lets another device of this process reach the memory, now and later.
  void add_peer(int ordinal);

  /// Bytes that this process owns. Changes nothing.
  std::uint64_t owned_bytes() const;
  /// Bytes of pages that NVML counts as this process's; nothing while that is not known. Changes nothing.
  std::optional<std::uint64_t> charged_bytes() const;
  PageCalls calls() const;

 private:
  struct Mapping {
    std::uint32_t page = 0;
    bool owned = false;
  };
  struct Handle {
    std::uint32_t serial = 0;
    CUmemGenericAllocationHandle handle = 0;
    std::vector<Address> mapped_at;
  };
  /// A page that was claimed for an address and is to be mapped there.
  struct Claim {
    Address address = 0;
    std::uint32_t page = 0;
    std::uint32_t serial = 0;
  };
  using Addresses = std::vector<Address>;

  bool try_back_locked(Address address, std::size_t bytes);
  bool reuse_locked(Address address);
  std::vector<Claim> claim_locked(const Addresses& wanted);
  void claim_free_locked(Addresses& wanted, std::vector<Claim>& claims, bool any);
  bool import_locked(std::vector<Claim>& claims);
  void share_locked(const std::vector<Claim>& missing, std::vector<Claim>& there, std::vector<Claim>& lost);
  void map_locked(const std::vector<Claim>& claims);
  void unmap_locked(Address address) noexcept;
  void forget_locked(std::uint32_t page) noexcept;
  void give_locked(Address address) noexcept;
  void zero(const Addresses& chunks) const;
  void watch_charges(const std::optional<std::uint64_t>& before, std::uint64_t imported_before);
  void sweep();
  void listen();

  Member& member_;
  KeeperLine& keeper_;
  CudaRegion& region_;
  const std::uint32_t slot_;
  const std::uint64_t chunk_bytes_;
  const int ordinal_;
  const bool isolate_;
  const std::string bus_id_;

  mutable std::mutex mutex_;  // guards what follows
  std::map<Address, Mapping> mappings_;
  std::unordered_map<std::uint32_t, Handle> handles_;
  std::vector<CUmemAccessDesc> users_;
  PageCalls calls_;
  std::uint64_t owned_pages_ = 0;
  std::optional<bool> importers_charged_;  // whether NVML counts an imported page as its importer's; unset: not known

  std::atomic<bool> stopping_{false};
  int wake_ = -1;  // an eventfd that ends the thread
  std::thread listener_;
};

}  // namespace neaptide::cuda
