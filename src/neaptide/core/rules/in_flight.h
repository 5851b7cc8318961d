// How many kernels a job may launch ahead of the device. in_flight.py says what cap a job has.
#pragma once

#include <cstdint>

namespace neaptide {

/// Whether another kernel may be launched, and take its memory. `pending` kernels have taken theirs and have not ended:
/// the one that runs and those after it. The cap counts those after it, as memory curves do. A device on which a kernel
/// takes its memory before it waits for its launch counts that kernel as pending.
constexpr bool may_launch(std::int64_t pending, std::int64_t cap) { return pending <= cap; }

}  // namespace neaptide
