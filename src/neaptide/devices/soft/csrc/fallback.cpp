#include "fallback.h"

#include <ATen/native/Resize.h>
#include <ATen/ops/copy.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <pybind11/pybind11.h>
#include <torch/library.h>

#include "alias.h"
#include "allocator.h"
#include "generator.h"
#include "kernel.h"
#include "runtime.h"
#include "signature.h"

namespace neaptide::soft {

namespace {

using Arguments = at::ArrayRef<c10::IValue>;

// Scratch below this is not worth a block of its own.
constexpr std::size_t kLeastScratch = 64 << 10;

void check_device(const Operator& op, const at::Tensor& tensor) {
  if (!tensor.defined() || is_soft(tensor) || op.takes_host_tensors) return;
  TORCH_CHECK(tensor.is_cpu() && tensor.dim() == 0,
              "Expected all tensors to be on the same device, but found at least two devices, soft:0 and ",
              tensor.device(), "! (when launching ", op.name, ")");
}

void check_devices(const Operator& op, Arguments arguments) {
  TORCH_CHECK_NOT_IMPLEMENTED(!op.view, "soft: ", op.name, " returns a view and has no kernel on this device");
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto& value = arguments[i];
    if (value.isTensor()) {
      const auto& tensor = value.toTensor();
      TORCH_CHECK(!op.out_argument[i] || !tensor.defined() || is_soft(tensor),
                  "Expected all tensors to be on the same device, but the output of ", op.name, " is on ",
                  tensor.device());
      check_device(op, tensor);
    } else if (value.isTensorList()) {
      const auto list = value.toTensorList();
      for (std::size_t j = 0; j < list.size(); ++j) check_device(op, list.get(j));
    }
  }
}

/// The CPU operator's arguments. `random`: the launch's turn, when it draws.
torch::jit::Stack convert(const Operator& op, Arguments arguments, const std::optional<RandomTurn>& random) {
  Aliases aliases;
  torch::jit::Stack stack;
  stack.reserve(std::max(op.arguments, op.returns));
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (static_cast<int>(i) == op.generator && random) {
      stack.emplace_back(random->host());
    } else {
      stack.push_back(aliases.convert(arguments[i]));
    }
  }
  return stack;
}

/// Replaces the arguments on the stack by the returns: `fresh` are the new ones, in order.
void push_returns(const Operator& op, torch::jit::Stack* stack, std::vector<c10::IValue> fresh) {
  std::vector<c10::IValue> returns;
  returns.reserve(op.returns);
  const auto arguments = torch::jit::last(*stack, op.arguments);
  std::size_t next = 0;
  for (const int argument : op.return_argument) {
    returns.push_back(argument >= 0 ? arguments[argument] : std::move(fresh[next++]));
  }
  torch::jit::drop(*stack, op.arguments);
  for (auto& value : returns) stack->push_back(std::move(value));
}

/// Device tensors for the new returns; `aliases` gets an alias of each.
std::vector<c10::IValue> make_returns(const Signature& signature, std::vector<at::Tensor>& aliases) {
  std::vector<c10::IValue> fresh;
  fresh.reserve(signature.returns.size());
  for (const auto& value : signature.returns) {
    c10::List<at::Tensor> list;
    for (const auto& layout : value.layouts) {
      auto tensor = layout.make();
      aliases.push_back(alias_of(tensor));
      if (value.list) {
        list.push_back(std::move(tensor));
      } else {
        fresh.emplace_back(std::move(tensor));
      }
    }
    if (value.list) fresh.emplace_back(std::move(list));
  }
  return fresh;
}

void take_turn(std::optional<RandomTurn>& random, const Operator& op, Arguments arguments, Stream& stream) {
  if (op.generator < 0) return;
  const auto& value = arguments[op.generator];
  random.emplace(soft_generator(value.isGenerator() ? std::optional(value.toGenerator()) : std::nullopt), stream);
}

void launch_asynchronously(const c10::OperatorHandle& handle, const Operator& op,
                           const std::shared_ptr<Signature>& signature, torch::jit::Stack* stack) {
  const auto arguments = torch::jit::last(*stack, op.arguments);
  std::vector<at::Tensor> outputs;
  auto fresh = make_returns(*signature, outputs);
  if (const auto scratch = signature->scratch_bytes.load(std::memory_order_relaxed); scratch >= kLeastScratch) {
    reserve_scratch(scratch);
  }
  auto& stream = Runtime::get().current();
  std::optional<RandomTurn> random;
  take_turn(random, op, arguments, stream);
  stream.push(std::make_unique<Kernel>(handle, op, signature, convert(op, arguments, random), std::move(outputs)));
  push_returns(op, stack, std::move(fresh));
}

