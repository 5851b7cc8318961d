// How fast ops run side by side. contention.py states the rule and is the reference.
#pragma once

#include <cstddef>

#include "../../devices/native/layout.h"

namespace neaptide {

struct Demand {
  double share[4];  // of compute, bandwidth, SMs and the link, when alone
  double seconds;   // on the device, when alone; more than 0
  double deadline;  // 1: of a deadline job, 0: of another
};

using Capacities = double[4];  // of compute, bandwidth, SMs and the link
#define NEAPTIDE_CONTENTION_FIELDS(FIELD) \
  FIELD(::neaptide::Capacities, capacity) \
  FIELD(double, wave_seconds)
struct Contention {
  NEAPTIDE_CONTENTION_FIELDS(NEAPTIDE_MEMBER)
};

// Writes a rate in (0, 1] for each of `count` ops.
void find_rates(const Demand* demands, size_t count, const Contention& contention, double* rates);
/// The same where no op, or every op, is of a deadline job.
void find_rates_of_one_class(const Demand* demands, size_t count, const Contention& contention, double* rates);

}  // namespace neaptide
