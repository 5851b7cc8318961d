// The board's robust lock as a guard. It is innermost: nothing is waited for while it is held.
#pragma once

#include <pthread.h>

#include <mutex>
#include <string>

#include "board.h"

namespace neaptide {

/// Makes a fresh robust, process-shared mutex in place.
void make_board_lock(pthread_mutex_t& mutex);

/// Holds the lock for its lifetime. An owner that died is taken over: all that the lock guards is safe to redo.
class BoardLock {
 public:
  /// Waits up to ten seconds (its holder may be stopped), then throws BoardError naming the board.
  BoardLock(pthread_mutex_t& mutex, const std::string& path);
  /// Does not wait: owns() is false when another thread or process holds it.
  BoardLock(pthread_mutex_t& mutex, const std::string& path, std::try_to_lock_t);
  BoardLock(const BoardLock&) = delete;
  BoardLock& operator=(const BoardLock&) = delete;
  ~BoardLock();
  bool owns() const { return owns_; }

 private:
  void settle(int error, const std::string& path);

  pthread_mutex_t& mutex_;
  bool owns_ = false;
};

}  // namespace neaptide
