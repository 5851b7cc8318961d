// LaunchPort without torch, for devices/board/port.py: one thread runs the launch layer of several jobs under a
// scripted clock. No call here waits.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../../native/launch/launch_port.h"
#include "../../native/layout.h"
#include "guarded.h"
#include "scripted_driver.h"

using namespace neaptide;

namespace {

constexpr StreamId kStream = 0;

LaunchOptions without_threads() {
  LaunchOptions options;
  options.memory_wait = {};
  options.request_thread = false;
  return options;
}

#define NEAPTIDE_ITERATION_FIELDS(FIELD) \
  FIELD(std::uint64_t, index)            \
  FIELD(std::uint64_t, began_ns)         \
  FIELD(std::uint64_t, peak_bytes)       \
  FIELD(std::uint64_t, allocated_bytes)

#define NEAPTIDE_MEMORY_FIELDS(FIELD)      \
  FIELD(std::uint64_t, needed_bytes)       \
  FIELD(std::uint64_t, needed_peak_bytes)  \
  FIELD(std::uint64_t, held_bytes)         \
  FIELD(std::uint64_t, held_peak_bytes)    \
  FIELD(std::uint64_t, over_bytes)         \
  FIELD(std::uint64_t, over_peak_bytes)    \
  FIELD(std::uint64_t, spare_peak_bytes)   \
  FIELD(std::uint64_t, evicted_bytes)      \
  FIELD(std::uint64_t, in_flight)          \
  FIELD(std::uint64_t, launched)           \
  FIELD(std::uint32_t, in_flight_cap)      \
  FIELD(std::uint32_t, evicted)            \
  FIELD(std::uint64_t, iterations_begun)   \
  FIELD(std::uint64_t, iteration_began_ns) \
  FIELD(std::uint64_t, iterations_ended)

}  // namespace

/// One job: its slot, its device and its launch layer, and its place in line for memory between attempts.
struct ScriptedPort {
  ScriptedPort(std::shared_ptr<Board> board, const char* job)
      : member(std::move(board), job), port(driver, member, without_threads()) {}

  AllocationAttempt allocate(std::uint64_t bytes, Hint hint) {
    const AllocationAttempt attempt = port.arena().try_allocate(bytes, kStream, hint);
    // A ceiling is not lifted by others giving back, so waiting for it must not keep memory from others.
    const bool waits = attempt.outcome == Allocation::full || attempt.outcome == Allocation::reserved;
    if (!waits)
      claim.reset();
    else if (claim)
      claim->resize(attempt.need_bytes);
    else
      claim.emplace(member, attempt.need_bytes);
    return attempt;
  }

  ScriptedDriver driver;
  Member member;
  LaunchPort port;
  std::optional<LeaseClaim> claim;  // of an allocation that is to be tried again
};

