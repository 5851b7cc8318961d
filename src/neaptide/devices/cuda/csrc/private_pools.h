// Private pools of torch's memory: blocks that CUDA graphs and use_mem_pool() keep for themselves.
//
// A block of a pool stays leased when the program frees it, so that a graph that was captured with it finds its memory
// again, and is taken again by what is allocated in the same pool on the same stream. It goes back when the pool ends.
//
// Thread-safe; its mutex is a leaf, but for filters, which only look at the calling thread or its stream.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "../../native/driver.h"

namespace neaptide::cuda {

class PrivatePools {
 public:
  using Id = c10::MempoolId_t;
  using Filter = std::function<bool(cudaStream_t)>;

  /// Allocations for which the filter holds belong to the pool from now on, until end(). Counts as a user too.
  void begin(Id pool, Filter filter);
  void end(Id pool);
  /// Counts users of a pool. release() returns the blocks that are free when the last one is gone: they go back.
  void use(Id pool);
  std::vector<Address> release(Id pool);
  int users(Id pool) const;
  /// The pool that an allocation of this thread on this stream belongs to. Changes nothing, costs a load without pools.
  std::optional<Id> pool_for(cudaStream_t stream) const;

  /// A free block of at least so many bytes; nothing: a new one is needed, and has to be added.
  std::optional<std::pair<Address, std::size_t>> take(Id pool, StreamId stream, std::size_t bytes);
  void add(Id pool);
  /// The program is done with a block. True: the pool keeps it. False: the pool has ended, and the block goes back.
  bool give(Id pool, StreamId stream, Address address, std::size_t bytes);
  /// Free blocks of pools that nobody uses any more. They go back.
  std::vector<Address> take_unused();

 private:
  struct Pool {
    int users = 0;
    std::size_t live = 0;
    std::multimap<std::pair<StreamId, std::size_t>, Address> free;
  };
  static std::vector<Address> empty(Pool& pool);

  mutable std::mutex mutex_;
  std::map<Id, Pool> pools_;
  std::vector<std::pair<Id, Filter>> routes_;
  std::atomic<bool> routed_{false};
};

}  // namespace neaptide::cuda
