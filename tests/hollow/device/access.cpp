#include "access.h"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "memory.h"

namespace hollow {
namespace {

constexpr std::size_t kHostPage = 4096;
constexpr std::size_t kPiece = std::size_t{64} << 20;
constexpr std::size_t kPattern = std::size_t{64} << 10;

void* offset(void* address, std::size_t bytes) { return static_cast<char*>(address) + bytes; }
const void* offset(const void* address, std::size_t bytes) { return static_cast<const char*>(address) + bytes; }

// Gives whole pages of device memory back to the system: they read as zero and cost nothing, so a network that is
// larger than the host's memory can be "held". False if some of it is no device memory that can be written.
bool drop_pages(std::uintptr_t begin, std::uintptr_t end) {
  while (begin < end) {
    void* at = reinterpret_cast<void*>(begin);
    const std::optional<Range> range = memory().find(at);
    const char zero = 0;
    if (!range || range->kind != Kind::kDevice || !copy_bytes(at, &zero, 1)) return false;
    const std::size_t bytes = std::min(range->end(), end) - begin;
    if (madvise(at, bytes, MADV_REMOVE) && madvise(at, bytes, MADV_DONTNEED)) return false;  // shared; private
    begin += bytes;
  }
  return true;
}

bool write_pattern(void* to, std::uint64_t value, std::size_t width, std::size_t bytes) {
  alignas(8) std::array<char, kPattern> pattern;
  for (std::size_t i = 0; i < std::min(bytes, kPattern); i += width) std::memcpy(pattern.data() + i, &value, width);
  for (std::size_t done = 0; done < bytes; done += kPattern)
    if (!copy_bytes(offset(to, done), pattern.data(), std::min(kPattern, bytes - done))) return false;
  return true;
}

}  // namespace

bool copy_bytes(void* to, const void* from, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    // The kernel copies between two places of this process and checks both.
    const std::size_t piece = std::min(kPiece, bytes - done);
    const iovec source{const_cast<void*>(offset(from, done)), piece}, target{offset(to, done), piece};
    const ssize_t moved = process_vm_writev(getpid(), &source, 1, &target, 1, 0);
    if (moved <= 0) return false;
    done += static_cast<std::size_t>(moved);
  }
  return true;
}

bool copy_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
               std::size_t height) {
  for (std::size_t row = 0; row < height; ++row)
    if (!copy_bytes(offset(to, row * to_pitch), offset(from, row * from_pitch), width)) return false;
  return true;
}

bool fill(void* to, std::uint64_t value, std::size_t width, std::size_t count) {
  const std::size_t bytes = width * count;
  const auto begin = reinterpret_cast<std::uintptr_t>(to);
  const std::uintptr_t first = round_up(begin, kHostPage), last = (begin + bytes) / kHostPage * kHostPage;
  if (value || last <= first || !drop_pages(first, last)) return write_pattern(to, value, width, bytes);
  return write_pattern(to, 0, 1, first - begin) &&
         write_pattern(reinterpret_cast<void*>(last), 0, 1, begin + bytes - last);
}

}  // namespace hollow
