// The task that runs a CPU kernel for a launched operator.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <memory>
#include <vector>

#include "../../native/launch/kernel_log.h"
#include "operators.h"
#include "signature.h"
#include "stream.h"

namespace neaptide::soft {

class Kernel final : public Task {
 public:
  /// `arguments` are those of the CPU operator; `outputs` are aliases of the new returns, lists laid out flat.
  Kernel(c10::OperatorHandle handle, const Operator& op, std::shared_ptr<Signature> signature,
         torch::jit::Stack arguments, std::vector<at::Tensor> outputs);
  void run() override;
  std::uint64_t expected_ns() const override { return signature_->expected_ns(); }
  void took(std::uint64_t ns) override { signature_->took(ns); }
  /// All tensors once, and those that it changes once more.
  std::uint64_t moved_bytes() const override;

 private:
  void call();
  std::vector<at::Tensor> results();
  void store(std::vector<at::Tensor> results);

  c10::OperatorHandle handle_;
  const Operator& op_;
  std::shared_ptr<Signature> signature_;
  torch::jit::Stack stack_;
  std::vector<at::Tensor> outputs_;
  KernelRecord record_;
  bool grad_;  // gradients were enabled at the launch
  bool logged_;
};

/// Of all tensors among these values.
std::uint64_t bytes_of(at::ArrayRef<c10::IValue> values);
/// Puts a new kernel's launch into its record: what memory moved since the launch before.
KernelRecord begin_record(const std::string& name, std::uint64_t signature, std::uint32_t width);

}  // namespace neaptide::soft
