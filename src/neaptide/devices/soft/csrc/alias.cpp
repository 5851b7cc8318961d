#include "alias.h"

#include <ATen/ops/clone.h>

#include "allocator.h"

namespace neaptide::soft {

at::Tensor alias_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  auto* impl = tensor.unsafeGetTensorImpl();
  auto alias = at::detail::make_tensor<c10::TensorImpl>(host_storage(impl->storage()),
                                                        c10::DispatchKeySet(c10::DispatchKey::CPU), impl->dtype());
  auto* result = alias.unsafeGetTensorImpl();
  result->set_sizes_and_strides(impl->sizes(), impl->strides(), impl->storage_offset());
  if (impl->is_wrapped_number()) result->set_wrapped_number(true);
  if (tensor.is_conj()) alias._set_conj(true);
  if (tensor.is_neg()) alias._set_neg(true);
  return alias;
}

at::Tensor Aliases::tensor(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  if (!is_soft(tensor)) {
    // torch made a wrapped number for this call only; any other host tensor may change before the kernel runs.
    if (!tensor.is_cpu() || tensor.unsafeGetTensorImpl()->is_wrapped_number()) return tensor;
    return tensor.clone();
  }
  auto* impl = tensor.unsafeGetTensorImpl();
  for (const auto& [key, alias] : known_) {
    if (key == impl) return alias;
  }
  known_.emplace_back(impl, alias_of(tensor));
  return known_.back().second;
}

c10::IValue Aliases::convert(const c10::IValue& value) {
  if (value.isTensor()) return tensor(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> result;
    const auto list = value.toTensorList();
    result.reserve(list.size());
    for (std::size_t i = 0; i < list.size(); ++i) result.push_back(tensor(list.get(i)));
    return result;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> result;
    for (const std::optional<at::Tensor>& item : value.toOptionalTensorList()) {
      result.push_back(item ? std::optional<at::Tensor>(tensor(*item)) : std::nullopt);
    }
    return result;
  }
  if (value.isDevice()) return c10::Device(c10::kCPU);
  return value;
}

}  // namespace neaptide::soft
