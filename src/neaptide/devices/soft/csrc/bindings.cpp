// The Python module behind torch.soft.
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/utils/pybind.h>
#include <unistd.h>

#include <atomic>
#include <optional>

#include "../../native/python/port_bindings.h"
#include "allocator.h"
#include "fallback.h"
#include "generator.h"
#include "hooks.h"
#include "placement.h"
#include "runtime.h"
#include "signature.h"
#include "width.h"

namespace py = pybind11;

namespace neaptide::soft {

namespace {

using python::ReleaseGil;

/// An operator launches below autograd. What a signal's handler calls meanwhile must not begin there.
class AboveAutograd {
 public:
  AboveAutograd() {
    if (c10::InferenceMode::is_enabled()) return;
    const auto now = c10::impl::tls_local_dispatch_key_set();
    above_.emplace(now.included_.add(c10::DispatchKey::ADInplaceOrView),
                   now.excluded_ - c10::autograd_dispatch_keyset_with_ADInplaceOrView);
  }

 private:
  std::optional<c10::impl::ForceDispatchKeyGuard> above_;
};

/// Handlers of signals run on the main thread, and only when it comes back to the interpreter: let it.
void raise_interrupts() {
  if (getpid() != gettid() || Py_IsInitialized() == 0) return;
  const py::gil_scoped_acquire acquire;  // torch lets go of the lock before it launches
  const AboveAutograd above_autograd;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

py::object* first_use = nullptr;  // never freed: the interpreter may be gone by then

void call_first_use() {
  if (Py_IsInitialized() == 0) return;
  const py::gil_scoped_acquire acquire;
  (*first_use)();
}

bool compiler_is_loaded() {
  static std::atomic<bool> loaded{false};
  if (loaded || Py_IsInitialized() == 0) return loaded;
  const py::gil_scoped_acquire acquire;
  loaded = PyDict_GetItemString(PyImport_GetModuleDict(), "torch._dynamo") != nullptr;
  return loaded;
}

/// Makes the device known to torch. `begin` is called at its first use, and calls start().
void prepare(const py::object& begin) {
  first_use = new py::object(begin);  // NOLINT: see there
  set_blocking(&python::without_gil);
  set_interrupts(&raise_interrupts);
  set_meta_is_cheap(&compiler_is_loaded);
  install_placement();
  register_hooks();
  override_composites();
  Runtime::start_on_first_use(&call_first_use);
}

void start(const std::string& board, bool makes_board, std::uint64_t capacity, std::uint32_t sms, std::uint32_t width,
           const std::string& job, double wait_seconds, double link_bandwidth, bool held) {
  calm_idle_threads(width == 1 ? 1 : sms);
  Runtime::start({board, makes_board, capacity, sms, width, job, wait_seconds, link_bandwidth, held}, &prepare_worker,
                 &set_worker_width);
}

/// Makes the current stream stand still for a while, without SMs.
void sleep_on_stream(double seconds) {
  class Sleep final : public Task {
   public:
    explicit Sleep(double seconds) : Task(0), seconds_(seconds) {}
    void run() override { std::this_thread::sleep_for(std::chrono::duration<double>(seconds_)); }
    bool waits() const override { return true; }

   private:
    double seconds_;
  };
  Runtime::get().current().push(std::make_unique<Sleep>(seconds));
}

void bind_execution(py::module_& m) {
  m.def("prepare", &prepare);
  m.def("start", &start);
  m.def("started", [] { return Runtime::find() != nullptr; });
  m.def("stop", &Runtime::stop, ReleaseGil());
  m.def("forked", &Runtime::forked);
  m.def("synchronize", &synchronize, ReleaseGil());
  m.def("sleep_on_stream", &sleep_on_stream, ReleaseGil());
  m.def("sms", [] { return sms_of(Runtime::get().sms()); });
  m.def("width", [] { return Runtime::get().width(); });
}

}  // namespace
}  // namespace neaptide::soft

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  using namespace neaptide::soft;
  neaptide::python::bind_device(
      m,
      {.port = []() -> neaptide::LaunchPort& { return Runtime::get().port(); },
       .find = []() -> neaptide::LaunchPort* {
         return Runtime::find() != nullptr ? &Runtime::find()->port() : nullptr;
       },
       .drain = [] { Runtime::get().drain(); },
       .set_persistent = [](bool there) { set_hint(there ? neaptide::Hint::persistent : neaptide::Hint::ephemeral); },
       .persistent = [] { return hint() == neaptide::Hint::persistent; }});
  bind_execution(m);
  m.def("default_generator", [] { return default_generator(); });
}
