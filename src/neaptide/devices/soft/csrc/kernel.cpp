#include "kernel.h"

#include <ATen/ops/clone.h>
#include <ATen/ops/copy.h>
#include <ATen/ops/zero.h>
#include <c10/core/GradMode.h>

#include "allocator.h"
#include "placement.h"
#include "runtime.h"

namespace neaptide::soft {

namespace {

bool same_memory(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() && b.defined() && a.storage().data() != nullptr && a.storage().data() == b.storage().data();
}

}  // namespace

KernelRecord begin_record(const std::string& name, std::uint64_t signature, std::uint32_t width) {
  KernelRecord record;
  const auto memory = Runtime::get().arena().stats();
  record.name = &name;
  record.signature = signature;
  record.launch_ns = now_ns();
  record.needed_bytes = memory.needed;
  record.held_bytes = memory.held + memory.over;
  record.stream = static_cast<std::uint32_t>(HostDriver::current());
  record.width = width;
  return record;
}

Kernel::Kernel(c10::OperatorHandle handle, const Operator& op, std::shared_ptr<Signature> signature,
               torch::jit::Stack arguments, std::vector<at::Tensor> outputs)
    : Task(signature->width),
      handle_(std::move(handle)),
      op_(op),
      signature_(std::move(signature)),
      stack_(std::move(arguments)),
      outputs_(std::move(outputs)),
      grad_(c10::GradMode::is_enabled()),
      logged_(Runtime::get().port().logs_kernels()) {
  if (logged_) record_ = begin_record(op_.name, signature_->hash, width());
}

std::uint64_t bytes_of(at::ArrayRef<c10::IValue> values) {
  std::uint64_t bytes = 0;
  for (const auto& value : values) {
    if (value.isTensor()) {
      if (const auto& tensor = value.toTensor(); tensor.defined()) bytes += tensor.nbytes();
    } else if (value.isTensorList()) {
      const auto list = value.toTensorList();
      for (std::size_t i = 0; i < list.size(); ++i)
        if (const at::Tensor tensor = list.get(i); tensor.defined()) bytes += tensor.nbytes();
    }
  }
  return bytes;
}

std::uint64_t Kernel::moved_bytes() const {
  std::uint64_t bytes = bytes_of(stack_);
  for (const auto& output : outputs_)
    if (output.defined()) bytes += output.nbytes();
  for (const int argument : op_.return_argument)
    if (argument >= 0 && !op_.out_argument[argument]) bytes += bytes_of({stack_[argument]});
  return bytes;
}

void Kernel::run() {
  if (logged_) record_.start_ns = now_ns();
  call();
  if (!outputs_.empty()) store(results());
  if (logged_) {
    record_.end_ns = now_ns();
    record_.scratch_bytes = signature_->scratch_bytes.load(std::memory_order_relaxed);
    Runtime::get().port().log(record_);
  }
}

void Kernel::call() {
  Placement placement;
  for (const auto& output : outputs_) {
    if (output.defined() && output.numel() > 0)
      placement.offer(output.storage().mutable_data(), output.storage().nbytes());
  }
  {
    const c10::AutoGradMode as_launched(!op_.grad_matters || grad_);
    handle_.callBoxed(stack_);
  }
  if (const auto bytes = placement.scratch_bytes(); bytes > signature_->scratch_bytes.load(std::memory_order_relaxed)) {
    signature_->scratch_bytes.store(bytes, std::memory_order_relaxed);
  }
}

std::vector<at::Tensor> Kernel::results() {
  std::vector<at::Tensor> results;
  results.reserve(outputs_.size());
  for (std::size_t i = 0; i < op_.returns; ++i) {
    if (op_.return_argument[i] >= 0) continue;
    if (stack_[i].isTensorList()) {
      const auto list = stack_[i].toTensorList();
      for (std::size_t j = 0; j < list.size(); ++j) results.push_back(list.get(j));
    } else {
      results.push_back(stack_[i].isTensor() ? stack_[i].toTensor() : at::Tensor());
    }
  }
  return results;
}

void Kernel::store(std::vector<at::Tensor> results) {
  TORCH_CHECK(results.size() == outputs_.size(), "soft: ", op_.name, " returned ", results.size(),
              " tensors where its Meta kernel promised ", outputs_.size());
  // A result may lie in the block of another one: move such results away before any block is written.
  for (std::size_t i = 0; i < results.size(); ++i) {
    for (std::size_t j = 0; j < outputs_.size(); ++j) {
      if (i != j && same_memory(results[i], outputs_[j])) {
        results[i] = results[i].clone();
        break;
      }
    }
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    auto& output = outputs_[i];
    const auto& result = results[i];
    if (!output.defined()) continue;
    if (!result.defined() || (result.numel() == 0 && output.numel() > 0)) {
      output.zero_();  // the kernel returns less than Meta promised, and the program reads none of it
      continue;
    }
    TORCH_CHECK(result.sizes() == output.sizes() && result.scalar_type() == output.scalar_type(), "soft: ", op_.name,
                " returned ", result.sizes(), " where its Meta kernel promised ", output.sizes());
    if (!same_memory(result, output)) {
      output.copy_(result);
    } else if (result.strides() != output.strides() || result.storage_offset() != output.storage_offset()) {
      output.copy_(result.clone());
    }
  }
}

}  // namespace neaptide::soft
