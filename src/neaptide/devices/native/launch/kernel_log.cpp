#include "kernel_log.h"

#include <algorithm>

namespace neaptide {

void KernelLog::start(std::size_t records) {
  const std::lock_guard lock(mutex_);
  ring_ = {};
  most_ = std::max<std::size_t>(records, 1);
  next_ = 0;
  enabled_.store(true);
}

std::vector<KernelRecord> KernelLog::read() const {
  const std::lock_guard lock(mutex_);
  const auto end = next_;
  const auto begin = end - ring_.size();
  std::vector<KernelRecord> records;
  records.reserve(end - begin);
  for (auto i = begin; i < end; ++i) records.push_back(ring_[i % ring_.size()]);
  std::sort(records.begin(), records.end(), [](const auto& a, const auto& b) { return a.start_ns < b.start_ns; });
  return records;
}

std::uint64_t KernelLog::dropped() const {
  const std::lock_guard lock(mutex_);
  return next_ > ring_.size() ? next_ - ring_.size() : 0;
}

}  // namespace neaptide
