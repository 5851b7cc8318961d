// Scaled dot product attention: the CPU's own choice of kernel, and its flash kernel behind torch's hook for devices.
#include <ATen/SDPBackend.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <torch/library.h>

#include "alias.h"

namespace neaptide::soft {

namespace {

using at::Tensor;
using std::optional;

Tensor alias_with_grad(const Tensor& tensor) {
  auto alias = alias_of(tensor);
  if (tensor.requires_grad()) alias.set_requires_grad(true);
  return alias;
}

std::int64_t choose(const Tensor& query, const Tensor& key, const Tensor& value, const optional<Tensor>& mask,
                    double dropout, bool causal, optional<double> scale, bool grouped) {
  optional<Tensor> host_mask;
  if (mask && mask->defined()) host_mask = alias_with_grad(*mask);
  const auto backend = static_cast<at::SDPBackend>(at::_fused_sdp_choice(alias_with_grad(query), alias_with_grad(key),
                                                                         alias_with_grad(value), host_mask, dropout,
                                                                         causal, scale, grouped));
  return static_cast<std::int64_t>(backend == at::SDPBackend::flash_attention ? at::SDPBackend::overrideable : backend);
}

using Forward = std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor>;

Forward attend(const Tensor& query, const Tensor& key, const Tensor& value, const optional<Tensor>& bias,
               double dropout, bool causal, bool /*return_mask*/, optional<double> scale) {
  auto [output, logsumexp] =
      at::_scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout, causal, bias, scale);
  return {output, logsumexp, Tensor(), Tensor(), query.size(2), key.size(2), Tensor(), Tensor(), Tensor()};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> attend_backward(
    const Tensor& gradient, const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& bias,
    std::array<bool, 4> /*wanted*/, const Tensor& output, const Tensor& logsumexp, const Tensor& /*lengths_q*/,
    const Tensor& /*lengths_k*/, std::int64_t /*max_q*/, std::int64_t /*max_k*/, double dropout, bool causal,
    const Tensor& /*seed*/, const Tensor& /*offset*/, optional<double> scale) {
  auto [d_query, d_key, d_value] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      gradient, query, key, value, output, logsumexp, dropout, causal,
      bias.defined() ? optional<Tensor>(bias) : std::nullopt, scale);
  return {d_query, d_key, d_value, Tensor()};
}

}  // namespace
}  // namespace neaptide::soft

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &neaptide::soft::choose)
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("_fused_sdp_choice", neaptide::soft::choose);
  library.impl("_scaled_dot_product_fused_attention_overrideable", neaptide::soft::attend);
  library.impl("_scaled_dot_product_fused_attention_overrideable_backward", neaptide::soft::attend_backward);
}
