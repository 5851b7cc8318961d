// Memory that processes hand to each other as file descriptors (cuMemExportToShareableHandle).
//
// Each page is a file beside the board. Whoever has the page has an open file description of it with a shared lock:
// handles and mappings by a mmap, exported descriptors by themselves, also while they are on their way through a
// socket. The kernel drops the lock with the last of them, whatever ends it. So a page whose file can be locked
// exclusively is free. A handle keeps no descriptor open, as on a GPU: thousands of pages need no higher limit of open
// files.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace hollow {

class Board;

/// A file descriptor that closes itself.
class File {
 public:
  explicit File(int descriptor = -1) : descriptor_(descriptor) {}
  File(File&& other) noexcept : descriptor_(other.release()) {}
  File& operator=(File&&) = delete;
  ~File();
  int get() const { return descriptor_; }
  int release();

 private:
  int descriptor_;
};

/// This process's share in one page: it has a place among the page's holders, and the page's file is locked.
class PageHold {
 public:
  /// Makes a page; nothing if the device has too few bytes.
  static std::optional<PageHold> create(int device, std::size_t bytes);
  /// Takes a share in the page whose descriptor was imported; nothing if it is no descriptor of a page.
  static std::optional<PageHold> import(int descriptor);
  PageHold(PageHold&& other) noexcept;
  PageHold& operator=(PageHold&&) = delete;
  ~PageHold();

  int device() const;
  std::size_t bytes() const;
  /// A new open file description of the page, locked.
  File open() const;

 private:
  PageHold(int index, void* lock) : index_(index), lock_(lock) {}
  int index_;   // -1: moved away
  void* lock_;  // a mapping without access, which keeps the file's lock
};

/// With the board's lock held: frees pages that nobody has.
void free_orphans(Board& board);

}  // namespace hollow
