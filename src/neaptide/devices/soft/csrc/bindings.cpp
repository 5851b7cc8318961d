// The Python module behind torch.soft.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/utils/pybind.h>

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

using ReleaseGil = py::call_guard<py::gil_scoped_release>;

void without_gil(const std::function<void()>& wait) {
  if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) {
    py::gil_scoped_release release;
    wait();
  } else {
    wait();
  }
}

Deadline after(double seconds) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
}

/// Handlers of signals run on the main thread, and only when it comes back to the interpreter: let it.
void raise_interrupts() {
  if (Py_IsInitialized() == 0) return;
  const py::gil_scoped_acquire acquire;  // torch lets go of the lock before it launches
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

void start(const std::string& board, std::uint64_t capacity, std::uint32_t sms, std::uint32_t width,
           const std::string& job, double wait_seconds) {
  set_blocking(&without_gil);
  set_interrupts(&raise_interrupts);
  calm_idle_threads(width == 1 ? 1 : sms);
  Runtime::start({board, capacity, sms, width, job, wait_seconds}, &prepare_worker, &set_worker_width);
  install_placement();
  register_hooks();
  override_composites();
}

py::dict memory() {
  const auto stats = Runtime::get().arena().stats();
  py::dict result;
  result["needed"] = stats.needed;
  result["needed_peak"] = stats.needed_peak;
  result["held"] = stats.held;
  result["held_peak"] = stats.held_peak;
  result["spare_peak"] = stats.spare_peak;
  result["allocations"] = stats.allocations;
  result["deallocations"] = stats.deallocations;
  result["needed_total"] = stats.needed_total;
  result["chunks_taken"] = stats.chunks_taken;
  result["chunks_given"] = stats.chunks_given;
  result["lease_waits"] = stats.lease_waits;
  result["out_of_memory"] = stats.out_of_memory;
  result["evicted_bytes"] = stats.evicted_bytes;
  result["live_blocks"] = stats.live_blocks;
  return result;
}

py::list series() {
  py::list result;
  for (const auto& sample : Runtime::get().arena().series()) {
    result.append(py::make_tuple(sample.time_ns, sample.needed, sample.held));
  }
  return result;
}

py::list kernel_log() {
  py::list result;
  for (const auto& record : Runtime::get().kernel_log().read()) {
    result.append(py::make_tuple(*record.name, record.signature, record.launch_ns, record.start_ns, record.end_ns,
                                 record.taken_bytes, record.given_bytes, record.scratch_bytes, record.stream,
                                 record.width));
  }
  return result;
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
  m.def("start", &start);
  m.def("stop", &Runtime::stop, ReleaseGil());
  m.def("forked", &Runtime::forked);
  m.def("synchronize", [] { Runtime::get().synchronize(); }, ReleaseGil());
  m.def("in_flight", [] { return Runtime::get().port().in_flight().count(); });
  m.def("launched", [] { return Runtime::get().port().in_flight().launched(); });
  m.def("set_in_flight_cap", [](std::uint32_t kernels) { Runtime::get().port().in_flight().set_cap(kernels); });
  m.def("in_flight_cap", [] { return Runtime::get().port().in_flight().cap(); });
  m.def("sleep_on_stream", &sleep_on_stream, ReleaseGil());
  m.def("sms", [] { return Runtime::get().sms().sms.load(); });
  m.def("width", [] { return Runtime::get().width(); });
  m.def("close_launch_gate", [] { Runtime::get().port().gates().close_launch(); });
  m.def("open_launch_gate", [] { Runtime::get().port().gates().open_launch(); });
  m.def("launch_gate_open", [] { return Runtime::get().port().gates().launch_open(); });
  m.def("close_execution_gate", [] { Runtime::get().port().gates().close_execution(); });
  m.def("open_execution_gate", [] { Runtime::get().port().gates().open_execution(); });
  m.def("execution_gate_open", [] { return Runtime::get().port().gates().execution_open(); });
  m.def("arm_iteration", [] { Runtime::get().port().gates().arm_iteration(); });
  m.def("iterations_begun", [] { return Runtime::get().port().gates().iterations_begun(); });
  m.def("iteration_began_ns", [] { return Runtime::get().port().gates().iteration_began_ns(); });
  m.def("refuse_launches", [](const std::string& reason) { Runtime::get().port().gates().refuse(reason); });
  m.def(
      "wait_for_held_launch", [](double seconds) { return Runtime::get().port().wait_for_held_launch(after(seconds)); },
      ReleaseGil());
  m.def("end_iteration", [] { Runtime::get().port().end_iteration(); });
  m.def("foresee", [](std::vector<std::uint64_t> levels, std::uint64_t kernels) {
    Runtime::get().port().expect(std::move(levels), kernels);
  });
}

void bind_reporter(py::module_& m) {
  py::class_<Reporter, std::shared_ptr<Reporter>>(m, "Reporter")
      .def(py::init([] { return Runtime::get().port().reporter(); }))
      .def("connect", &Reporter::connect, ReleaseGil())
      .def("disconnect", &Reporter::disconnect, ReleaseGil())
      .def("forget", &Reporter::forget)
      .def("send",
           [](Reporter& self, const py::bytes& frame, bool large) {
             const std::string text = frame;
             py::gil_scoped_release release;
             return self.send(text, large);
           })
      .def("send_on_stream",
           [](Reporter&, const py::bytes& frame) {
             std::string text = frame;
             py::gil_scoped_release release;
             Runtime::get().port().report_after(std::move(text));
           })
      // The duration replaces 2**62 in eight bytes at `duration_offset`; unset: at the end of the frame.
      .def(
          "end_on_stream",
          [](Reporter&, const py::bytes& frame, std::uint64_t index, std::uint64_t began_ns,
             std::optional<std::size_t> duration_offset) {
            std::string text = frame;
            py::gil_scoped_release release;
            const auto offset = duration_offset.value_or(text.size() - std::min<std::size_t>(8, text.size()));
            Runtime::get().port().report_iteration(IterationFrame(std::move(text), offset), {index, began_ns});
          },
          py::arg("frame"), py::arg("index"), py::arg("began_ns"), py::arg("duration_offset") = std::nullopt)
      .def("ended", &Reporter::ended);
}

void bind_memory(py::module_& m) {
  m.def("memory", &memory);
  m.def("reset_peaks", [] { Runtime::get().arena().reset_peaks(); });
  m.def("take_recent", [] {
    const auto recent = Runtime::get().arena().take_recent();
    return py::make_tuple(recent.peak, recent.allocated);
  });
  m.def("empty_cache", [] { return Runtime::get().arena().empty_cache(); }, ReleaseGil());
  m.def("set_reuse_at_launch", [](bool reuse) { Runtime::get().arena().set_reuse_at_launch(reuse); });
  m.def("record_series", [](std::size_t samples) { Runtime::get().arena().record_series(samples); });
  m.def("series", &series);
  m.def("check_memory", [] { Runtime::get().arena().check_integrity(); }, ReleaseGil());
  m.def("evict", [](double seconds) { return Runtime::get().port().evict(after(seconds)); }, ReleaseGil());
  m.def("restore", [](double seconds) { return Runtime::get().port().restore(after(seconds)); }, ReleaseGil());
  m.def("evicted", [] { return Runtime::get().arena().evicted(); });
  m.def("set_persistent", [](bool persistent) { set_hint(persistent ? Hint::persistent : Hint::ephemeral); });
  m.def("persistent", [] { return hint() == Hint::persistent; });
}

void bind_board(py::module_& m) {
  m.def("board_path", [] { return Runtime::get().board().path(); });
  m.def("slot", [] { return Runtime::get().member().slot(); });
  m.def("board_memory", [] {
    auto& board = Runtime::get().board();
    return py::make_tuple(board.used_bytes(), board.high_water_bytes(), board.capacity_bytes());
  });
  m.def("set_permit", [](std::uint32_t slot, std::uint32_t n) { Runtime::get().board().set_permit(slot, n); });
  m.def("set_heavy_open", [](std::uint32_t slot, bool open) { Runtime::get().board().set_heavy_open(slot, open); });
  m.def("set_slot_cap", [](std::uint32_t slot, std::uint32_t n) { Runtime::get().board().set_inflight_cap(slot, n); });
  m.def("set_ceiling",
        [](std::uint32_t slot, std::uint64_t bytes) { Runtime::get().board().set_ceiling(slot, bytes); });
  m.def("request", [](std::uint32_t slot, std::uint32_t what) {
    Runtime::get().board().set_request(slot, static_cast<Request>(what));
  });
  m.def("reap", [] { return Runtime::get().board().reap(); }, ReleaseGil());
}

}  // namespace
}  // namespace neaptide::soft

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  using namespace neaptide::soft;
  bind_execution(m);
  bind_reporter(m);
  bind_memory(m);
  bind_board(m);
  m.def("default_generator", [] { return default_generator(); });
  m.def("start_log", [](std::size_t records) {
    auto& runtime = Runtime::get();
    runtime.drain();
    runtime.kernel_log().start(records, traffic());
  });
  m.def("stop_log", [] {
    auto& runtime = Runtime::get();
    runtime.drain();
    runtime.kernel_log().stop();
  });
  m.def("kernel_log", &kernel_log);
  m.def("dropped_records", [] { return Runtime::get().kernel_log().dropped(); });
}
