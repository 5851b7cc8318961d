#include "board_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "device_region.h"

namespace neaptide {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw BoardError("board " + path + ": " + why);
}

/// What the file says before it is mapped. Magic, version and layout_bytes come first in every version.
struct Header {
  std::uint64_t magic = 0;
  std::uint32_t version = 0;
  std::uint32_t layout_bytes = 0;
  std::uint32_t region_kind = 0;
  std::uint32_t region_bytes = 0;
  std::uint64_t region_setting = 0;
  std::uint64_t chunk_bytes = 0;
  std::uint64_t pid_namespace = 0;
};
static_assert(offsetof(BoardLayout, pid_namespace) == offsetof(Header, pid_namespace));

bool is_chunk_size(std::uint64_t bytes) {
  return bytes >= kSmallChunkBytes && bytes <= kLargestChunkBytes && (bytes & (bytes - 1)) == 0;
}

void write_header(BoardLayout& board, const DeviceRegion* region, std::uint64_t region_setting,
                  std::uint64_t chunk_bytes) {
  board.version.store(kBoardVersion);
  board.layout_bytes.store(sizeof(BoardLayout));
  board.region_kind.store(region != nullptr ? region->kind : 0);
  board.region_bytes.store(region != nullptr ? static_cast<std::uint32_t>(region->bytes) : 0);
  board.region_setting.store(region_setting);
  board.chunk_bytes.store(chunk_bytes);
  board.pid_namespace.store(pid_namespace());
  board.magic.store(kBoardMagic);
}

void initialise(BoardLayout& board, const BoardConfig& config) {
  board.capacity.store(config.capacity_bytes);
  board.used.store(0);
  board.high_water.store(0);
  for (SlotLayout& slot : board.slots) slot.held.store(0);
  if (config.region != nullptr) config.region->initialise(region_of(board), config.region_setting);
  write_header(board, config.region, config.region_setting, config.chunk_bytes);
}

/// Throws BoardError unless this is a board of this version, of the size that it should have.
void check(const Header& header, std::uint64_t bytes, const std::string& path) {
  if (header.magic != kBoardMagic)
    refuse(path, "not a board but another file of " + std::to_string(bytes) + " bytes; name another path");
  if (header.version != kBoardVersion)
    refuse(path, "of version " + std::to_string(header.version) + ", but this program speaks version " +
                     std::to_string(kBoardVersion) + "; end the jobs on it and remove the file");
  if (header.layout_bytes != sizeof(BoardLayout) || bytes != sizeof(BoardLayout) + header.region_bytes ||
      !is_chunk_size(header.chunk_bytes))
    refuse(path, "damaged, or made by another build of this version; end the jobs on it and remove the file");
  if (header.pid_namespace != pid_namespace())
    refuse(path, "belongs to another pid namespace (container); give each its own board");
}

/// Whether the path is the link that a daemon leaves where its file was removed: to the file as the daemon has it open.
bool is_link_to_open_file(const std::string& path) {
  std::array<char, 64> target{};
  const ssize_t length = readlink(path.c_str(), target.data(), target.size() - 1);
  return length > 0 && std::strncmp(target.data(), "/proc/", 6) == 0;
}

}  // namespace

OpenFile::OpenFile(const std::string& path, int flags) : descriptor_(::open(path.c_str(), flags | O_CLOEXEC, 0600)) {
  if (descriptor_ < 0) refuse(path, std::string("cannot be opened: ") + std::strerror(errno));
  if (descriptor_ > STDERR_FILENO) return;
  // The program was started without stdin, stdout or stderr: what it prints must not go into the file.
  if (const int higher = fcntl(descriptor_, F_DUPFD_CLOEXEC, STDERR_FILENO + 1); higher >= 0) {
    close(descriptor_);
    descriptor_ = higher;
  }
}

OpenFile::~OpenFile() {
  if (!forked()) close(descriptor_);
}

