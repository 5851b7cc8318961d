#include "gate.h"

#include <ATen/record_function.h>
#include <Python.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "../../../core/rules/heavy.h"
#include "../../native/launch/blocking.h"
#include "runtime.h"

namespace neaptide::cuda {
namespace {

constexpr std::uint32_t kBatch = 8;            // ops that one event marks, at most
constexpr std::int64_t kElementsPerSm = 1024;  // a block of threads

/// Names live as long as the process, because records of the log refer to them.
const std::string* lasting(const char* name) {
  static std::mutex mutex;
  static auto& names = *new std::unordered_set<std::string>;
  const std::lock_guard lock(mutex);
  return &*names.insert(name).first;
}

/// What an op's arguments say of it.
struct Arguments {
  bool on_device = false;
  std::int64_t largest = 0;  // elements of its largest tensor
  std::uint64_t signature = 0;

  void see(const at::Tensor& tensor, int ordinal) {
    if (!tensor.defined()) return;
    if (tensor.is_cuda() && tensor.device().index() == ordinal) on_device = true;
    const std::int64_t elements = tensor.numel();
    largest = std::max(largest, elements);
    mix(static_cast<std::uint64_t>(elements) ^ static_cast<std::uint64_t>(tensor.scalar_type()) << 56);
  }
  void mix(std::uint64_t value) { signature = (signature ^ value) * 0x9e3779b97f4a7c15; }
};

Arguments look_at(const at::RecordFunction& function, int ordinal) {
  Arguments seen;
  for (const c10::IValue& value : function.inputs()) {
    if (value.isTensor()) {
      seen.see(value.toTensor(), ordinal);
    } else if (value.isTensorList()) {
      for (const c10::IValue& item : value.toListRef()) seen.see(item.toTensor(), ordinal);
    } else if (value.isDevice()) {
      const c10::Device device = value.toDevice();
      if (device.is_cuda() && (device.index() == ordinal || device.index() < 0)) seen.on_device = true;
    }
  }
  return seen;
}

/// How many SMs an op can use, judged by its largest argument: its kernels are not known before they are launched.
std::uint32_t width_of(const Arguments& arguments, std::uint32_t sms) {
  const std::int64_t blocks = (arguments.largest + kElementsPerSm - 1) / kElementsPerSm;
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(blocks, 1, sms));
}

/// One op in progress. While it lives, its thread is inside a launch.
class Op final : public at::ObserverContext {
 public:
  Op(Runtime& runtime, const char* name, const Arguments& arguments)
      : runtime_(runtime),
        width_(width_of(arguments, runtime.sms())),
        launch_(runtime.port().enter(is_heavy(width_, runtime.sms()))) {
    if (runtime_.capturing()) return;
    counted_ = true;
    if (!runtime_.port().logs_kernels()) return;
    record_.name = lasting(name);
    record_.signature = arguments.signature;
    record_.width = width_;
    record_.launch_ns = now_ns();
  }

  /// The op was launched.
  void finish() {
    if (!counted_) return;
    runtime_.port().launched();  // not before: while the op waits for memory, nothing of it is on the device
    const StreamId stream = runtime_.driver().current_stream();
    Streams& streams = runtime_.driver().streams();
    if (record_.name == nullptr || runtime_.capturing()) {
      const std::uint32_t cap = runtime_.port().in_flight().cap();
      streams.count_op(stream, std::clamp(cap / 4, 1U, kBatch));
      return;
    }
    const ArenaStats stats = runtime_.arena().stats();
    const std::uint64_t outside = runtime_.member().outside_bytes();
    record_.needed_bytes = stats.needed + outside;
    record_.held_bytes = stats.held + outside;
    record_.stream = static_cast<std::uint32_t>(stream >> 4);
    streams.log_op(stream, record_);
  }

 private:
  Runtime& runtime_;
  const std::uint32_t width_;
  Launch launch_;
  bool counted_ = false;
  KernelRecord record_;
};

std::unique_ptr<at::ObserverContext> before(const at::RecordFunction& function) {
  Runtime* const runtime = Runtime::find();
  if (runtime == nullptr || Launch::active()) return nullptr;
  const Arguments arguments = look_at(function, runtime->ordinal());
  if (!arguments.on_device) return nullptr;
  try {
    return std::make_unique<Op>(*runtime, function.name(), arguments);
  } catch (const LaunchRefused&) {
    return nullptr;  // torch swallows what is thrown here; the op fails when it allocates
  }
}

void after(const at::RecordFunction& /*function*/, at::ObserverContext* context) {
  if (context != nullptr) static_cast<Op*>(context)->finish();
}

thread_local std::vector<std::unique_ptr<Op>> entered;

}  // namespace

void install_gate() {
  static const at::CallbackHandle handle = at::addGlobalCallback(
      at::RecordFunctionCallback(&before, &after).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
  static_cast<void>(handle);
}

void enter_op(const char* name) {
  Runtime* const runtime = Runtime::find();
  Arguments whole;
  whole.largest = std::int64_t{1} << 40;  // as wide as the device
  entered.push_back(runtime == nullptr || Launch::active() ? nullptr : std::make_unique<Op>(*runtime, name, whole));
}

void leave_op() {
  if (entered.empty()) return;
  if (entered.back() != nullptr) entered.back()->finish();
  entered.pop_back();
}

}  // namespace neaptide::cuda
