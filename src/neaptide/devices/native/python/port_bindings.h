// The launch layer of a device as a Python module's functions: every device in C++ over torch has the same ones.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../launch/blocking.h"
#include "../launch/launch_port.h"

namespace neaptide::python {

namespace py = pybind11;
using ReleaseGil = py::call_guard<py::gil_scoped_release>;

/// How the functions find the device of this process.
struct Device {
  LaunchPort& (*port)();  // starts the device or throws
  LaunchPort* (*find)();  // null when it has not started or was stopped
  void (*drain)();        // waits for what was launched
  void (*set_persistent)(bool);
  bool (*persistent)();
};

inline void without_gil(const std::function<void()>& wait) {
  if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) {
    py::gil_scoped_release release;
    wait();
  } else {
    wait();
  }
}

inline Deadline after(double seconds) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
}

inline py::dict memory(const Device& device) {
  LaunchPort* const port = device.find();
  const auto stats = port != nullptr ? port->arena().stats() : ArenaStats{};
  py::dict result;
  result["needed"] = stats.needed;
  result["needed_peak"] = stats.needed_peak;
  result["held"] = stats.held;
  result["held_peak"] = stats.held_peak;
  result["over"] = stats.over;
  result["over_peak"] = stats.over_peak;
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
  result["outside"] = port != nullptr ? port->member().outside_bytes() : 0;  // leased for memory of no arena
  return result;
}

inline py::list series(const Device& device) {
  py::list result;
  for (const auto& sample : device.port().arena().series()) {
    result.append(py::make_tuple(sample.time_ns, sample.needed, sample.held));
  }
  return result;
}

inline KernelLog& log_of(const Device& device, bool measuring) {
  return measuring ? device.port().measuring_log() : device.port().kernel_log();
}

inline py::list kernel_log(const Device& device, bool measuring) {
  py::list result;
  for (const auto& record : log_of(device, measuring).read()) {
    result.append(py::make_tuple(*record.name, record.signature, record.launch_ns, record.start_ns, record.end_ns,
                                 record.needed_bytes, record.held_bytes, record.scratch_bytes, record.stream,
                                 record.width));
  }
  return result;
}

inline void bind_launching(py::module_& m, const Device& device) {
  m.def("in_flight", [=] { return device.port().in_flight().count(); });
  m.def("launched", [=] { return device.port().in_flight().launched(); });
  m.def("set_in_flight_cap", [=](std::uint32_t kernels) { device.port().in_flight().set_cap(kernels); });
  m.def("in_flight_cap", [=] { return device.port().in_flight().cap(); });
  m.def("close_launch_gate", [=] { device.port().hold_launches(); });
  m.def("open_launch_gate", [=] { device.port().gates().open_launch(); });
  m.def("launch_gate_open", [=] { return device.port().gates().launch_open(); });
  m.def("close_execution_gate", [=] { device.port().gates().close_execution(); });
  m.def("open_execution_gate", [=] { device.port().gates().open_execution(); });
  m.def("execution_gate_open", [=] { return device.port().gates().execution_open(); });
  m.def("arm_iteration", [=] { device.port().arm_iteration(); });
  m.def("disarm_iteration", [=] { return device.port().disarm_iteration(); });
  m.def("iterations_begun", [=] { return device.port().gates().iterations_begun(); });
  m.def("iteration_began_ns", [=] { return device.port().gates().iteration_began_ns(); });
  m.def("refuse_launches", [=](const std::string& reason) { device.port().gates().refuse(reason); });
  m.def(
      "wait_for_held_launch", [=](double seconds) { return device.port().wait_for_held_launch(after(seconds)); },
      ReleaseGil());
  m.def("end_iteration", [=] { device.port().end_iteration(); });
  m.def("expect", [=](std::vector<std::uint64_t> levels, std::uint64_t kernels) {
    device.port().expect(std::move(levels), kernels);
  });
}

inline void bind_reporter(py::module_& m, const Device& device) {
  py::class_<Reporter, std::shared_ptr<Reporter>>(m, "Reporter")
      .def(py::init([=] { return device.port().reporter(); }))
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
           [=](Reporter&, const py::bytes& frame) {
             std::string text = frame;
             py::gil_scoped_release release;
             device.port().report_after(std::move(text));
           })
      .def("progress_on_stream",
           [=](Reporter&, const py::bytes& frame) {
             std::string text = frame;
             py::gil_scoped_release release;
             device.port().report_progress(std::move(text));
           })
      // The duration replaces 2**62 in eight bytes at `duration_offset`; unset: at the end of the frame.
      .def(
          "end_on_stream",
          [=](Reporter&, const py::bytes& frame, std::uint64_t index, std::uint64_t began_ns,
              std::optional<std::size_t> duration_offset) {
            std::string text = frame;
            py::gil_scoped_release release;
            const auto offset = duration_offset.value_or(text.size() - std::min<std::size_t>(8, text.size()));
            device.port().report_iteration(IterationFrame(std::move(text), offset), {index, began_ns});
          },
          py::arg("frame"), py::arg("index"), py::arg("began_ns"), py::arg("duration_offset") = std::nullopt)
      .def("ended", &Reporter::ended);
}

