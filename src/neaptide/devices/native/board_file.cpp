#include "board_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "board_lock.h"
#include "device_region.h"

namespace neaptide {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw BoardError("board " + path + ": " + why);
}

class OpenFile {
 public:
  OpenFile(const std::string& path, bool create)
      : descriptor_(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | (create ? O_CREAT : 0), 0600)) {
    if (descriptor_ < 0) refuse(path, std::string("cannot be opened: ") + std::strerror(errno));
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    flock(descriptor_, LOCK_UN);  // closing would not do: the mapping keeps the open file
    close(descriptor_);
  }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

/// What the file says before it is mapped. Magic, version and layout_bytes come first in every version.
struct Header {
  std::uint64_t magic = 0;
  std::uint32_t version = 0;
  std::uint32_t layout_bytes = 0;
  std::uint64_t boot = 0;
  std::uint32_t region_kind = 0;
  std::uint32_t region_bytes = 0;
};
static_assert(offsetof(BoardLayout, region_bytes) == offsetof(Header, region_bytes));

constexpr std::uint64_t kMostBytes = sizeof(BoardLayout) + (std::uint64_t{1} << 20);

void initialise(BoardLayout& board, std::size_t bytes, const BoardConfig& config, const std::string& path) {
  // A creator killed in here leaves no magic, but the version: the next one starts over.
  board.magic.store(0);
  board.version.store(kBoardVersion);
  constexpr std::size_t kRest = offsetof(BoardLayout, layout_bytes);
  std::memset(reinterpret_cast<char*>(&board) + kRest, 0, bytes - kRest);
  make_board_lock(board.lock);
  board.layout_bytes.store(sizeof(BoardLayout));
  board.boot.store(boot_identity());
  board.pid_namespace.store(pid_namespace());
  board.capacity.store(config.capacity_bytes);
  board.region_setting.store(config.region_setting);
  if (config.region != nullptr) {
    board.region_kind.store(config.region->kind);
    board.region_bytes.store(static_cast<std::uint32_t>(config.region->bytes));
    try {
      config.region->initialise(region_of(board), config.region_setting);
    } catch (const BoardError& error) {
      refuse(path, error.what());
    }
  }
  board.magic.store(kBoardMagic);
}

/// Whether the file holds zeros only: its creator was killed before it wrote anything.
bool is_blank(int file, std::uint64_t bytes) {
  std::array<char, 4096> part;
  for (std::uint64_t at = 0; at < bytes;) {
    const ssize_t count = pread(file, part.data(), part.size(), static_cast<off_t>(at));
    if (count <= 0 || std::any_of(part.begin(), part.begin() + count, [](char byte) { return byte != 0; }))
      return false;
    at += static_cast<std::uint64_t>(count);
  }
  return true;
}

/// Whether the file holds a board that its creator finished. Throws BoardError for what is no board of this version.
bool is_finished(int file, std::uint64_t bytes, const Header& header, const std::string& path) {
  if (bytes == 0) return false;
  if (header.magic == 0 && bytes >= sizeof(BoardLayout) && bytes <= kMostBytes) {
    if (header.version == kBoardVersion || is_blank(file, bytes)) return false;
    refuse(path, "not a board but another file; name another path");
  }
  if (header.magic != kBoardMagic)
    refuse(path, "not a board but another file of " + std::to_string(bytes) + " bytes; name another path");
  if (header.version != kBoardVersion || header.layout_bytes != sizeof(BoardLayout) ||
      bytes != sizeof(BoardLayout) + header.region_bytes)
    refuse(path, "of version " + std::to_string(header.version) + ", but this program speaks version " +
                     std::to_string(kBoardVersion) + "; end the jobs on it and remove the file");
  return true;
}

}  // namespace

BoardFile::BoardFile(const std::string& path, const std::optional<BoardConfig>& config) {
  const OpenFile file(path, config.has_value());
  // The file lock keeps two creators apart; it is held for this constructor only.
  while (flock(file.get(), LOCK_EX) != 0)
    if (errno != EINTR) refuse(path, std::string("cannot be locked: ") + std::strerror(errno));

  struct stat status{};
  if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) refuse(path, "not a regular file");
  const auto found_bytes = static_cast<std::uint64_t>(status.st_size);
  Header header;
  if (pread(file.get(), &header, sizeof(header), 0) != sizeof(header)) header.magic = 0;
  // No process of an earlier boot is alive, so its board starts afresh.
  const bool keeps = is_finished(file.get(), found_bytes, header, path) && header.boot == boot_identity();
  if (keeps) {
    bytes_ = found_bytes;
    if (header.region_kind != 0 && find_region(header.region_kind) == nullptr)
      refuse(path, "of a device that this program does not know");
  } else {
    if (!config) refuse(path, "there is no board in this file yet");
    if (config->capacity_bytes == 0) refuse(path, "a capacity of 0 bytes");
    bytes_ = sizeof(BoardLayout) + (config->region != nullptr ? config->region->bytes : 0);
    const auto size = static_cast<off_t>(bytes_);
    if (ftruncate(file.get(), size) != 0 || posix_fallocate(file.get(), 0, size) != 0) refuse(path, "no space for it");
  }

  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) refuse(path, std::string("cannot be mapped: ") + std::strerror(errno));
  madvise(memory, bytes_, MADV_DONTFORK);
  layout_ = static_cast<BoardLayout*>(memory);
  try {
    if (!keeps) initialise(*layout_, bytes_, *config, path);
    if (layout_->pid_namespace.load() != pid_namespace())
      refuse(path, "belongs to another pid namespace (container); give each its own board");
  } catch (...) {
    munmap(memory, bytes_);
    throw;
  }
}

BoardFile::~BoardFile() {
  if (!forked()) munmap(layout_, bytes_);
}

}  // namespace neaptide
