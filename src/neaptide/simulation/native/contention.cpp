#include "contention.h"

#include <algorithm>

namespace neaptide {
namespace {

constexpr int kResources = 4;
constexpr int kFill = 2;

// Progressive filling of the ops of one class: their rates rise together; the rate of an op stops at its upper bound,
// or when a resource that the op needs is used up. While a rate rises, its entry in `rates` is the negative of its
// upper bound. `used` is what other classes have taken. `rising` ops are of this class; `OneClass`: all are.
template <bool OneClass>
void fill_up(const Demand* demands, size_t count, size_t rising, double deadline, const Contention& contention,
             double (&used)[kResources], double* rates) {
  double reached = 0;
  while (rising > 0) {
    double sum[kResources] = {0, 0, 0, 0};
    double next = 1;
    for (size_t i = 0; i < count; ++i) {
      if (rates[i] >= 0 || (!OneClass && demands[i].deadline != deadline)) continue;
      next = std::min(next, -rates[i]);
      for (int k = 0; k < kResources; ++k) sum[k] += demands[i].share[k];
    }
    double limit[kResources];
    for (int k = 0; k < kResources; ++k) {
      limit[k] = sum[k] > 0 ? std::max((contention.capacity[k] - used[k]) / sum[k], reached) : 2;
      next = std::min(next, limit[k]);
    }
    for (size_t i = 0; i < count; ++i) {
      if (rates[i] >= 0 || (!OneClass && demands[i].deadline != deadline)) continue;
      bool stops = next >= -rates[i];
      for (int k = 0; k < kResources; ++k) stops = stops || (limit[k] <= next && demands[i].share[k] > 0);
      if (!stops) continue;
      rates[i] = next;
      --rising;
      for (int k = 0; k < kResources; ++k) used[k] += next * demands[i].share[k];
    }
    reached = next;
  }
}

double turn_of(const Demand& demand, const Contention& contention) {
  return demand.share[kFill] * std::min(contention.wave_seconds, demand.seconds);
}

void set_bounds(const Demand* demands, size_t count, const Contention& contention, double* rates) {
  double turns = 0;
  for (size_t i = 0; i < count; ++i) turns += turn_of(demands[i], contention);
  for (size_t i = 0; i < count; ++i) {
    const double wait = std::max(turns - turn_of(demands[i], contention), 0.0);
    rates[i] = -1 / (1 + wait / demands[i].seconds);
  }
}

}  // namespace

void find_rates_of_one_class(const Demand* demands, size_t count, const Contention& contention, double* rates) {
  if (count == 1) {
    rates[0] = 1;
    return;
  }
  set_bounds(demands, count, contention, rates);
  double used[kResources] = {0, 0, 0, 0};
  fill_up<true>(demands, count, count, 0, contention, used, rates);
}

void find_rates(const Demand* demands, size_t count, const Contention& contention, double* rates) {
  size_t first = 0;
  for (size_t i = 0; i < count; ++i) first += demands[i].deadline == 1;
  if (first == 0 || first == count) return find_rates_of_one_class(demands, count, contention, rates);
  set_bounds(demands, count, contention, rates);
  double used[kResources] = {0, 0, 0, 0};
  fill_up<false>(demands, count, first, 1, contention, used, rates);
  fill_up<false>(demands, count, count - first, 0, contention, used, rates);
}

}  // namespace neaptide
