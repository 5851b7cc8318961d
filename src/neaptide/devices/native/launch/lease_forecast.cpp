#include "lease_forecast.h"

#include <algorithm>
#include <utility>

namespace neaptide {

void LeaseForecast::set(std::vector<std::uint64_t> levels, std::uint64_t kernels) {
  std::lock_guard lock(mutex_);
  levels_ = std::move(levels);
  kernels_ = std::max<std::uint64_t>(kernels, 1);
}

void LeaseForecast::begin(std::uint64_t launched) {
  std::lock_guard lock(mutex_);
  if (levels_.empty()) return;
  first_ = launched;
  step_ = 0;
  member_.set_expected_leases(levels_[0]);
  running_.store(true, std::memory_order_relaxed);
}

void LeaseForecast::end(std::uint64_t launched) {
  std::lock_guard lock(mutex_);
  if (!running_.exchange(false, std::memory_order_relaxed)) return;
  if (launched > first_) kernels_ = launched - first_;
}

std::uint64_t LeaseForecast::kernels() const {
  std::lock_guard lock(mutex_);
  return kernels_;
}

void LeaseForecast::leave() {
  std::lock_guard lock(mutex_);
  member_.set_expected_leases(0);
}

void LeaseForecast::come_back() {
  std::lock_guard lock(mutex_);
  // The levels may have been replaced, and be fewer, since the iteration began.
  if (running_.load(std::memory_order_relaxed) && step_ < levels_.size()) member_.set_expected_leases(levels_[step_]);
}

void LeaseForecast::advance(std::uint64_t done) {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;  // the next kernel that is done advances the forecast as well
  if (!running_.load(std::memory_order_relaxed) || levels_.empty() || done <= first_) return;
  const std::uint64_t last = levels_.size() - 1;
  const std::uint64_t step = std::min(last, (done - first_) * levels_.size() / kernels_);
  if (step <= step_) return;
  if (levels_[step] != levels_[step_]) member_.set_expected_leases(levels_[step]);
  step_ = step;
}

}  // namespace neaptide
