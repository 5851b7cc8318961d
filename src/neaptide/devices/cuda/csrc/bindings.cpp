// The Python module behind the CUDA device.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "../../native/python/port_bindings.h"
#include "allocator.h"
#include "gate.h"
#include "runtime.h"

namespace py = pybind11;

namespace neaptide::cuda {
namespace {

/// A thread that waits at the gate cannot raise: torch swallows that. The interpreter raises when the op has ended.
void note_interrupts() {
  if (Py_IsInitialized() == 0) return;
  const py::gil_scoped_acquire acquire;
  if (PyErr_CheckSignals() == 0) return;
  const bool interrupt = PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) != 0;
  PyErr_Clear();
  if (interrupt) PyErr_SetInterrupt();
}

py::object* first_use = nullptr;  // never freed: the interpreter may be gone by then

void call_first_use() {
  if (Py_IsInitialized() == 0) return;
  const py::gil_scoped_acquire acquire;
  if (first_use != nullptr) (*first_use)();
}

/// Takes torch's allocator's place. `begin` is called when the program first uses CUDA, and calls start().
void prepare(const py::object& begin) {
  install_allocator();
  first_use = new py::object(begin);  // NOLINT: see there
  set_blocking(&python::without_gil);
  set_interrupts(&note_interrupts);
  Runtime::start_on_first_use(&call_first_use);
}

void start(const std::string& board, const std::string& job, double wait_seconds, bool held,
           const std::vector<std::string>& keeper_command, std::uint32_t program) {
  Runtime::start({board, job, wait_seconds, held, keeper_command, program});
  install_gate();
}

}  // namespace
}  // namespace neaptide::cuda

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  using namespace neaptide::cuda;
  neaptide::python::bind_device(
      m,
      {.port = []() -> neaptide::LaunchPort& { return Runtime::get().port(); },
       .find = []() -> neaptide::LaunchPort* {
         return Runtime::find() != nullptr ? &Runtime::find()->port() : nullptr;
       },
       .drain =
           [] {
             Runtime::get().drain();
             Runtime::get().driver().streams().start_timing();
           },
       .set_persistent = [](bool there) { set_hint(there ? neaptide::Hint::persistent : neaptide::Hint::ephemeral); },
       .persistent = [] { return hint() == neaptide::Hint::persistent; }});
  using neaptide::python::ReleaseGil;
  m.def("prepare", &prepare);
  m.def("start", &start);
  m.def("started", [] { return Runtime::find() != nullptr; });
  m.def("stop", &Runtime::stop, ReleaseGil());
  m.def("forked", &Runtime::forked);
  m.def("sms", [] { return Runtime::get().sms(); });
  m.def("count_outside", [] { Runtime::get().count_outside(); }, ReleaseGil());
  m.def("flush", [] { Runtime::get().driver().streams().flush(); }, ReleaseGil());
  m.def("owned_bytes", [] { return Runtime::get().driver().pages().owned_bytes(); });
  m.def("page_calls", [] {
    const PageCalls calls = Runtime::get().driver().pages().calls();
    py::dict seen;
    seen["made"] = calls.made;
    seen["imported"] = calls.imported;
    seen["mapped"] = calls.mapped;
    seen["unmapped"] = calls.unmapped;
    seen["reused"] = calls.reused;
    return seen;
  });
  m.def("enter_op", [](const std::string& name) { enter_op(name.c_str()); }, ReleaseGil());
  m.def("leave_op", &leave_op, ReleaseGil());
}
