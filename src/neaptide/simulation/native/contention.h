// How fast ops run side by side. contention.py states the rule and is the reference.
#pragma once

#include <cstddef>

namespace neaptide {

struct Demand {
  double share[4];  // of compute, bandwidth, SMs and the link, when alone
  double seconds;   // on the device, when alone; more than 0
};

struct Contention {
  double capacity[4];
  double wave_seconds;
};

// Writes a rate in (0, 1] for each of `count` ops.
void find_rates(const Demand* demands, size_t count, const Contention& contention, double* rates);

}  // namespace neaptide