using Copies = std::vector<std::pair<at::Tensor, at::Tensor>>;  // an alias of device memory, and what it gets

/// Makes device tensors for the real results; `copies` gets what is to be copied into them.
std::vector<c10::IValue> import_results(const Operator& op, Arguments results, Copies& copies) {
  std::vector<c10::IValue> fresh;
  const auto import = [&](const at::Tensor& result) {
    auto tensor = Layout::of(result).make();
    if (tensor.defined()) copies.emplace_back(alias_of(tensor), result);
    return tensor;
  };
  for (std::size_t i = 0; i < op.returns; ++i) {
    if (op.return_argument[i] >= 0) continue;
    if (results[i].isTensorList()) {
      c10::List<at::Tensor> list;
      const auto given = results[i].toTensorList();
      for (std::size_t j = 0; j < given.size(); ++j) list.push_back(import(given.get(j)));
      fresh.emplace_back(std::move(list));
    } else {
      fresh.push_back(results[i].isTensor() ? c10::IValue(import(results[i].toTensor())) : results[i]);
    }
  }
  return fresh;
}

/// What a synchronous run found out.
struct Observation {
  std::unique_ptr<Signature> signature;
  bool resized = false;  // an out argument
};

/// Runs the kernel now and waits: the first sight of an operator, or one whose shapes depend on data.
Observation run_synchronously(const c10::OperatorHandle& handle, const Operator& op, torch::jit::Stack* stack) {
  const auto arguments = torch::jit::last(*stack, op.arguments);
  std::optional<RandomTurn> random;
  take_turn(random, op, arguments, Runtime::get().current());
  auto results = convert(op, arguments, random);
  // Out arguments are given empty ones: the kernel sizes them, and the real ones are sized from those.
  std::vector<std::pair<at::Tensor, at::Tensor>> outs;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!op.out_argument[i] || !arguments[i].isTensor()) continue;
    const auto real = arguments[i].toTensor();
    auto stand_in = at::empty({0}, real.options().device(at::kCPU).pinned_memory(false));
    results[i] = stand_in;
    outs.emplace_back(real, stand_in);
  }
  const auto width = width_of(op, arguments, Runtime::get().width());
  run_and_wait({op.name, width, bytes_of(arguments)}, [&, grad = !op.grad_matters || c10::GradMode::is_enabled()] {
    const c10::AutoGradMode as_launched(grad);
    handle.callBoxed(results);
  });
  Observation seen;
  Copies copies;
  for (auto& [real, stand_in] : outs) {
    if (real.sizes() != stand_in.sizes()) {
      seen.resized = true;
      at::native::resize_output(real, stand_in.sizes());
    }
    copies.emplace_back(alias_of(real), stand_in);
  }
  if (!op.synchronous) seen.signature = observe(op, results);
  auto fresh = import_results(op, results, copies);
  // On the stream: a new block may be one that another thread has freed while its kernels are still to run.
  if (!copies.empty()) {
    std::uint64_t copied = 0;
    for (const auto& [target, source] : copies) copied += target.nbytes();
    launch_function({op.name, 1, copied}, [copies = std::move(copies)] {
      for (const auto& [target, source] : copies) target.copy_(source);
    });
  }
  push_returns(op, stack, std::move(fresh));
  return seen;
}

/// Reports an error of a kernel like one of any other launch: later. `inferred` says what the results would have been.
void report_later(const Operator& op, const Signature& inferred, torch::jit::Stack* stack) {
  Runtime::get().errors().put(std::current_exception());
  std::vector<at::Tensor> aliases;
  push_returns(op, stack, make_returns(inferred, aliases));
}

void keep_observed(Observation seen, std::uint32_t width, std::string key) {
  if (!seen.signature || seen.resized) return;
  seen.signature->width = width;
  keep_signature(std::move(key), std::move(seen.signature));
}