#pragma GCC visibility push(default)
extern "C" {

struct PortIteration {
  NEAPTIDE_ITERATION_FIELDS(NEAPTIDE_MEMBER)
};

struct PortFigures {
  NEAPTIDE_MEMORY_FIELDS(NEAPTIDE_MEMBER)
};

const char* neaptide_port_layout(const char* name) {
  static const std::string iteration = NEAPTIDE_LAYOUT(PortIteration, NEAPTIDE_ITERATION_FIELDS);
  static const std::string figures = NEAPTIDE_LAYOUT(PortFigures, NEAPTIDE_MEMORY_FIELDS);
  return std::string(name) == "iteration" ? iteration.c_str() : figures.c_str();
}

ScriptedPort* neaptide_port_join(BoardHandle* handle, const char* job) {
  return guarded([&] { return new ScriptedPort(handle->board, job); }, static_cast<ScriptedPort*>(nullptr));
}
void neaptide_port_leave(ScriptedPort* port) { delete port; }
std::uint32_t neaptide_port_slot(ScriptedPort* port) { return port->member.slot(); }
void neaptide_port_set_now(ScriptedPort* port, std::uint64_t time_ns) { port->driver.set_now(time_ns); }
void neaptide_port_set_host_memory(ScriptedPort* port, std::uint32_t there) {
  port->driver.set_host_memory(there != 0);
}

/// Entry, or -1.
int neaptide_port_try_enter(ScriptedPort* port, std::uint32_t heavy) {
  return guarded([&] { return static_cast<int>(port->port.try_enter(heavy != 0)); }, -1);
}
void neaptide_port_exit(ScriptedPort* port) { port->port.gates().leave(); }
/// Whether a kernel that was launched may run now.
int neaptide_port_may_run(ScriptedPort* port, std::uint32_t heavy, std::uint64_t lasts_ns) {
  return port->port.may_run(heavy != 0, lasts_ns);
}
/// Whether a deadline job has kernels in flight and this job is none: its kernels that have not begun make way.
int neaptide_port_makes_way(ScriptedPort* port) {
  if (port->member.in_deadline_class()) return 0;
  const BoardSnapshot seen = port->member.board().snapshot();
  return std::any_of(seen.slots.begin(), seen.slots.end(),
                     [](const SlotSnapshot& slot) { return slot.deadline_class != 0 && slot.launched > slot.done; });
}
double neaptide_port_share(ScriptedPort* port) { return port->member.share(); }
/// How much longer a kernel takes because of bytes over the link; bytes, and bytes per second.
double neaptide_port_over_the_link_ns(ScriptedPort* port, std::uint64_t moved, double link_bandwidth) {
  return port->member.may_pay_for_link() ? port->member.over_the_link_ns(moved, link_bandwidth) : 0;
}
void neaptide_port_launched(ScriptedPort* port, std::uint64_t kernels) {
  port->port.launched(kernels);
  for (std::uint64_t kernel = 0; kernel < kernels; ++kernel) port->driver.launch(kStream);
}
int neaptide_port_passed(ScriptedPort* port, std::uint64_t kernels) {
  return attempt([&] {
    if (kernels > port->driver.in_flight(kStream)) throw std::logic_error("more kernels passed than were launched");
    for (std::uint64_t kernel = 0; kernel < kernels; ++kernel) {
      port->port.passed();
      port->driver.complete(kStream);
    }
  });
}

/// Allocation, or -1; the address when it was granted, the bytes of leases that it lacks when it was not.
int neaptide_port_allocate(ScriptedPort* port, std::uint64_t bytes, std::uint32_t persistent, std::uint64_t* value) {
  return guarded(
      [&] {
        const auto made = port->allocate(bytes, persistent != 0 ? Hint::persistent : Hint::ephemeral);
        *value = made.outcome == Allocation::granted ? made.address : made.need_bytes;
        return static_cast<int>(made.outcome);
      },
      -1);
}
int neaptide_port_free(ScriptedPort* port, std::uint64_t address) {
  return attempt([&] { port->port.arena().deallocate(address); });
}
/// The job no longer waits for the allocation that was not granted.
void neaptide_port_withdraw(ScriptedPort* port) { port->claim.reset(); }

void neaptide_port_arm_iteration(ScriptedPort* port) { port->port.arm_iteration(); }
int neaptide_port_disarm_iteration(ScriptedPort* port) { return port->port.disarm_iteration() ? 1 : 0; }
/// 1, or 0 when no iteration was launched.
int neaptide_port_end_iteration(ScriptedPort* port, PortIteration* facts) {
  const auto iteration = port->port.end_iteration();
  if (!iteration) return 0;
  const auto recent = port->port.arena().take_recent();
  *facts = {iteration->index, iteration->began_ns, recent.peak, recent.allocated};
  return 1;
}
void neaptide_port_take_recent(ScriptedPort* port, std::uint64_t* peak, std::uint64_t* allocated) {
  const auto recent = port->port.arena().take_recent();
  *peak = recent.peak;
  *allocated = recent.allocated;
}
void neaptide_port_expect(ScriptedPort* port, const std::uint64_t* levels, std::uint64_t count) {
  port->port.expect(std::vector<std::uint64_t>(levels, levels + count), count);
}

void neaptide_port_hold(ScriptedPort* port) { port->port.hold_launches(); }
void neaptide_port_release(ScriptedPort* port) { port->port.release_launches(); }
void neaptide_port_refuse(ScriptedPort* port, const char* reason) { port->port.refuse_launches(reason); }

/// Service, or -1.
int neaptide_port_serve(ScriptedPort* port) {
  return guarded(
      [&] {
        port->member.mend();
        if (port->member.request() != Request::none) port->claim.reset();  // an evicted job claims nothing
        return static_cast<int>(port->port.step());
      },
      -1);
}

void neaptide_port_figures(ScriptedPort* port, PortFigures* figures) {
  const auto stats = port->port.arena().stats();
  auto& in_flight = port->port.in_flight();
  *figures = {stats.needed,
              stats.needed_peak,
              stats.held,
              stats.held_peak,
              stats.over,
              stats.over_peak,
              stats.spare_peak,
              stats.evicted_bytes,
              static_cast<std::uint64_t>(in_flight.count()),
              in_flight.launched(),
              in_flight.cap(),
              port->port.arena().evicted(),
              port->port.gates().iterations_begun(),
              port->port.gates().iteration_began_ns(),
              port->port.reporter()->ended()};
}
void neaptide_port_reset_peaks(ScriptedPort* port) { port->port.arena().reset_peaks(); }
int neaptide_port_check(ScriptedPort* port) {
  return attempt([&] { port->port.arena().check_integrity(); });
}

void neaptide_port_connect(ScriptedPort* port, int descriptor, std::uint64_t known) {
  port->port.reporter()->connect(descriptor, known);
}
void neaptide_port_disconnect(ScriptedPort* port) { port->port.reporter()->disconnect(); }
void neaptide_port_forget(ScriptedPort* port) { port->port.reporter()->forget(); }
int neaptide_port_report(ScriptedPort* port, const char* frame, std::uint64_t bytes, std::uint32_t large) {
  return port->port.report(std::string(frame, bytes), large != 0);
}
void neaptide_port_report_after(ScriptedPort* port, const char* frame, std::uint64_t bytes) {
  port->port.report_after(std::string(frame, bytes));
}
void neaptide_port_report_progress(ScriptedPort* port, const char* frame, std::uint64_t bytes) {
  port->port.report_progress(std::string(frame, bytes));
}
int neaptide_port_report_iteration(ScriptedPort* port, const char* frame, std::uint64_t bytes, std::uint64_t offset,
                                   std::uint64_t index, std::uint64_t began_ns) {
  return attempt(
      [&] { port->port.report_iteration(IterationFrame(std::string(frame, bytes), offset), {index, began_ns}); });
}

}  // extern "C"
#pragma GCC visibility pop
