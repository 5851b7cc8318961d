// Reads and writes as the device does them: a bad address is an answer here, not a signal.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hollow {

/// Each returns false if an address was bad; what was written before stays.
bool copy_bytes(void* to, const void* from, std::size_t bytes);
bool copy_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
               std::size_t height);
/// Repeats the low `width` (1, 2, 4 or 8) bytes of the value.
bool fill(void* to, std::uint64_t value, std::size_t width, std::size_t count);

}  // namespace hollow
