// The board and a membership of it as plain functions, for callers without torch; board.h and member.h say what each
// does. A function that can fail returns -1 or null, and error() says why.
#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "../../native/board.h"
#include "../../native/board_file.h"
#include "../../native/board_layout.h"
#include "../../native/device_region.h"
#include "../../native/member.h"
#include "../../native/process.h"
#include "guarded.h"

using namespace neaptide;

std::string& neaptide::last_problem() {
  thread_local std::string problem;
  return problem;
}

using Handle = BoardHandle;

#pragma GCC visibility push(default)
extern "C" {

const char* neaptide_error() { return last_problem().c_str(); }

/// The fields of a structure, one line each; see layout.h.
const char* neaptide_layout(const char* name) {
  static const std::string slot = NEAPTIDE_LAYOUT(SlotSnapshot, NEAPTIDE_SLOT_FIELDS);
  static const std::string board = NEAPTIDE_LAYOUT(BoardTotals, NEAPTIDE_BOARD_FIELDS);
  return std::string(name) == "slot" ? slot.c_str() : board.c_str();
}

/// `region`: the name of the device whose region the board gets; null: none.
Handle* neaptide_board_create(const char* path, std::uint64_t capacity, const char* region, std::uint64_t setting,
                              std::uint64_t chunk_bytes) {
  return guarded(
      [&] {
        BoardConfig config{capacity, nullptr, setting, chunk_bytes};
        if (region != nullptr && (config.region = find_region(std::string(region))) == nullptr)
          throw BoardError(std::string("no device named ") + region + " is built in");
        return new Handle{Board::create(path, config)};
      },
      static_cast<Handle*>(nullptr));
}

Handle* neaptide_board_open(const char* path) {
  return guarded([&] { return new Handle{Board::open(path)}; }, static_cast<Handle*>(nullptr));
}

void neaptide_board_close(Handle* handle) { delete handle; }

/// 1: a process has a slot on the board in this file, damaged or not; 0: none; -1: the file cannot be opened.
int neaptide_board_in_use(const char* path) {
  return guarded([&] { return any_slot_owned(OpenFile(path, O_RDWR).get()) ? 1 : 0; }, -1);
}
int neaptide_board_is_at_its_path(Handle* handle) { return handle->board->is_at_its_path(); }
int neaptide_board_descriptor(Handle* handle) { return handle->board->descriptor(); }

/// Fills `slots`, which has room for all there can be; returns how many are taken.
int neaptide_board_snapshot(Handle* handle, BoardTotals* totals, SlotSnapshot* slots) {
  return guarded(
      [&] {
        const BoardSnapshot seen = handle->board->snapshot();
        *totals = seen;
        std::copy(seen.slots.begin(), seen.slots.end(), slots);
        return static_cast<int>(seen.slots.size());
      },
      -1);
}

int neaptide_board_slot(Handle* handle, std::uint32_t slot, SlotSnapshot* seen) {
  return attempt([&] { *seen = handle->board->slot(slot); });
}

std::uint64_t neaptide_board_chunk_bytes(Handle* handle) { return handle->board->chunk_bytes(); }
/// What the device's region was made with.
std::uint64_t neaptide_board_region_setting(Handle* handle) { return handle->board->region_setting(); }

/// Kernels done and bytes held, of every slot there can be.
int neaptide_board_read_counters(Handle* handle, std::uint64_t* done, std::uint64_t* held) {
  return attempt([&] {
    for (const SlotLayout& slot : handle->board->layout().slots) {
      *done++ = slot.done.load();
      *held++ = slot.held.load().value_or(0);
    }
  });
}

int neaptide_board_reap(Handle* handle) {
  return guarded([&] { return static_cast<int>(handle->board->reap()); }, -1);
}
int neaptide_board_beat(Handle* handle, std::uint64_t now_ns, std::uint64_t capacity) {
  return attempt([&] { handle->board->beat(now_ns, capacity); });
}
int neaptide_board_stop_beating(Handle* handle) {
  return attempt([&] { handle->board->stop_beating(); });
}
int neaptide_board_daemon_silent(Handle* handle, std::uint64_t since_ns) {
  return guarded([&] { return handle->board->daemon_silent(since_ns) ? 1 : 0; }, -1);
}
int neaptide_board_set_capacity(Handle* handle, std::uint64_t bytes) {
  return attempt([&] { handle->board->set_capacity(bytes); });
}
int neaptide_board_reset_high_water(Handle* handle) {
  return attempt([&] { handle->board->reset_high_water(); });
}
int neaptide_board_set_permit(Handle* handle, std::uint32_t slot, std::uint32_t iterations) {
  return attempt([&] { handle->board->set_permit(slot, iterations); });
}
int neaptide_board_set_gate(Handle* handle, std::uint32_t slot, std::uint64_t until_ns, std::uint32_t holds_light) {
  return attempt([&] { handle->board->set_gate(slot, until_ns, holds_light != 0); });
}
int neaptide_board_set_deadline_class(Handle* handle, std::uint32_t slot, std::uint32_t deadline) {
  return attempt([&] { handle->board->set_deadline_class(slot, deadline != 0); });
}
int neaptide_board_set_share(Handle* handle, std::uint32_t slot, std::uint32_t millionths) {
  return attempt([&] { handle->board->set_share(slot, millionths); });
}
int neaptide_board_lift_controls(Handle* handle, std::uint32_t slot, std::uint32_t restore) {
  return attempt([&] { handle->board->lift_controls(slot, restore != 0); });
}
int neaptide_board_set_inflight_cap(Handle* handle, std::uint32_t slot, std::uint32_t kernels) {
  return attempt([&] { handle->board->set_inflight_cap(slot, kernels); });
}
int neaptide_board_set_ceiling(Handle* handle, std::uint32_t slot, std::uint64_t bytes) {
  return attempt([&] { handle->board->set_ceiling(slot, bytes); });
}
int neaptide_board_set_limit(Handle* handle, std::uint32_t slot, std::uint64_t bytes) {
  return attempt([&] { handle->board->set_limit(slot, bytes); });
}
int neaptide_board_set_oversubscribed(Handle* handle, std::uint32_t oversubscribed) {
  return attempt([&] { handle->board->set_oversubscribed(oversubscribed != 0); });
}
int neaptide_board_set_lane(Handle* handle, std::uint32_t slot, std::uint32_t lane) {
  return attempt([&] { handle->board->set_lane(slot, lane); });
}
int neaptide_board_set_lane_bytes(Handle* handle, std::uint32_t lane, std::uint64_t bytes) {
  return attempt([&] { handle->board->set_lane_bytes(lane, bytes); });
}
int neaptide_board_forget_expected_leases(Handle* handle, std::uint32_t slot) {
  return attempt([&] { handle->board->forget_expected_leases(slot); });
}
int neaptide_board_set_request(Handle* handle, std::uint32_t slot, std::uint32_t request) {
  return attempt([&] { handle->board->set_request(slot, static_cast<Request>(request)); });
}

void neaptide_take_short_turns() { take_short_turns(); }
/// 0: the process runs, 1: it is stopped, 2: it is gone, or the pid is another's now.
int neaptide_process_state(std::int32_t pid, std::uint64_t start_time) {
  return guarded([&] { return static_cast<int>(probe({pid, start_time})); }, -1);
}

// A slot without a launch layer, for tests (tests/board_member.py).
Member* neaptide_member_join(Handle* handle, const char* job) {
  return guarded([&] { return new Member(handle->board, job); }, static_cast<Member*>(nullptr));
}
void neaptide_member_mend(Member* member) { member->mend(); }
std::uint64_t neaptide_member_held(Member* member) { return member->held_bytes(); }
void neaptide_member_leave(Member* member) { delete member; }
std::uint32_t neaptide_member_slot(Member* member) { return member->slot(); }
/// 0: granted, else why not (Lease).
int neaptide_member_take(Member* member, std::uint64_t bytes, double seconds) {
  return guarded(
      [&] {
        const auto wait = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
        return static_cast<int>(member->take(bytes, std::chrono::steady_clock::now() + wait));
      },
      -1);
}
int neaptide_member_give(Member* member, std::uint64_t bytes) {
  return attempt([&] { member->give(bytes); });
}
std::uint64_t neaptide_member_begin_iteration(Member* member) { return member->begin_iteration(); }
void neaptide_member_end_iteration(Member* member) { member->end_iteration(); }
/// 1: permitted, 0: not within that time.
int neaptide_member_wait_permit(Member* member, std::uint64_t iteration, double seconds) {
  return guarded(
      [&] {
        const auto wait = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
        return static_cast<int>(member->wait_permit(iteration, std::chrono::steady_clock::now() + wait));
      },
      -1);
}
void neaptide_member_set_state(Member* member, std::uint32_t state) {
  member->set_state(static_cast<SlotState>(state));
}
void neaptide_member_count(Member* member, std::uint64_t launched, std::uint64_t done) {
  member->count_launched(launched);
  member->count_done(done);
}
std::uint32_t neaptide_member_request(Member* member) { return static_cast<std::uint32_t>(member->request()); }
int neaptide_member_finish_request(Member* member, std::uint32_t request) {
  return member->finish_request(static_cast<Request>(request));
}

}  // extern "C"
#pragma GCC visibility pop
