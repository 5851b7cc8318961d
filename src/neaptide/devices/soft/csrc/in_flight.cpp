#include "in_flight.h"

#include "blocking.h"

namespace neaptide::soft {

std::uint32_t InFlight::cap() const {
  return std::max(1U, std::min({cap_.load(), member_.inflight_cap(), kQueueDepth}));
}

void InFlight::enter() {
  if (!room()) {
    blocking([this] {
      static thread_local AdaptiveSpin spin;
      spin.wait([this] { return room(); }, [this] { return member_.board().sm_free(); },
                [this] {
                  std::unique_lock lock(mutex_);
                  waiters_.fetch_add(1);
                  // The board's cap can be raised without a kernel ending, so look again now and then.
                  while (!ample()) left_.wait_for(lock, std::chrono::milliseconds(50));
                  waiters_.fetch_sub(1);
                });
    });
  }
  count_.fetch_add(1);
  launched_.fetch_add(1, std::memory_order_relaxed);
  member_.count_launched();
}

void InFlight::leave() {
  const auto left = static_cast<std::uint64_t>(count_.fetch_sub(1) - 1);
  member_.count_done();
  tide_.passed(launched_.load(std::memory_order_relaxed) - left);
  if (waiters_.load() == 0 || !ample()) return;
  {
    std::lock_guard lock(mutex_);
  }
  left_.notify_all();
}

void InFlight::set_cap(std::uint32_t kernels) {
  cap_.store(kernels == 0 ? kQueueDepth : kernels);
  std::lock_guard lock(mutex_);
  left_.notify_all();
}

}  // namespace neaptide::soft
