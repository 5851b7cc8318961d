#include "width.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "alias.h"
#include "signature.h"

// Exported by libtorch, which carries MKL: the thread count of MKL for the calling thread.
extern "C" int MKL_Set_Num_Threads_Local(int threads) __attribute__((weak));

namespace neaptide::soft {

namespace {

// Time on one SM that is worth waking the others for, and what one SM does in a nanosecond. Only the order of magnitude
// matters; they are constants so that a signature has the same width everywhere.
constexpr double kWideNs = 150'000;
constexpr double kBytesPerNs = 8;
constexpr double kFlopsPerNs = 40;

double bytes_of(const c10::IValue& value) {
  if (value.isTensor()) {
    const auto& tensor = value.toTensor();
    return tensor.defined() ? static_cast<double>(tensor.numel()) * static_cast<double>(tensor.itemsize()) : 0;
  }
  double bytes = 0;
  if (value.isTensorList()) {
    const auto list = value.toTensorList();
    for (std::size_t i = 0; i < list.size(); ++i) bytes += bytes_of(list.get(i));
  }
  return bytes;
}

double elements(const at::Tensor& tensor) { return static_cast<double>(tensor.numel()); }

/// Multiplications and additions of the operators that do many per element.
double flops_of(Work work, const c10::SmallVector<at::Tensor, 8>& tensors) {
  if (tensors.size() < 2) return 0;
  const auto& a = tensors[0];
  const auto& b = tensors[1];
  const auto last = [](const at::Tensor& t) { return t.dim() > 0 ? static_cast<double>(t.size(-1)) : 1; };
  switch (work) {
    case Work::elements:
      return 0;
    case Work::matrix:  // also addmm, where the first tensor is the bias
      return tensors.size() > 2 ? 2 * elements(b) * last(tensors[2]) : 2 * elements(a) * last(b);
    case Work::convolution: {  // forward: input, weight; backward: gradient, input, weight
      const bool backward = tensors.size() > 2 && tensors[2].dim() == a.dim() && a.dim() > 2;
      const auto& weight = backward ? tensors[2] : b;
      if (weight.dim() == 0 || weight.size(0) == 0) return 0;
      const double per_output = elements(weight) / static_cast<double>(weight.size(0));
      return (backward ? 4 : 2) * elements(a) * per_output;
    }
    case Work::attention:
      return a.dim() < 2 ? 0 : 4 * elements(a) * static_cast<double>(b.size(-2 + (b.dim() < 2)));
    case Work::recurrent:
      return 16 * elements(a) * last(b);
  }
  return 0;
}

}  // namespace

std::uint32_t width_of(const Operator& op, at::ArrayRef<c10::IValue> arguments, std::uint32_t most) {
  if (most <= 1) return 1;
  double bytes = 0;
  c10::SmallVector<at::Tensor, 8> tensors;
  for (const auto& value : arguments) {
    bytes += bytes_of(value);
    if (value.isTensor() && value.toTensor().defined()) tensors.push_back(value.toTensor());
  }
  const double ns = std::max(bytes / kBytesPerNs, flops_of(op.work, tensors) / kFlopsPerNs);
  return ns >= kWideNs ? most : 1;
}

void prepare_worker() {
  at::internal::lazy_init_num_threads();
  set_worker_width(1);
  // For the life of the thread: kernels work on plain CPU tensors.
  static thread_local at::AutoDispatchBelowADInplaceOrView below_autograd;
}

void set_worker_width(std::uint32_t width) {
  static thread_local std::uint32_t current = 0;
  if (current == width) return;
  current = width;
  // Not at::set_num_threads: that would also change what new host threads start with.
  omp_set_num_threads(static_cast<int>(width));
  if (MKL_Set_Num_Threads_Local != nullptr) MKL_Set_Num_Threads_Local(static_cast<int>(width));
}

void calm_idle_threads(std::uint32_t most_width) {
  if (most_width <= 1) return;
  // libgomp lets idle threads spin for milliseconds unless it manages more threads than there are processors, and reads
  // its settings when it is loaded, which is before this runs. So make it manage more: a team that sleeps for good.
  std::thread([] {
    const int threads = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)) + 1;
#pragma omp parallel num_threads(threads)
    {
      asm volatile("");
    }
    std::mutex mutex;
    std::condition_variable never;
    std::unique_lock lock(mutex);
    for (;;) never.wait(lock);
  }).detach();
}

}  // namespace neaptide::soft
