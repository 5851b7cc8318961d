// What the results of a launch look like: by the Meta kernel before the kernel runs, or by looking at real results.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_strided.h>

#include "signature.h"

namespace neaptide::soft {

namespace {

at::Tensor to_meta(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  auto meta =
      at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta).pinned_memory(false));
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) meta.unsafeGetTensorImpl()->set_wrapped_number(true);
  if (tensor.is_conj()) meta._set_conj(true);
  if (tensor.is_neg()) meta._set_neg(true);
  return meta;
}

c10::IValue to_meta(const c10::IValue& value) {
  if (value.isTensor()) return to_meta(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> result;
    const auto list = value.toTensorList();
    for (std::size_t i = 0; i < list.size(); ++i) result.push_back(to_meta(list.get(i)));
    return result;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> result;
    for (const std::optional<at::Tensor>& item : value.toOptionalTensorList()) {
      result.push_back(item ? std::optional<at::Tensor>(to_meta(*item)) : std::nullopt);
    }
    return result;
  }
  if (value.isDevice()) return c10::Device(at::kMeta);
  if (value.isGenerator()) return {};
  return value;
}

bool (*is_cheap)() = [] { return true; };

}  // namespace

void set_meta_is_cheap(bool (*asked)()) { is_cheap = asked; }

bool meta_is_cheap() { return is_cheap(); }

Inference infer(const c10::OperatorHandle& handle, const Operator& op, at::ArrayRef<c10::IValue> arguments) {
  torch::jit::Stack stack;
  stack.reserve(arguments.size());
  try {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    for (const auto& value : arguments) stack.push_back(to_meta(value));
    handle.callBoxed(stack);
  } catch (const std::exception&) {
    return {};
  }
  Inference result;
  for (std::size_t i = 0; i < op.returns; ++i) {
    const int argument = op.return_argument[i];
    if (argument < 0 || !op.out_argument[argument] || !arguments[argument].isTensor()) continue;
    const auto wanted = stack[i].toTensor().sizes();
    if (wanted != arguments[argument].toTensor().sizes()) result.resizes.emplace_back(argument, wanted.vec());
  }
  result.signature = observe(op, stack);
  return result;
}

std::unique_ptr<Signature> observe(const Operator& op, at::ArrayRef<c10::IValue> results) {
  auto signature = std::make_unique<Signature>();
  for (std::size_t i = 0; i < op.returns; ++i) {
    if (op.return_argument[i] >= 0) continue;
    NewReturn value;
    if (results[i].isTensorList()) {
      value.list = true;
      const auto list = results[i].toTensorList();
      for (std::size_t j = 0; j < list.size(); ++j) value.layouts.push_back(Layout::of(list.get(j)));
    } else {
      value.layouts.push_back(Layout::of(results[i].isTensor() ? results[i].toTensor() : at::Tensor()));
    }
    signature->returns.push_back(std::move(value));
  }
  return signature;
}

}  // namespace neaptide::soft
