// One iteration of a job under one plan, as columns that the caller owns and keeps alive.
#pragma once

#include <cstdint>
#include <limits>

namespace neaptide {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

struct Plan {
  int64_t ops;
  const int64_t* host_ns;     // from the previous launch to this one
  const int64_t* work_ns;     // on the device, alone
  const int64_t* ends_ns;     // of each op on the time axis of the profile's curve
  const int64_t* level;       // ephemeral bytes while the op runs
  const int64_t* between;     // ephemeral bytes that live before the op is launched
  const int64_t* still_peak;  // the highest level from this op on
  const int64_t* moved_bytes;
  const double* compute;  // demands, 0..1
  const double* bandwidth;
  const double* fill;
  const uint8_t* heavy;  // waits before a closed gate
  int64_t last_forward;  // op, or -1
  int64_t persistent;
  int32_t asynchronous;  // the host launches ahead of the device
};

}  // namespace neaptide
