// A bounded time series of needed and held bytes: the newest samples in a ring.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

#include "arena.h"

namespace neaptide {

class Series {
 public:
  /// Starts over with room for `samples`; 0 turns it off.
  void restart(std::size_t samples) {
    ring_.assign(samples, {});
    written_ = 0;
  }
  void add(std::uint64_t needed, std::uint64_t held) {
    if (ring_.empty()) return;
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    const auto time_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
    ring_[written_++ % ring_.size()] = {static_cast<std::uint64_t>(time_ns), needed, held};
  }
  std::vector<MemorySample> samples() const {
    std::vector<MemorySample> copy(ring_.begin(), ring_.begin() + static_cast<std::ptrdiff_t>(filled()));
    if (written_ > ring_.size())
      std::rotate(copy.begin(), copy.begin() + static_cast<std::ptrdiff_t>(written_ % ring_.size()), copy.end());
    return copy;
  }

 private:
  std::size_t filled() const { return std::min(written_, ring_.size()); }

  std::vector<MemorySample> ring_;
  std::size_t written_ = 0;
};

}  // namespace neaptide
