#include "slot_locks.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

#include "board.h"

namespace neaptide {
namespace {

struct flock bytes(short type, std::uint32_t first, std::uint32_t count) {
  struct flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = first;
  lock.l_len = count;
  return lock;
}

}  // namespace

bool SlotLocks::take(std::uint32_t slot) {
  const std::lock_guard guard(mutex_);
  if (own_[slot] || !(FileIdentity::of(file_) == identity_)) return false;
  struct flock lock = bytes(F_WRLCK, slot, 1);
  if (fcntl(file_, F_OFD_SETLK, &lock) != 0) {
    if (errno == EAGAIN || errno == EACCES || errno == EINTR) return false;
    throw BoardError(std::string("the board's file cannot be locked: ") + std::strerror(errno));
  }
  own_[slot] = true;
  return true;
}

void SlotLocks::drop(std::uint32_t slot) {
  const std::lock_guard guard(mutex_);
  own_[slot] = false;
  if (!(FileIdentity::of(file_) == identity_)) return;
  struct flock lock = bytes(F_UNLCK, slot, 1);
  fcntl(file_, F_OFD_SETLK, &lock);
}

bool any_slot_owned(int file) {
  struct flock lock = bytes(F_WRLCK, 0, kSlots);
  return fcntl(file, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

}  // namespace neaptide
