#include "pages.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <map>
#include <string>

#include "board.h"

namespace hollow {
namespace {

std::string folder(const Board& board) { return board.path() + ".pages"; }
std::string path(const Board& board, int index) { return folder(board) + "/" + std::to_string(index); }

// A lock may meet the exclusive one of free_orphans only under the board's lock, which every caller has.
File open_locked(const Board& board, int index, int flags = 0) {
  File file(open(path(board, index).c_str(), O_RDWR | O_CLOEXEC | flags, 0600));
  if (file.get() >= 0) flock(file.get(), LOCK_SH);
  return file;
}

void* keep(const File& file) {
  void* lock = mmap(nullptr, 4096, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file.get(), 0);
  if (lock == MAP_FAILED) return nullptr;
  madvise(lock, 4096, MADV_DONTFORK);  // a forked child has no share
  return lock;
}

bool unheld(const Page& page) {
  for (const std::uint64_t some : page.holders)
    if (some) return false;
  return true;
}

void free_if_unlocked(Board& board, int index) {
  Page& page = board.layout().page[index];
  const File file(open(path(board, index).c_str(), O_RDWR | O_CLOEXEC));
  if (file.get() >= 0 && flock(file.get(), LOCK_EX | LOCK_NB)) return;
  unlink(path(board, index).c_str());
  board.layout().device[page.device].page_bytes -= page.bytes;
  page.bytes = 0;
}

// Shares of this process by page: the last one to go gives up the place among the holders. Guarded by the board's lock.
std::map<int, int>& shares() {
  static auto* instance = new std::map<int, int>;
  return *instance;
}

void hold(Board& board, int index, int slot) {
  ++shares()[index];
  board.layout().page[index].holders[slot / 64] |= std::uint64_t{1} << slot % 64;
}

}  // namespace

File::~File() {
  if (descriptor_ >= 0) close(descriptor_);
}
int File::release() {
  const int descriptor = descriptor_;
  descriptor_ = -1;
  return descriptor;
}

std::optional<PageHold> PageHold::create(int device, std::size_t bytes) {
  Board& board = hollow::board();
  const int slot = board.slot();
  mkdir(folder(board).c_str(), 0700);
  Board::Lock lock(board);
  if (!board.fits(device, bytes)) return {};
  Layout& layout = board.layout();
  int index = 0;
  while (index < layout.page_end && layout.page[index].bytes) ++index;
  if (index == kPages) return {};
  const File file = open_locked(board, index, O_CREAT | O_TRUNC);
  if (file.get() < 0 || ftruncate(file.get(), static_cast<off_t>(bytes))) return {};
  void* kept = keep(file);
  if (!kept) return {};
  Page& page = layout.page[index];
  page.device = device;
  page.creator = slot;
  for (std::uint64_t& some : page.holders) some = 0;
  hold(board, index, slot);
  if (index == layout.page_end) ++layout.page_end;
  layout.device[device].page_bytes += bytes;
  page.bytes = bytes;
  return PageHold(index, kept);
}

std::optional<PageHold> PageHold::import(int descriptor) {
  Board& board = hollow::board();
  const int slot = board.slot();
  char target[PATH_MAX] = {};
  if (readlink(("/proc/self/fd/" + std::to_string(descriptor)).c_str(), target, sizeof target - 1) < 0) return {};
  const std::string name = target, prefix = folder(board) + "/";
  if (name.compare(0, prefix.size(), prefix) != 0) return {};
  const int index = std::atoi(name.c_str() + prefix.size());
  Board::Lock lock(board);
  if (index < 0 || index >= board.layout().page_end || !board.layout().page[index].bytes) return {};
  void* kept = keep(open_locked(board, index));
  if (!kept) return {};
  hold(board, index, slot);
  return PageHold(index, kept);
}

PageHold::PageHold(PageHold&& other) noexcept : index_(other.index_), lock_(other.lock_) { other.index_ = -1; }

PageHold::~PageHold() {
  if (index_ < 0) return;
  Board& board = hollow::board();
  const int slot = board.slot();
  Board::Lock lock(board);
  munmap(lock_, 4096);
  if (--shares()[index_]) return;
  shares().erase(index_);
  Page& page = board.layout().page[index_];
  page.holders[slot / 64] &= ~(std::uint64_t{1} << slot % 64);
  if (unheld(page)) free_if_unlocked(board, index_);
}

int PageHold::device() const { return board().layout().page[index_].device; }
std::size_t PageHold::bytes() const { return board().layout().page[index_].bytes; }
File PageHold::open() const {
  Board::Lock lock(board());
  return open_locked(board(), index_);
}

void free_orphans(Board& board) {
  Layout& layout = board.layout();
  for (int i = 0; i < layout.page_end; ++i)
    if (layout.page[i].bytes && unheld(layout.page[i])) free_if_unlocked(board, i);
  // A process that was killed while it made or freed a page may have left a sum that is off.
  for (Device& device : layout.device) device.page_bytes = 0;
  for (int i = 0; i < layout.page_end; ++i)
    if (layout.page[i].bytes) layout.device[layout.page[i].device].page_bytes += layout.page[i].bytes;
}

}  // namespace hollow
