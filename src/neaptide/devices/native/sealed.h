// A count of bytes in shared memory that shows whether it was damaged: 48 bits of value and 16 of a checksum.
//
// The counts that keep the budget are sealed: capacity, used and held, and the marks of the most that there was.
// Zeroed, filled or flipped bytes do not pass for a count, but for one chance in 65,536 where all bytes are random. A
// damaged count grants nothing until it is put right.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

namespace neaptide {

class Sealed {
 public:
  static constexpr std::uint64_t kMost = (std::uint64_t{1} << 48) - 1;

  static constexpr std::uint64_t seal(std::uint64_t value) { return (value & kMost) | checksum(value & kMost) << 48; }
  static constexpr std::optional<std::uint64_t> open(std::uint64_t word) {
    if (word != seal(word)) return std::nullopt;
    return word & kMost;
  }

  /// Nothing when it is damaged.
  std::optional<std::uint64_t> load() const { return open(word_.load()); }
  void store(std::uint64_t value) { word_.store(seal(value)); }
  /// The word as it is, and its exchange if it still is so; otherwise `seen` becomes what it is.
  std::uint64_t word() const { return word_.load(); }
  bool replace(std::uint64_t& seen, std::uint64_t value) { return word_.compare_exchange_weak(seen, seal(value)); }

  /// Adds or subtracts, stopping at 0; a damaged count stays as it is.
  void add(std::int64_t bytes) {
    for (std::uint64_t seen = word();;) {
      const auto value = open(seen);
      if (!value) return;
      const auto sum = static_cast<std::int64_t>(*value) + bytes;
      if (replace(seen, sum < 0 ? 0 : static_cast<std::uint64_t>(sum))) return;
    }
  }
  /// Makes it at least `value`; a damaged one becomes `value`.
  void raise(std::uint64_t value) {
    for (std::uint64_t seen = word(); !open(seen) || *open(seen) < value;)
      if (replace(seen, value)) return;
  }
  void subtract(std::uint64_t bytes) { add(-static_cast<std::int64_t>(bytes)); }

 private:
  static constexpr std::uint64_t checksum(std::uint64_t value) {
    std::uint64_t mixed = (value + 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 32) * 0x94d049bb133111eb;
    return mixed >> 48;
  }

  std::atomic<std::uint64_t> word_;
};
static_assert(Sealed::seal(0) != 0 && !Sealed::open(0) && !Sealed::open(~std::uint64_t{0}));

}  // namespace neaptide
