// Operators for which torch has a composite kernel that would win over the fallback.
#include <ATen/ops/bernoulli.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "fallback.h"

namespace neaptide::soft {

namespace {

using at::Tensor;
using c10::DispatchKey;

/// As the CPU does it, so that the numbers are the CPU's: torch's own choice for accelerators scales in another order.
Tensor dropout(const Tensor& input, double probability, bool train) {
  TORCH_CHECK(probability >= 0 && probability <= 1, "dropout probability has to be between 0 and 1, but got ",
              probability);
  if (probability == 0 || !train || input.sym_numel() == 0) return input;
  if (probability == 1) return input.mul(at::zeros({}, input.options()));
  auto noise = at::empty_like(input).bernoulli_(1 - probability);
  noise.div_(1 - probability);
  return input.mul(noise);
}

/// The CPU kernel draws from the CPU's default generator; this one draws from the device's.
std::tuple<Tensor, Tensor> native_dropout(const Tensor& input, double probability, std::optional<bool> train) {
  if (!train.value_or(true) || probability == 0) {
    return {input.clone(), at::ones_like(input, input.options().dtype(at::kBool))};
  }
  auto mask = at::empty_like(input, input.options().dtype(at::kBool)).bernoulli_(1 - probability);
  const double scale = probability == 1 ? 0 : 1 / (1 - probability);
  return {input.mul(mask).mul_(scale), mask};
}

bool returns_view(const c10::FunctionSchema& schema) {
  for (const auto& value : schema.returns()) {
    if (value.alias_info() != nullptr && !value.alias_info()->isWrite()) return true;
  }
  return false;
}

/// Made of metadata changes or copies that this device has its own way for.
bool keeps_composite(const std::string& name) {
  for (const char* prefix :
       {"copy_", "set_", "resize", "_to_copy", "clone", "empty", "is_pinned", "_pin_memory", "_lazy"}) {
    if (name.rfind(prefix, 0) == 0) return true;
  }
  return false;
}

bool wants_override(const c10::OperatorHandle& handle, const std::string& name) {
  const auto& schema = handle.schema();
  if (handle.hasKernelForDispatchKey(DispatchKey::PrivateUse1) || returns_view(schema) || schema.arguments().empty() ||
      keeps_composite(name)) {
    return false;
  }
  // One launch for a list of tensors, though the CPU has only the composite.
  if (name.rfind("_foreach_", 0) == 0) return true;
  return handle.hasKernelForDispatchKey(DispatchKey::CPU) &&
         (handle.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
          handle.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional));
}

}  // namespace

std::size_t override_composites() {
  static auto* library = new torch::Library(torch::Library::IMPL, "aten", DispatchKey::PrivateUse1, __FILE__, __LINE__);
  auto& dispatcher = c10::Dispatcher::singleton();
  std::size_t count = 0;
  const std::string space = "aten::";
  for (const auto& operator_name : dispatcher.getAllOpNames()) {
    if (operator_name.name.rfind(space, 0) != 0) continue;
    const auto handle = dispatcher.findOp(operator_name);
    if (!handle || !handle->hasSchema()) continue;
    auto name = operator_name.name.substr(space.size());
    if (!wants_override(*handle, name)) continue;
    if (!operator_name.overload_name.empty()) name += "." + operator_name.overload_name;
    library->impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&launch>());
    ++count;
  }
  return count;
}

}  // namespace neaptide::soft

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  // The CPU's kernels for these are registered as composites themselves, so no rule finds them.
  for (const char* name :
       {"convolution", "convolution_backward", "native_layer_norm", "native_group_norm", "embedding"}) {
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&neaptide::soft::launch>());
  }
  library.impl("native_dropout", neaptide::soft::native_dropout);
  library.impl("dropout", neaptide::soft::dropout);
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, library) { library.impl("dropout", neaptide::soft::dropout); }
