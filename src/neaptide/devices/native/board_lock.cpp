#include "board_lock.h"

#include <time.h>

#include <cerrno>
#include <cstring>

namespace neaptide {

void make_board_lock(pthread_mutex_t& mutex) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  const int error = pthread_mutex_init(&mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
  if (error != 0) throw BoardError(std::string("board lock: ") + std::strerror(error));
}

BoardLock::BoardLock(pthread_mutex_t& mutex, const std::string& path) : mutex_(mutex) {
  int error = pthread_mutex_trylock(&mutex_);
  if (error == EBUSY) {
    timespec until{};
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 10;
    error = pthread_mutex_timedlock(&mutex_, &until);
  }
  settle(error, path);
}

BoardLock::BoardLock(pthread_mutex_t& mutex, const std::string& path, std::try_to_lock_t) : mutex_(mutex) {
  const int error = pthread_mutex_trylock(&mutex_);
  if (error != EBUSY) settle(error, path);
}

BoardLock::~BoardLock() {
  if (owns_) pthread_mutex_unlock(&mutex_);
}

void BoardLock::settle(int error, const std::string& path) {
  if (error == EOWNERDEAD) error = pthread_mutex_consistent(&mutex_);
  if (error == ETIMEDOUT) throw BoardError("board " + path + ": its lock is held by a stopped process");
  if (error != 0) throw BoardError("board " + path + ": lock: " + std::strerror(error));
  owns_ = true;
}

}  // namespace neaptide
