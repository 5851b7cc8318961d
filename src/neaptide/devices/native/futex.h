// Sleeping on a 32-bit word and waking its sleepers, within a process or across processes that map the same file.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdint>

#include "driver.h"

namespace neaptide {

enum class Reach { one_process, all_processes };

/// Sleeps while the word has the expected value, until woken or the deadline; may return early for no reason.
inline void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, Deadline deadline, Reach reach) {
  static_assert(sizeof(word) == sizeof(std::uint32_t));
  const auto since_boot = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline.time_since_epoch()).count();
  timespec until{};
  until.tv_sec = std::max<long long>(0, since_boot) / 1'000'000'000;
  until.tv_nsec = std::max<long long>(0, since_boot) % 1'000'000'000;
  // The bitset form takes an absolute time on the monotonic clock, which is what steady_clock reads.
  const int operation = FUTEX_WAIT_BITSET | (reach == Reach::one_process ? FUTEX_PRIVATE_FLAG : 0);
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, expected,
          deadline == Deadline::max() ? nullptr : &until, nullptr, FUTEX_BITSET_MATCH_ANY);
}

/// Counts the word up and wakes all threads that sleep on it.
inline void futex_wake(std::atomic<std::uint32_t>& word, Reach reach) {
  word.fetch_add(1);
  const int operation = FUTEX_WAKE | (reach == Reach::one_process ? FUTEX_PRIVATE_FLAG : 0);
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace neaptide
