#include "gate.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "../../../core/rules/heavy.h"
#include "../../native/launch/blocking.h"
#include "operators.h"
#include "runtime.h"

namespace neaptide::cuda {
namespace {

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

Operators operators;

/// Whether torch shows the arguments of ops. Two callbacks take turns; while one takes the other's place both are
/// there, and an op is never without one. Torch goes through all that are there for every function of a backward pass.
class Attention {
 public:
  void begin(const at::RecordFunctionCallback& close, const at::RecordFunctionCallback& far) {
    const std::lock_guard lock(mutex_);
    close_ = close;
    far_ = far;
    there_ = at::addGlobalCallback(close_);
  }
  void look_closely() {
    const std::lock_guard lock(mutex_);
    if (closely_) return;
    closely_ = true;
    replace(close_);
  }
  /// What `port` says is asked again with the lock held: whoever closes something looks closely afterwards.
  void look_away(const LaunchPort& port) {
    const std::lock_guard lock(mutex_);
    if (!closely_ || !port.is_free()) return;
    closely_ = false;
    replace(far_);
  }

 private:
  void replace(const at::RecordFunctionCallback& callback) {
    at::removeCallback(std::exchange(there_, at::addGlobalCallback(callback)));
  }

  std::mutex mutex_;  // a leaf, but for torch's own
  at::RecordFunctionCallback close_{nullptr}, far_{nullptr};
  at::CallbackHandle there_ = at::INVALID_CALLBACK_HANDLE;
  bool closely_ = true;
};
Attention attention;

/// One op in progress. While it lives, its thread is inside a launch, so there is one of a thread at a time.
class Op final : public at::ObserverContext {
 public:
  /// `counts`: it is taken to launch.
  Op(Runtime& runtime, bool heavy, bool counts)
      : runtime_(runtime), launch_(counts ? runtime.port().enter(heavy) : runtime.port().enter_unsure()) {
    counted_ = counts && !runtime_.capturing();
  }
  static void* operator new(std::size_t bytes);
  static void operator delete(void* op);
  /// If it is to be logged, this is what is known before it is launched.
  void log(const char* name, const Arguments& arguments, std::uint32_t width) {
    if (!counted_ || !runtime_.port().logs_kernels()) return;
    record_.emplace();
    record_->name = lasting(name);
    record_->signature = arguments.signature;
    record_->width = width;
    record_->launch_ns = now_ns();
  }

  /// The op was launched.
  void finish() {
    if (!counted_) return;
    runtime_.port().in_flight().count(1);  // not before: while the op waits for memory, nothing of it is on the device
    Streams& streams = runtime_.driver().streams();
    Streams::Clock& clock = runtime_.current_clock();
    if (!record_ || runtime_.capturing()) return streams.count_op(clock, runtime_.port().in_flight().cap());
    const ArenaStats stats = runtime_.arena().stats();
    const std::uint64_t outside = runtime_.member().outside_bytes();
    record_->needed_bytes = stats.needed + outside;
    record_->held_bytes = stats.held + outside;
    record_->stream = static_cast<std::uint32_t>(runtime_.driver().current_stream() >> 4);
    streams.log_op(clock, *record_);
  }

 private:
  Runtime& runtime_;
  Launch launch_;
  bool counted_ = false;
  std::optional<KernelRecord> record_;
};

/// Where a thread's op is: memory from the heap would cost as much as the gate. A signal's handler may launch another
/// op while one waits.
struct Place {
  alignas(Op) std::byte bytes[sizeof(Op)];
  bool taken;
};
thread_local Place place;

void* Op::operator new(std::size_t bytes) {
  Place& mine = place;
  return std::exchange(mine.taken, true) ? ::operator new(bytes) : mine.bytes;
}
void Op::operator delete(void* op) {
  Place& mine = place;
  if (op == mine.bytes)
    mine.taken = false;
  else
    ::operator delete(op);
}

/// An op whose arguments are known.
std::unique_ptr<Op> begin(Runtime& runtime, const char* name, const Arguments& arguments) {
  const std::uint32_t sms = runtime.sms(), width = width_of(arguments, sms);
  auto op = std::make_unique<Op>(runtime, is_heavy(width, sms), true);
  op->log(name, arguments, width);
  return op;
}

std::unique_ptr<at::ObserverContext> before(const at::RecordFunction& function) {
  Runtime* const runtime = Runtime::find();
  if (runtime == nullptr || Launch::active()) return nullptr;
  Operator& known = operators.of(function);
  if (known.is_view()) return nullptr;
  const Arguments arguments = look_at(function, runtime->ordinal());
  known.saw(arguments.on_device);
  if (!arguments.on_device) return nullptr;
  try {
    auto op = begin(*runtime, function.name(), arguments);
    if (runtime->port().is_free()) attention.look_away(runtime->port());
    return op;
  } catch (const LaunchRefused&) {
    return nullptr;  // torch swallows what is thrown here; the op fails when it allocates
  }
}

/// As before(), for an op whose arguments are not shown. If it has to wait, then as one that is light.
std::unique_ptr<at::ObserverContext> before_unseen(const at::RecordFunction& function) {
  Runtime* const runtime = Runtime::find();
  if (runtime == nullptr || Launch::active()) return nullptr;
  const Operator& known = operators.of(function);
  if (known.is_view()) return nullptr;
  try {
    return std::make_unique<Op>(*runtime, false, known.may_launch());
  } catch (const LaunchRefused&) {
    return nullptr;
  }
}

void after(const at::RecordFunction& /*function*/, at::ObserverContext* context) {
  if (context != nullptr) static_cast<Op*>(context)->finish();
}

thread_local std::vector<std::unique_ptr<Op>> entered;

}  // namespace

void install_gate() {
  at::RecordFunctionCallback close(&before, &after), far(&before_unseen, &after);
  for (auto* each : {&close, &far}) each->scopes({at::RecordScope::FUNCTION});
  attention.begin(close.needsInputs(true), far);
}

void look_at_arguments() { attention.look_closely(); }

void enter_op(const char* name) {
  Runtime* const runtime = Runtime::find();
  Arguments whole;
  whole.largest = std::int64_t{1} << 40;  // as wide as the device
  entered.push_back(runtime == nullptr || Launch::active() ? nullptr : begin(*runtime, name, whole));
}

void leave_op() {
  if (entered.empty()) return;
  if (entered.back() != nullptr) entered.back()->finish();
  entered.pop_back();
}

}  // namespace neaptide::cuda
