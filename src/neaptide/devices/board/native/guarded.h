// Calls from Python: what is thrown becomes a return value and a message that neaptide_error() gives.
#pragma once

#include <exception>
#include <memory>
#include <string>

#include "../../native/board.h"

namespace neaptide {

/// A board as Python holds it.
struct BoardHandle {
  std::shared_ptr<Board> board;
};

/// Why the last call of this thread failed.
std::string& last_problem();

template <typename Work>
auto guarded(Work work, decltype(work()) failed) noexcept -> decltype(work()) {
  try {
    return work();
  } catch (const std::exception& error) {
    last_problem() = error.what();
    return failed;
  }
}

/// 0, or -1 when the work throws.
template <typename Work>
int attempt(Work work) noexcept {
  return guarded(
      [&] {
        work();
        return 0;
      },
      -1);
}

}  // namespace neaptide
