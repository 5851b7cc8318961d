// Which file a descriptor names. A program may close descriptors that are not its own (os.closerange), and the number
// may then name a file of the program.
#pragma once

#include <sys/stat.h>

#include <cstdint>

namespace neaptide {

struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;

  /// Of the file that the descriptor names now; all zeros when it names none. Safe in a signal handler.
  static FileIdentity of(int descriptor) noexcept {
    struct stat status{};
    if (fstat(descriptor, &status) != 0) return {};
    return {static_cast<std::uint64_t>(status.st_dev), static_cast<std::uint64_t>(status.st_ino)};
  }
  bool operator==(const FileIdentity& other) const { return device == other.device && inode == other.inode; }
};

}  // namespace neaptide
