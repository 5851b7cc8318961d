#include "kernel_log.h"

#include <algorithm>

namespace neaptide {

void KernelLog::start(std::size_t records, Traffic now) {
  moved_since_last(now);
  ring_.assign(std::max<std::size_t>(records, 1), {});
  next_.store(0);
  enabled_.store(true);
}

std::vector<KernelRecord> KernelLog::read() const {
  const auto end = next_.load();
  const auto begin = end - std::min<std::uint64_t>(end, ring_.size());
  std::vector<KernelRecord> records;
  records.reserve(end - begin);
  for (auto i = begin; i < end; ++i) records.push_back(ring_[i % ring_.size()]);
  std::sort(records.begin(), records.end(), [](const auto& a, const auto& b) { return a.start_ns < b.start_ns; });
  return records;
}

std::uint64_t KernelLog::dropped() const {
  const auto written = next_.load();
  return written > ring_.size() ? written - ring_.size() : 0;
}

}  // namespace neaptide
