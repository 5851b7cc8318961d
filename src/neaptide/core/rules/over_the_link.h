// How much longer an op takes when bytes of its job are over the link: in host memory, which ops of the device read and
// write in place. The software GPU, the fake device and the simulator apply the same rule.
//
// Nobody says which bytes an op touches. The share of all bytes that is over the link is taken to be the share of the
// op's: an LRU of pages would differ from op to op.
#pragma once

namespace neaptide {

/// Of the link's bandwidth, what pages reach that move when a kernel needs them. A public measurement on a GTX 1080
/// gives 8.2 GB/s, where copies reach 12 (github.com/parallelArchitect/pascal-um-benchmark, "Naive UM").
constexpr double kPagingShare = 8.2 / 12;

/// Overflow. The op moves `moved` bytes, and `over` of its job's `all` bytes are over the link. In nanoseconds; the
/// bandwidth is in bytes per second.
constexpr double over_the_link_ns(double over, double all, double moved, double link_bandwidth) {
  return over <= 0 ? 0 : 1e9 * (over / all) * moved / link_bandwidth;
}

/// Paging. All jobs together have `all` bytes on a device of `budget`: the share that is not on the device is fetched
/// over the link, and as much is written back before.
constexpr double paging_ns(double all, double budget, double moved, double link_bandwidth) {
  return all <= budget ? 0 : 2e9 * ((all - budget) / all) * moved / (kPagingShare * link_bandwidth);
}

}  // namespace neaptide
