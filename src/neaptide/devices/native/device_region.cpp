#include "device_region.h"

#include <array>
#include <stdexcept>

namespace neaptide {
namespace {

constexpr std::size_t kMostRegions = 8;

struct Linked {
  std::array<const DeviceRegion*, kMostRegions> regions{};
  std::size_t count = 0;
};

/// Made on first use: regions are linked while the program is loaded, in any order.
Linked& linked() {
  static Linked all;
  return all;
}

}  // namespace

LinkedRegion::LinkedRegion(const DeviceRegion& region) {
  Linked& all = linked();
  if (region.kind == 0 || find_region(region.kind) != nullptr || all.count == kMostRegions)
    throw std::logic_error("a device region needs a kind of its own");
  all.regions[all.count++] = &region;
}

const DeviceRegion* find_region(std::uint32_t kind) {
  const Linked& all = linked();
  for (std::size_t index = 0; index < all.count; ++index)
    if (all.regions[index]->kind == kind) return all.regions[index];
  return nullptr;
}

const DeviceRegion* find_region(const std::string& name) {
  const Linked& all = linked();
  for (std::size_t index = 0; index < all.count; ++index)
    if (all.regions[index]->name == name) return all.regions[index];
  return nullptr;
}

}  // namespace neaptide
