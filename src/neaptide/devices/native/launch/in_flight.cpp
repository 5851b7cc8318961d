#include "in_flight.h"

#include "blocking.h"

namespace neaptide {

std::uint32_t InFlight::cap() const {
  return std::max(1U, std::min({cap_.load(), member_.inflight_cap(), kQueueDepth}));
}

void InFlight::sleep_for_room() {
  blocking([this] {
    static thread_local AdaptiveSpin spin;
    spin.wait([this] { return room(); }, [this] { return !may_spin_ || may_spin_(); },
              [this] {
                std::unique_lock lock(mutex_);
                waiters_.fetch_add(1);
                // The daemon can raise the board's cap without a kernel ending, so look again now and then.
                while (!ample()) left_.wait_for(lock, std::chrono::milliseconds(50));
                waiters_.fetch_sub(1);
              });
  });
}

void InFlight::passed(std::uint64_t kernels) {
  const std::uint64_t passed = passed_.fetch_add(kernels) + kernels;
  member_.count_done(kernels);
  forecast_.passed(passed);
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

}  // namespace neaptide
