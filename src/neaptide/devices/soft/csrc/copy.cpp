// Copies between host and device, and numbers read back.
//
// To the device: a pinned tensor is read when the copy runs if the copy is non-blocking; else a small one is captured
// at launch, so the copy never waits, and a large one is waited for, as on CUDA. To the host: waited for, unless
// non-blocking into pinned memory.
#include <ATen/NativeFunctions.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>

#include "alias.h"
#include "fallback.h"
#include "runtime.h"

namespace neaptide::soft {

namespace {

using at::Tensor;

const std::string kCopy = "aten::copy_";  // in the kernel log

constexpr std::size_t kCaptureBytes = 1 << 20;
// Up to here the calling thread copies itself, which is cheaper than waking the worker.
constexpr std::size_t kInlineBytes = 64 << 10;
constexpr double kWideCopyBytes = 4 << 20;

std::uint32_t copy_width(const Tensor& tensor) {
  return static_cast<double>(tensor.nbytes()) >= kWideCopyBytes ? Runtime::get().width() : 1;
}

void to_device(const Tensor& source, const Tensor& target, bool non_blocking) {
  auto alias = alias_of(target);
  const Described copy{kCopy, copy_width(target), alias.nbytes()};
  if (non_blocking && source.is_pinned()) {
    launch_function(copy, [source, alias] { alias.copy_(source); });
  } else if (source.nbytes() <= kCaptureBytes) {
    launch_function(copy, [captured = source.clone(), alias] { alias.copy_(captured); });
  } else {
    run_and_wait(copy, [&] { alias.copy_(source); });
  }
}

void to_host(const Tensor& source, const Tensor& target, bool non_blocking) {
  auto alias = alias_of(source);
  const Described copy{kCopy, copy_width(source), alias.nbytes()};
  auto& runtime = Runtime::get();
  if (non_blocking && target.is_pinned()) {
    launch_function(copy, [target, alias] { target.copy_(alias); });
    return;
  }
  if (source.nbytes() <= kInlineBytes) {
    runtime.current().drain();
    runtime.errors().rethrow();
    target.copy_(alias);
    return;
  }
  run_and_wait(copy, [&] { target.copy_(alias); });
  runtime.errors().rethrow();
}

Tensor copy_from(const Tensor& source, const Tensor& target, bool non_blocking) {
  auto& runtime = Runtime::get();
  const Launch launch = runtime.begin_launch();
  runtime.errors().rethrow();
  if (source.numel() == 0 && target.numel() == 0) return target;
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  if (is_soft(source) && is_soft(target)) {
    launch_function({kCopy, copy_width(target), source.nbytes() + target.nbytes()},
                    [from = alias_of(source), to = alias_of(target)] { to.copy_(from); });
  } else if (is_soft(target)) {
    to_device(source, target, non_blocking);
  } else {
    to_host(source, target, non_blocking);
  }
  return target;
}

Tensor copy_from_and_resize(const Tensor& source, const Tensor& target) {
  at::native::resize_(target, source.sizes(), std::nullopt);
  return copy_from(source, target, false);
}

at::Scalar read_number(const Tensor& self) {
  auto& runtime = Runtime::get();
  const Launch launch = runtime.begin_launch();
  runtime.current().drain();
  runtime.errors().rethrow();
  return at::native::_local_scalar_dense_cpu(alias_of(self));
}

}  // namespace
}  // namespace neaptide::soft

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("_copy_from", neaptide::soft::copy_from);
  library.impl("_copy_from_and_resize", neaptide::soft::copy_from_and_resize);
  library.impl("_local_scalar_dense", neaptide::soft::read_number);
}

// A lazily conjugated or negated source keeps its bit on the alias; resolving it here would copy, and so recurse.
TORCH_LIBRARY_IMPL(aten, Conjugate, library) { library.impl("_copy_from", torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, Negative, library) { library.impl("_copy_from", torch::CppFunction::makeFallthrough()); }
