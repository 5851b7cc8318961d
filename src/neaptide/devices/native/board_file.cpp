#include "board_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "board_lock.h"
#include "sm_queue.h"

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

void initialise(BoardLayout& board, const std::string& path, const std::optional<BoardConfig>& config) {
  if (!config) refuse(path, "there is no board in this file yet");
  if (config->capacity_bytes == 0) refuse(path, "a capacity of 0 bytes");
  if (config->sms == 0 || config->sms > kMaximumSms)
    refuse(path, std::to_string(config->sms) + " SMs; 1 to " + std::to_string(kMaximumSms) + " are possible");
  // A creator killed in here leaves no magic, but the version: the next one starts over.
  board.magic.store(0);
  board.version.store(kBoardVersion);
  constexpr std::size_t kRest = offsetof(BoardLayout, layout_bytes);
  std::memset(reinterpret_cast<char*>(&board) + kRest, 0, sizeof(board) - kRest);
  make_board_lock(board.lock);
  board.layout_bytes.store(sizeof(BoardLayout));
  board.boot.store(boot_identity());
  board.pid_namespace.store(pid_namespace());
  board.sms.store(config->sms);
  board.capacity.store(config->capacity_bytes);
  board.magic.store(kBoardMagic);
}

bool is_blank(const BoardLayout& board) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(&board);
  for (std::size_t index = 0; index < sizeof(board); ++index)
    if (bytes[index] != 0) return false;
  return true;
}

/// Magic and version come first in every version, so they are checked before the size.
void check_header(int file, std::uint64_t bytes, const std::string& path) {
  struct {
    std::uint64_t magic = 0;
    std::uint32_t version = 0;
    std::uint32_t layout_bytes = 0;
  } header;
  const bool read = pread(file, &header, sizeof(header), 0) == sizeof(header);
  const bool unfinished = read && header.magic == 0 && bytes == sizeof(BoardLayout);
  if (unfinished) return;
  if (!read || header.magic != kBoardMagic)
    refuse(path, "not a board but another file of " + std::to_string(bytes) + " bytes; name another path");
  if (header.version != kBoardVersion || header.layout_bytes != sizeof(BoardLayout) || bytes != sizeof(BoardLayout))
    refuse(path, "of version " + std::to_string(header.version) + ", but this program speaks version " +
                     std::to_string(kBoardVersion) + "; end the jobs on it and remove the file");
}

}  // namespace

BoardFile::BoardFile(const std::string& path, const std::optional<BoardConfig>& config) {
  const OpenFile file(path, config.has_value());
  // The file lock keeps two creators apart; it is held for this constructor only.
  while (flock(file.get(), LOCK_EX) != 0)
    if (errno != EINTR) refuse(path, std::string("cannot be locked: ") + std::strerror(errno));

  struct stat status{};
  if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) refuse(path, "not a regular file");
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  if (bytes > 0) check_header(file.get(), bytes, path);
  if (bytes == 0 && !config) refuse(path, "there is no board in this file yet");
  if (bytes == 0 && posix_fallocate(file.get(), 0, sizeof(BoardLayout)) != 0) refuse(path, "no space for it");

  void* memory = mmap(nullptr, sizeof(BoardLayout), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) refuse(path, std::string("cannot be mapped: ") + std::strerror(errno));
  madvise(memory, sizeof(BoardLayout), MADV_DONTFORK);
  layout_ = static_cast<BoardLayout*>(memory);
  try {
    const bool finished = layout_->magic.load() == kBoardMagic;
    if (!finished && layout_->version.load() != kBoardVersion && !is_blank(*layout_))
      refuse(path, "not a board but another file; name another path");
    // Nobody of an earlier boot is alive, so its board starts afresh.
    if (!finished || layout_->boot.load() != boot_identity()) initialise(*layout_, path, config);
    if (layout_->pid_namespace.load() != pid_namespace())
      refuse(path, "belongs to another pid namespace (container); give each its own board");
  } catch (...) {
    munmap(memory, sizeof(BoardLayout));
    throw;
  }
}

BoardFile::~BoardFile() {
  if (!forked()) munmap(layout_, sizeof(BoardLayout));
}

}  // namespace neaptide
