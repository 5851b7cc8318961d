// Held bytes over time as a step function that stays small.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace neaptide {

// Every change is kept until there are too many. Then time is cut into equal parts, and of the changes in each only the
// first, the last, the lowest and the highest are kept, so peaks stay exact in height and in time. A part is 1 ns long
// at first, and twice as long whenever that does not halve the series.
class Series {
 public:
  void change(int64_t at_ns, int64_t level) {
    if (open_ && at_ns == at_) {
      highest_ = std::max(highest_, level);
      last_ = level;
      return;
    }
    settle(at_ns);
    open_ = true;
    at_ = at_ns;
    highest_ = last_ = level;
  }

  // Writes the changes at the last time, which completes the series.
  void close() {
    settle(at_ + 2);
    if (part_ns_ > 1) thin_out(size());
  }

  size_t size() const { return at_ns_.size(); }
  const int64_t* at_ns() const { return at_ns_.data(); }
  const int64_t* level() const { return level_.data(); }

 private:
  static constexpr size_t kLimit = 1 << 14;

  // Writes the changes at one nanosecond: the level after them. A higher level in between, which lasted no time at all,
  // is written for that nanosecond, unless the level before or after is as high.
  void settle(int64_t next_ns) {
    if (!open_) return;
    open_ = false;
    const int64_t before = level_.empty() ? 0 : level_.back();
    if (highest_ <= std::max(before, last_)) return add(at_, last_);
    add(at_, highest_);
    if (next_ns > at_ + 1) add(at_ + 1, last_);
  }

  void add(int64_t at_ns, int64_t level) {
    if (!level_.empty() && level_.back() == level) return;
    if (size() >= kLimit) thin_out(kLimit / 2);
    at_ns_.push_back(at_ns);
    level_.push_back(level);
  }

  void thin_out(size_t wanted) {
    do {
      size_t kept = 0;
      for (size_t begin = 0, end = 0; begin < size(); begin = end) {
        const int64_t part = at_ns_[begin] / part_ns_;
        size_t lowest = begin, highest = begin;
        for (end = begin + 1; end < size() && at_ns_[end] / part_ns_ == part; ++end) {
          if (level_[end] < level_[lowest]) lowest = end;
          if (level_[end] > level_[highest]) highest = end;
        }
        size_t chosen[] = {begin, std::min(lowest, highest), std::max(lowest, highest), end - 1};
        for (const size_t i : chosen) {
          if (kept > 0 && (at_ns_[kept - 1] >= at_ns_[i] || level_[kept - 1] == level_[i])) continue;
          at_ns_[kept] = at_ns_[i];
          level_[kept++] = level_[i];
        }
      }
      at_ns_.resize(kept);
      level_.resize(kept);
      if (kept > wanted) part_ns_ *= 2;
    } while (size() > wanted);
  }

  std::vector<int64_t> at_ns_, level_;
  int64_t part_ns_ = 1;
  bool open_ = false;  // the changes at at_ are not written yet
  int64_t at_ = 0, highest_ = 0, last_ = 0;
};

}  // namespace neaptide
