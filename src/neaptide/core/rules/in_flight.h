// How many kernels a job may launch ahead of the device. in_flight.py says what cap a job has.
#pragma once

#include <cstdint>

namespace neaptide {

/// Whether another kernel may be launched, and take its memory. `pending` kernels have taken theirs and have not ended:
/// the running one and those behind it. The cap bounds those behind it, as memory curves assume. On a device where a
/// kernel takes its memory before it waits for room, that kernel counts as pending too.
constexpr bool may_launch(std::int64_t pending, std::int64_t cap) { return pending <= cap; }

}  // namespace neaptide
