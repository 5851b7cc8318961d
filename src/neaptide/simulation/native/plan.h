// One iteration of a job under one plan, as columns that the caller owns and keeps alive.
#pragma once

#include <cstdint>
#include <limits>

#include "../../devices/native/layout.h"

namespace neaptide {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// Columns: host_ns is the time from the previous launch to this one, work_ns the time on the device, alone, ends_ns the
// end of each op on the time axis of the profile's curve. level is the ephemeral bytes while the op runs, between those
// that live before it is launched, still_peak the highest level from this op on. compute, bandwidth and fill are
// demands from 0 to 1; a heavy op waits before a closed gate.
//
// last_forward is an op, or -1. asynchronous: the host launches ahead of the device.
#define NEAPTIDE_PLAN_FIELDS(FIELD)  \
  FIELD(int64_t, ops)                \
  FIELD(const int64_t*, host_ns)     \
  FIELD(const int64_t*, work_ns)     \
  FIELD(const int64_t*, ends_ns)     \
  FIELD(const int64_t*, level)       \
  FIELD(const int64_t*, between)     \
  FIELD(const int64_t*, still_peak)  \
  FIELD(const int64_t*, moved_bytes) \
  FIELD(const double*, compute)      \
  FIELD(const double*, bandwidth)    \
  FIELD(const double*, fill)         \
  FIELD(const uint8_t*, heavy)       \
  FIELD(int64_t, last_forward)       \
  FIELD(int64_t, persistent)         \
  FIELD(int32_t, asynchronous)
struct Plan {
  NEAPTIDE_PLAN_FIELDS(NEAPTIDE_MEMBER)
};

}  // namespace neaptide