bool BoardFile::create(const std::string& path, const BoardConfig& config) {
  if (config.capacity_bytes == 0) refuse(path, "a capacity of 0 bytes");
  if (config.capacity_bytes > Sealed::kMost) refuse(path, "a capacity of more than 256 TiB");
  if (!is_chunk_size(config.chunk_bytes)) refuse(path, "a chunk is a power of two from 2 MiB to 32 MiB");
  static std::atomic<int> made{0};
  const std::string fresh = path + ".new-" + std::to_string(getpid()) + '-' + std::to_string(made++);
  unlink(fresh.c_str());
  const OpenFile file(fresh, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW);
  const struct Unlinked {
    const std::string& path;
    ~Unlinked() { unlink(path.c_str()); }
  } unlinked{fresh};
  const std::size_t bytes = sizeof(BoardLayout) + (config.region != nullptr ? config.region->bytes : 0);
  if (posix_fallocate(file.get(), 0, static_cast<off_t>(bytes)) != 0) refuse(path, "no space for it");
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) refuse(path, std::string("cannot be mapped: ") + std::strerror(errno));
  const struct Mapped {
    void* memory;
    std::size_t bytes;
    ~Mapped() { munmap(memory, bytes); }
  } mapped{memory, bytes};
  try {
    initialise(*static_cast<BoardLayout*>(memory), config);
  } catch (const BoardError& error) {
    refuse(path, error.what());
  }
  if (link(fresh.c_str(), path.c_str()) == 0) return true;
  if (errno != EEXIST) refuse(path, std::string("cannot be made: ") + std::strerror(errno));
  return false;
}

BoardFile::BoardFile(const std::string& path)
    : file_(path, O_RDWR | (is_link_to_open_file(path) ? 0 : O_NOFOLLOW)), locks_(file_.get()) {
  struct stat status{};
  if (fstat(file_.get(), &status) != 0 || !S_ISREG(status.st_mode)) refuse(path, "not a regular file");
  if (status.st_uid != geteuid()) refuse(path, "belongs to another user");
  if ((status.st_mode & 022) != 0) refuse(path, "other users may write to it");
  Header header;
  if (pread(file_.get(), &header, sizeof(header), 0) != sizeof(header)) header.magic = 0;
  check(header, static_cast<std::uint64_t>(status.st_size), path);
  if (header.region_kind != 0) {
    region_ = find_region(header.region_kind);
    if (region_ == nullptr || region_->bytes != header.region_bytes)
      refuse(path, "of a device that this program does not know");
  }
  region_setting_ = header.region_setting;
  chunk_bytes_ = header.chunk_bytes;
  bytes_ = sizeof(BoardLayout) + header.region_bytes;
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (memory == MAP_FAILED) refuse(path, std::string("cannot be mapped: ") + std::strerror(errno));
  madvise(memory, bytes_, MADV_DONTFORK);
  layout_ = static_cast<BoardLayout*>(memory);
  mapping_ = std::make_unique<KnownMapping>(memory, bytes_, file_.get());
}

BoardFile::~BoardFile() {
  mapping_.reset();
  if (!forked()) munmap(layout_, bytes_);
}

bool BoardFile::is_at(const std::string& path) const {
  struct stat own{}, named{};
  return fstat(file_.get(), &own) == 0 && stat(path.c_str(), &named) == 0 && own.st_ino == named.st_ino &&
         own.st_dev == named.st_dev;
}

void BoardFile::restore_header() {
  const BoardLayout& board = *layout_;
  const bool whole = board.magic.load() == kBoardMagic && board.version.load() == kBoardVersion &&
                     board.layout_bytes.load() == sizeof(BoardLayout) &&
                     board.region_kind.load() == (region_ != nullptr ? region_->kind : 0) &&
                     board.region_bytes.load() == bytes_ - sizeof(BoardLayout) &&
                     board.region_setting.load() == region_setting_ && board.chunk_bytes.load() == chunk_bytes_ &&
                     board.pid_namespace.load() == pid_namespace();
  if (!whole) write_header(*layout_, region_, region_setting_, chunk_bytes_);
}

}  // namespace neaptide
