#include "tide.h"

#include <algorithm>
#include <utility>

namespace neaptide::soft {

void Tide::set(std::vector<std::uint64_t> levels, std::uint64_t kernels) {
  std::lock_guard lock(mutex_);
  levels_ = std::move(levels);
  kernels_ = std::max<std::uint64_t>(kernels, 1);
}

void Tide::begin(std::uint64_t launched) {
  std::lock_guard lock(mutex_);
  if (levels_.empty()) return;
  first_ = launched;
  step_ = 0;
  member_.set_foreseen(levels_[0]);
  running_.store(true, std::memory_order_relaxed);
}

void Tide::end(std::uint64_t launched) {
  std::lock_guard lock(mutex_);
  if (!running_.exchange(false, std::memory_order_relaxed)) return;
  if (launched > first_) kernels_ = launched - first_;
}

void Tide::leave() {
  std::lock_guard lock(mutex_);
  member_.set_foreseen(0);
}

void Tide::come_back() {
  std::lock_guard lock(mutex_);
  // What is foreseen may have been changed since the iteration began.
  if (running_.load(std::memory_order_relaxed) && step_ < levels_.size()) member_.set_foreseen(levels_[step_]);
}

void Tide::advance(std::uint64_t done) {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || !running_.load(std::memory_order_relaxed) || done <= first_) return;  // the next kernel tells it as well
  const std::uint64_t last = levels_.size() - 1;
  const std::uint64_t step = std::min(last, (done - first_) * levels_.size() / kernels_);
  if (step <= step_) return;
  if (levels_[step] != levels_[step_]) member_.set_foreseen(levels_[step]);
  step_ = step;
}

}  // namespace neaptide::soft
