#include "physical.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <utility>

#include "board.h"

namespace hollow {
namespace {

bool map_file(std::uintptr_t at, std::size_t bytes, int file, off_t offset) {
  void* address = reinterpret_cast<void*>(at);
  if (mmap(address, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file, offset) == MAP_FAILED) return false;
  return !madvise(address, bytes, MADV_DONTFORK);
}

class SharedPage : public Physical {
 public:
  explicit SharedPage(PageHold hold) : hold_(std::move(hold)) {}
  int device() const override { return hold_.device(); }
  std::size_t bytes() const override { return hold_.bytes(); }
  bool map(std::uintptr_t at, std::size_t bytes) const override { return map_file(at, bytes, hold_.open().get(), 0); }
  int export_file() const override { return hold_.open().release(); }

 private:
  PageHold hold_;
};

/// A stretch of one sparse file without a name, so that it can be mapped anywhere and any number of times.
class OwnStretch : public Physical {
 public:
  OwnStretch(int device, std::size_t bytes, off_t offset) : device_(device), bytes_(bytes), offset_(offset) {}
  ~OwnStretch() override {
    fallocate(pool(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset_, static_cast<off_t>(bytes_));
    board().give(device_, bytes_);
  }
  static std::shared_ptr<Physical> create(int device, std::size_t bytes) {
    static std::atomic<off_t> end{0};
    if (pool() < 0 || !board().take(device, bytes)) return nullptr;
    return std::make_shared<OwnStretch>(device, bytes, end.fetch_add(static_cast<off_t>(bytes)));
  }
  int device() const override { return device_; }
  std::size_t bytes() const override { return bytes_; }
  bool map(std::uintptr_t at, std::size_t bytes) const override { return map_file(at, bytes, pool(), offset_); }
  int export_file() const override { return -1; }

 private:
  static int pool() {
    static const int file = [] {
      const int made = memfd_create("hollow", MFD_CLOEXEC);
      return made >= 0 && !ftruncate(made, off_t{1} << 46) ? made : -1;
    }();
    return file;
  }
  int device_;
  std::size_t bytes_;
  off_t offset_;
};

}  // namespace

std::shared_ptr<Physical> create_physical(int device, std::size_t bytes, bool exportable) {
  if (!exportable) return OwnStretch::create(device, bytes);
  auto hold = PageHold::create(device, bytes);
  return hold ? std::make_shared<SharedPage>(std::move(*hold)) : nullptr;
}

std::shared_ptr<Physical> import_physical(int descriptor) {
  auto hold = PageHold::import(descriptor);
  return hold ? std::make_shared<SharedPage>(std::move(*hold)) : nullptr;
}

}  // namespace hollow