inline void bind_memory(py::module_& m, const Device& device) {
  m.def("memory", [=] { return memory(device); });
  m.def("reset_peaks", [=] {
    if (LaunchPort* const port = device.find()) port->arena().reset_peaks();
  });
  m.def("take_recent", [=] {
    const auto recent = device.port().arena().take_recent();
    return py::make_tuple(recent.peak, recent.allocated);
  });
  m.def(
      "empty_cache",
      [=] {
        if (LaunchPort* const port = device.find()) port->arena().empty_cache();
      },
      ReleaseGil());
  m.def("outside_bytes", [=] { return device.port().member().outside_bytes(); });
  m.def("set_own_limit", [=](std::uint64_t bytes) { device.port().member().set_arena_limit(bytes); });
  m.def("set_reuse_at_launch", [=](bool reuse) { device.port().arena().set_reuse_at_launch(reuse); });
  m.def("record_series", [=](std::size_t samples) { device.port().arena().record_series(samples); });
  m.def("series", [=] { return series(device); });
  m.def("check_memory", [=] { device.port().arena().check_integrity(); }, ReleaseGil());
  m.def("evict", [=](double seconds) { return device.port().evict(after(seconds)); }, ReleaseGil());
  m.def("restore", [=](double seconds) { return device.port().restore(after(seconds)); }, ReleaseGil());
  m.def("evicted", [=] { return device.port().arena().evicted(); });
  m.def("set_persistent", [=](bool persistent) { device.set_persistent(persistent); });
  m.def("persistent", [=] { return device.persistent(); });
}

inline void bind_board(py::module_& m, const Device& device) {
  m.def("board_path", [=] { return device.port().member().board().path(); });
  m.def("slot", [=] { return device.port().member().slot(); });
  m.def("board_memory", [=] {
    auto& board = device.port().member().board();
    return py::make_tuple(board.used_bytes(), board.high_water_bytes(), board.capacity_bytes());
  });
  m.def("set_permit", [=](std::uint32_t slot, std::uint32_t n) { device.port().member().board().set_permit(slot, n); });
  m.def("set_gate", [=](std::uint32_t slot, std::uint64_t until_ns, bool holds_light) {
    device.port().member().board().set_gate(slot, until_ns, holds_light);
  });
  m.def("set_share", [=](std::uint32_t slot, std::uint32_t millionths) {
    device.port().member().board().set_share(slot, millionths);
  });
  m.def("set_deadline_class",
        [=](std::uint32_t slot, bool deadline) { device.port().member().board().set_deadline_class(slot, deadline); });
  m.def(
      "lift_controls",
      [=](std::uint32_t slot, bool restore) { device.port().member().board().lift_controls(slot, restore); },
      py::arg("slot"), py::arg("restore") = false);
  m.def("set_heavy_open",
        [=](std::uint32_t slot, bool open) { device.port().member().board().set_heavy_open(slot, open); });
  m.def("set_slot_cap",
        [=](std::uint32_t slot, std::uint32_t n) { device.port().member().board().set_inflight_cap(slot, n); });
  m.def("set_lane",
        [=](std::uint32_t slot, std::uint32_t lane) { device.port().member().board().set_lane(slot, lane); });
  m.def("set_ceiling",
        [=](std::uint32_t slot, std::uint64_t bytes) { device.port().member().board().set_ceiling(slot, bytes); });
  m.def("set_limit",
        [=](std::uint32_t slot, std::uint64_t bytes) { device.port().member().board().set_limit(slot, bytes); });
  m.def("set_oversubscribed",
        [=](bool oversubscribed) { device.port().member().board().set_oversubscribed(oversubscribed); });
  m.def("request", [=](std::uint32_t slot, std::uint32_t what) {
    device.port().member().board().set_request(slot, static_cast<Request>(what));
  });
  m.def("reap", [=] { return device.port().member().board().reap(); }, ReleaseGil());
  m.def("daemon_is_silent",
        [=](std::uint64_t since_ns) { return device.port().member().board().daemon_silent(since_ns); });
}

inline void bind_logs(py::module_& m, const Device& device) {
  const auto measuring = py::arg("measuring") = false;
  m.def(
      "start_log",
      [=](std::size_t records, bool measuring) {
        device.drain();
        device.port().start_log(log_of(device, measuring), records);
      },
      py::arg("records"), measuring);
  m.def(
      "stop_log",
      [=](bool measuring) {
        device.drain();
        log_of(device, measuring).stop();
      },
      measuring);
  m.def("kernel_log", [=](bool measuring) { return kernel_log(device, measuring); }, measuring);
  m.def("dropped_records", [=](bool measuring) { return log_of(device, measuring).dropped(); }, measuring);
}

/// Gives a module all functions of the launch layer.
inline void bind_device(py::module_& m, const Device& device) {
  py::register_exception<BoardFull>(m, "BoardFull", PyExc_RuntimeError);
  bind_launching(m, device);
  bind_reporter(m, device);
  bind_memory(m, device);
  bind_board(m, device);
  bind_logs(m, device);
}

}  // namespace neaptide::python
