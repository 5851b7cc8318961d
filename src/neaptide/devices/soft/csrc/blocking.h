// How the device waits: without the interpreter lock, and with a short spin before it sleeps.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace neaptide::soft {

inline std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

/// Runs a wait. The bindings set what surrounds it: letting go of the interpreter lock, so that a worker that needs the
/// lock to drop a Python-owned buffer is never waited for by a thread that holds it.
using Surround = std::function<void(const std::function<void()>&)>;
void set_blocking(Surround surround);
void blocking(const std::function<void()>& wait);

/// Spins for a little while before a thread goes to sleep, longer when that paid off lately. Used by one thread.
class AdaptiveSpin {
 public:
  /// True when `ready` came true within the budget.
  template <typename Ready>
  bool until(Ready ready) {
    const std::uint64_t end = now_ns() + budget_ns_;
    do {
      for (int i = 0; i < 8; ++i) {
        if (ready()) {
          budget_ns_ = std::min(kMostNs, budget_ns_ * 2);
          return true;
        }
        pause();
      }
    } while (now_ns() < end);
    budget_ns_ = std::max(kLeastNs, budget_ns_ / 2);
    return false;
  }

 private:
  static constexpr std::uint64_t kLeastNs = 2'000;
  static constexpr std::uint64_t kMostNs = 50'000;

  static void pause() {
#if defined(__x86_64__)
    _mm_pause();
#endif
  }

  std::uint64_t budget_ns_ = 20'000;
};

}  // namespace neaptide::soft
