#include "private_pools.h"

#include <algorithm>

namespace neaptide::cuda {

void PrivatePools::begin(Id pool, Filter filter) {
  const std::lock_guard lock(mutex_);
  ++pools_[pool].users;
  routes_.emplace_back(pool, std::move(filter));
  routed_.store(true);
}

void PrivatePools::end(Id pool) {
  const std::lock_guard lock(mutex_);
  const auto last =
      std::find_if(routes_.rbegin(), routes_.rend(), [&](const auto& route) { return route.first == pool; });
  if (last != routes_.rend()) routes_.erase(std::next(last).base());
  routed_.store(!routes_.empty());
}

void PrivatePools::use(Id pool) {
  const std::lock_guard lock(mutex_);
  ++pools_[pool].users;
}

std::vector<Address> PrivatePools::release(Id id) {
  const std::lock_guard lock(mutex_);
  const auto found = pools_.find(id);
  if (found == pools_.end()) return {};
  Pool& pool = found->second;
  if (--pool.users > 0) return {};
  auto freed = empty(pool);
  if (pool.live == 0) pools_.erase(found);
  return freed;
}

int PrivatePools::users(Id pool) const {
  const std::lock_guard lock(mutex_);
  const auto found = pools_.find(pool);
  return found == pools_.end() ? 0 : found->second.users;
}

std::optional<PrivatePools::Id> PrivatePools::pool_for(cudaStream_t stream) const {
  if (!routed_.load(std::memory_order_acquire)) return std::nullopt;
  const std::lock_guard lock(mutex_);
  for (const auto& [pool, filter] : routes_)
    if (filter(stream)) return pool;
  return std::nullopt;
}

std::optional<std::pair<Address, std::size_t>> PrivatePools::take(Id id, StreamId stream, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  Pool& pool = pools_[id];
  const auto found = pool.free.lower_bound({stream, bytes});
  // Blocks are not split: one that is much too large is left for a larger need.
  if (found == pool.free.end() || found->first.first != stream || found->first.second > 2 * bytes) return std::nullopt;
  const std::pair<Address, std::size_t> block{found->second, found->first.second};
  pool.free.erase(found);
  ++pool.live;
  return block;
}

void PrivatePools::add(Id pool) {
  const std::lock_guard lock(mutex_);
  ++pools_[pool].live;
}

bool PrivatePools::give(Id id, StreamId stream, Address address, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = pools_.find(id);
  if (found == pools_.end()) return false;
  Pool& pool = found->second;
  --pool.live;
  if (pool.users > 0) {
    pool.free.emplace(std::make_pair(stream, bytes), address);
    return true;
  }
  if (pool.live == 0) pools_.erase(found);
  return false;
}

std::vector<Address> PrivatePools::take_unused() {
  const std::lock_guard lock(mutex_);
  std::vector<Address> freed;
  for (auto& [id, pool] : pools_) {
    if (pool.users > 0) continue;
    const auto blocks = empty(pool);
    freed.insert(freed.end(), blocks.begin(), blocks.end());
  }
  return freed;
}

std::vector<Address> PrivatePools::empty(Pool& pool) {
  std::vector<Address> blocks;
  for (const auto& [key, address] : pool.free) blocks.push_back(address);
  pool.free.clear();
  return blocks;
}

}  // namespace neaptide::cuda
