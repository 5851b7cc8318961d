// How a launching thread waits: without the interpreter lock, and with a short spin before it sleeps.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace neaptide {

inline std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

/// Runs a wait inside the surround that the process has set. A Python process sets one that releases the interpreter
/// lock: a device thread that needs the lock to drop a Python-owned buffer is then never waited for by its holder.
using Surround = std::function<void(const std::function<void()>&)>;
void set_blocking(Surround surround);
void blocking(const std::function<void()>& wait);

/// The process's interrupt check: it runs the handlers of signals that have come, and throws what they throw, such as
/// KeyboardInterrupt. It may launch, so it is called without locks, by a thread that no launch counts.
void set_interrupts(void (*interrupts)());
void look_for_interrupts();

/// As blocking(), for a wait that may take minutes: `wait` returns whether the wait is over, at the latest at the time
/// it is given. In between the interrupt check runs.
void blocking_with_interrupts(const std::function<bool(std::chrono::steady_clock::time_point)>& wait);

/// Waits by spinning for a little while before it sleeps: longer when the last waits were short, hardly at all when
/// they were long. Used by one thread.
class AdaptiveSpin {
 public:
  /// `sleep` is called when `ready` did not come true in time, or when `may_spin` says no; it returns once `ready` is
  /// true.
  template <typename Ready, typename MaySpin, typename Sleep>
  void wait(Ready ready, MaySpin may_spin, Sleep sleep) {
    const std::uint64_t start = now_ns();
    std::uint64_t now = start;
    while (!ready()) {
      if (now - start >= budget_ns_ || !may_spin()) {
        sleep();
        now = now_ns();
        break;
      }
      for (int i = 0; i < 8; ++i) pause();
      now = now_ns();
    }
    // The whole wait counts, sleep included: a short wait is one that spinning could have shortened.
    budget_ns_ = now - start < kShortNs ? std::min(kMostNs, budget_ns_ * 2) : std::max(kLeastNs, budget_ns_ / 2);
  }

 private:
  static constexpr std::uint64_t kLeastNs = 2'000;
  static constexpr std::uint64_t kMostNs = 50'000;
  static constexpr std::uint64_t kShortNs = 150'000;  // falling asleep and waking up take up to half of that

  static void pause() {
#if defined(__x86_64__)
    _mm_pause();
#endif
  }

  std::uint64_t budget_ns_ = 20'000;
};

}  // namespace neaptide