/// The first launch of an operator whose Meta kernel has an opinion: runs it to see whether that opinion can be trusted
/// from now on. An error of the kernel is then one of values.
void prove_meta(const c10::OperatorHandle& handle, const Operator& op, std::unique_ptr<Signature> inferred,
                std::string key, torch::jit::Stack* stack) {
  Observation seen;
  try {
    seen = run_synchronously(handle, op, stack);
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const pybind11::error_already_set&) {  // of a signal's handler, while the launch waited for memory
    throw;
  } catch (...) {
    report_later(op, *inferred, stack);
    return;
  }
  const bool right = seen.signature && seen.signature->returns == inferred->returns;
  op.meta = right ? Operator::Meta::trusted : Operator::Meta::wrong;
  keep_observed(std::move(seen), inferred->width, std::move(key));
}

/// Runs the kernel to see its results. Only after an error the Meta kernel is asked, whether it is one of values.
void observe_launch(const c10::OperatorHandle& handle, const Operator& op, std::string key, torch::jit::Stack* stack) {
  const auto arguments = torch::jit::last(*stack, op.arguments);
  const auto width = width_of(op, arguments, Runtime::get().width());
  try {
    keep_observed(run_synchronously(handle, op, stack), width, std::move(key));
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const pybind11::error_already_set&) {  // of a signal's handler, while the launch waited for memory
    throw;
  } catch (...) {
    const auto inferred = op.meta == Operator::Meta::wrong ? Inference{} : infer(handle, op, arguments);
    if (!inferred.signature || !inferred.resizes.empty()) throw;
    report_later(op, *inferred.signature, stack);
  }
}

}  // namespace

void run_and_wait(const Described& described, const std::function<void()>& kernel) {
  auto& runtime = Runtime::get();
  auto& stream = runtime.current();
  std::exception_ptr error;
  launch_function(described, [&] {
    try {
      kernel();
    } catch (...) {
      error = std::current_exception();
    }
  });
  stream.drain();
  if (error) std::rethrow_exception(error);
}

void launch_function(const Described& described, std::function<void()> kernel) {
  class Function final : public Task {
   public:
    Function(const Described& described, std::function<void()> function)
        : Task(described.width),
          function_(std::move(function)),
          moved_bytes_(described.moved_bytes),
          logged_(Runtime::get().port().logs_kernels()) {
      if (logged_) record_ = begin_record(described.name, 0, described.width);
    }
    std::uint64_t moved_bytes() const override { return moved_bytes_; }
    void run() override {
      if (logged_) record_.start_ns = now_ns();
      function_();
      if (!logged_) return;
      record_.end_ns = now_ns();
      Runtime::get().port().log(record_);
    }

   private:
    std::function<void()> function_;
    std::uint64_t moved_bytes_;
    KernelRecord record_;
    bool logged_;
  };
  Runtime::get().current().push(std::make_unique<Function>(described, std::move(kernel)));
}

void launch(const c10::OperatorHandle& handle, torch::jit::Stack* stack) {
  auto& runtime = Runtime::get();
  const Launch launch = runtime.begin_launch();
  runtime.errors().rethrow();
  const auto& op = describe(handle);
  const auto arguments = torch::jit::last(*stack, op.arguments);
  check_devices(op, arguments);
  if (op.synchronous) {
    run_synchronously(handle, op, stack);
    return;
  }
  for (;;) {
    const SignatureKey key(op, arguments);
    if (!key.usable()) {
      run_synchronously(handle, op, stack);
      return;
    }
    if (auto known = find_signature(key)) return launch_asynchronously(handle, op, known, stack);
    const std::string bytes(key.bytes());
    if (op.meta != Operator::Meta::wrong && meta_is_cheap()) {
      auto inferred = infer(handle, op, arguments);
      if (!inferred.resizes.empty() && inferred.signature) {
        for (const auto& [i, sizes] : inferred.resizes) at::native::resize_output(arguments[i].toTensor(), sizes);
        continue;  // with out arguments of the right size it is another signature
      }
      if (inferred.signature) {
        inferred.signature->width = width_of(op, arguments, runtime.width());
        if (op.meta == Operator::Meta::trusted || inferred.signature->returns.empty()) {
          return launch_asynchronously(handle, op, keep_signature(bytes, std::move(inferred.signature)), stack);
        }
        return prove_meta(handle, op, std::move(inferred.signature), bytes, stack);
      }
    }
    observe_launch(handle, op, bytes, stack);
    return;
  }
}

}  // namespace neaptide::soft

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&neaptide::soft::launch>());
}
