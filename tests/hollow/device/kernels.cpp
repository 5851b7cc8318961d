#include "kernels.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "access.h"

namespace hollow {
namespace {

constexpr double kCyclesPerNano = 1.41;  // the clock rate that the device reports

std::size_t width_of(std::string_view type) {  // of a mangled type
  constexpr std::string_view kBfloat = "N3c108BFloat16E", kHalf = "N3c104HalfE";
  if (type.substr(0, kBfloat.size()) == kBfloat || type.substr(0, kHalf.size()) == kHalf) return 2;
  if (type.size() < 2 || type[1] != 'E') return 0;
  switch (type[0]) {
    case 'f':
    case 'i':
    case 'j':
      return 4;
    case 'd':
    case 'l':
    case 'm':
      return 8;
    case 's':
    case 't':
      return 2;
    case 'a':
    case 'h':
    case 'b':
      return 1;
    default:
      return 0;
  }
}

// at::native::vectorized_elementwise_kernel<N, at::native::FillFunctor<T>, std::array<char*, 1>>
std::size_t fill_width(const std::string& mangled) {
  constexpr std::string_view kKernel = "vectorized_elementwise_kernel", kFunctor = "ENS0_11FillFunctorI";
  const std::size_t kernel = mangled.find(kKernel);
  if (kernel == std::string::npos) return 0;
  const std::size_t functor = mangled.find(kFunctor, kernel);
  if (functor == std::string::npos) return 0;
  return width_of(std::string_view(mangled).substr(functor + kFunctor.size()));
}

}  // namespace

Kernel describe_kernel(std::string mangled) {
  const std::size_t width = fill_width(mangled);
  const bool spins = mangled.find("11spin_kernelEl") != std::string::npos;
  return {std::move(mangled), width, spins};
}

Op launch_of(const Kernel& kernel, void** arguments) {
  Op op;
  op.duration = config().kernel;
  if (kernel.spins) {
    const auto cycles = static_cast<double>(*static_cast<std::int64_t*>(arguments[0]));
    op.duration = std::max(op.duration, static_cast<Nanos>(cycles / kCyclesPerNano));
  }
  if (!kernel.fill_width) return op;
  // (int count, FillFunctor<T> value, std::array<char*, 1> to)
  const auto count = static_cast<std::size_t>(*static_cast<int*>(arguments[0]));
  std::uint64_t value = 0;
  std::memcpy(&value, arguments[1], kernel.fill_width);
  void* to = *static_cast<void**>(arguments[2]);
  op.work = [=, width = kernel.fill_width] { return fill(to, value, width, count); };
  return op;
}

Op library_kernel(double flops) {
  Op op;
  const double least = config().flops_per_nano > 0 ? flops / config().flops_per_nano : 0;
  op.duration = std::max(config().kernel, static_cast<Nanos>(least));
  return op;
}

}  // namespace hollow
