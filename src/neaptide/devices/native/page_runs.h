// A set of pages of held chunks, as runs. The arena has two, and no page is in both.
//
// Hollow pages: only free blocks touch them, and their memory and leases were given back. Memory is leased in chunks,
// so gaps between blocks count as held. A process that would not fit the device any more because of its gaps gives
// their pages back, and takes them again when a block is placed there.
//
// Pages over the link: host memory is behind them, and they have no lease (arena_overflow.cpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>

#include "driver.h"

namespace neaptide {

class PageRuns {
 public:
  /// `page_bytes`: the unit; 0 when the driver cannot take part of a chunk away, and then nothing may be added.
  explicit PageRuns(std::size_t page_bytes) : page_(page_bytes) {}

  std::uint64_t bytes() const { return bytes_; }

  /// Adds the whole pages between two addresses; returns how many bytes were not there before. `visit` gets the
  /// range of these pages.
  template <typename Visit>
  std::uint64_t add(Address start, Address end, Visit visit) {
    start = (start + page_ - 1) / page_ * page_;
    end = end / page_ * page_;
    if (start >= end || within(start, end) == end - start) return 0;
    const std::uint64_t before = remove(start, end);
    runs_[start] = end;
    bytes_ += end - start;
    visit(start, end);
    return end - start - before;
  }
  std::uint64_t add(Address start, Address end) {
    return add(start, end, [](Address, Address) {});
  }
  /// Bytes of the set among the pages that a range touches. Changes nothing.
  std::uint64_t within(Address start, Address end) const {
    std::uint64_t found = 0;
    each(start, end, [&](Address from, Address to) { found += to - from; });
    return found;
  }
  /// Removes the pages that a range touches; returns their bytes. `visit` gets every run that was there.
  template <typename Visit>
  std::uint64_t remove(Address start, Address end, Visit visit) {
    std::uint64_t removed = 0;
    each(start, end, [&](Address from, Address to) {
      removed += to - from;
      visit(from, to);
    });
    if (removed == 0) return 0;
    cut_at(touched_from(start));
    cut_at(touched_to(end));
    runs_.erase(runs_.lower_bound(touched_from(start)), runs_.lower_bound(touched_to(end)));
    bytes_ -= removed;
    return removed;
  }
  std::uint64_t remove(Address start, Address end) {
    return remove(start, end, [](Address, Address) {});
  }
  /// Visits the runs among the pages that a range touches. Changes nothing.
  template <typename Visit>
  void each(Address start, Address end, Visit visit) const {
    if (runs_.empty()) return;
    start = touched_from(start);
    end = touched_to(end);
    auto run = runs_.upper_bound(start);
    if (run != runs_.begin() && std::prev(run)->second > start) --run;
    for (; run != runs_.end() && run->first < end; ++run)
      visit(std::max(run->first, start), std::min(run->second, end));
  }

 private:
  Address touched_from(Address start) const { return start / page_ * page_; }
  Address touched_to(Address end) const { return (end + page_ - 1) / page_ * page_; }
  /// Splits the run that spans an address.
  void cut_at(Address at) {
    auto run = runs_.lower_bound(at);
    if (run == runs_.begin() || std::prev(run)->second <= at) return;
    --run;
    runs_[at] = run->second;
    run->second = at;
  }

  std::size_t page_;
  std::map<Address, Address> runs_;  // start -> end; they do not overlap
  std::uint64_t bytes_ = 0;
};

}  // namespace neaptide
