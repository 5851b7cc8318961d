// Which kernels wait before a closed gate. heavy.py has the same rule for Python.
#pragma once

#include <cstdint>

namespace neaptide {

/// A kernel is light when two like it fit on the device side by side, so a kernel of one SM of two is light, and a
/// kernel of the only SM is heavy.
constexpr bool is_heavy(std::uint32_t width, std::uint32_t sms) { return std::uint64_t{2} * width > sms; }

}  // namespace neaptide
