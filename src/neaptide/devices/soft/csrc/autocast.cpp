// Automatic mixed precision with the cast lists that torch uses for its accelerators.
#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/library.h>

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

// The macros name their library `m`.
TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  using namespace at;  // the lists name their types without it
#define NEAPTIDE_LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define NEAPTIDE_FLOAT(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define NEAPTIDE_FLOAT_TYPE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define NEAPTIDE_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_LOWER_PRECISION_FP(NEAPTIDE_LOWER)
  AT_FORALL_FP32(NEAPTIDE_FLOAT)
  AT_FORALL_FP32_SET_OPT_DTYPE(NEAPTIDE_FLOAT_TYPE)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(NEAPTIDE_PROMOTE)
#undef NEAPTIDE_LOWER
#undef NEAPTIDE_FLOAT
#undef NEAPTIDE_FLOAT_TYPE
#undef NEAPTIDE_PROMOTE
  m.impl(
      "binary_cross_entropy",
      [](const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, std::int64_t) -> at::Tensor {
        TORCH_CHECK(
            false,
            "binary_cross_entropy is unsafe under autocast; use binary_cross_entropy_with_logits or BCEWithLogitsLoss, "
            "or leave autocast around it");
      });
}
