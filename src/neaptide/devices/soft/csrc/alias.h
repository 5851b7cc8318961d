// CPU tensors over device memory, which is what the CPU kernels work on.
//
// An alias does not keep the memory alive: a kernel's closure needs no reference, because memory that is freed after
// the launch is only reused by work that is launched, and so runs, later on the same stream.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

namespace neaptide::soft {

inline bool is_soft(const at::Tensor& tensor) { return tensor.device().type() == c10::DeviceType::PrivateUse1; }

/// The CPU tensor over the memory of a device tensor. An undefined tensor stays undefined.
at::Tensor alias_of(const at::Tensor& tensor);

/// Turns the arguments of a device operator into those of the CPU operator.
class Aliases {
 public:
  /// Tensors become aliases (equal ones the same alias), CPU tensors are captured by value, a device becomes the CPU.
  c10::IValue convert(const c10::IValue& value);

 private:
  at::Tensor tensor(const at::Tensor& tensor);
  c10::SmallVector<std::pair<c10::TensorImpl*, at::Tensor>, 8> known_;
};

}  // namespace neaptide::soft
