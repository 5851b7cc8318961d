#include "board.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "board_file.h"
#include "board_layout.h"
#include "futex.h"
#include "leases.h"
#include "reaper.h"

namespace neaptide {
namespace {

/// A word of the file as an enumeration: `unknown` when it is none of its values.
template <typename Enumeration>
Enumeration known(Enumeration word, Enumeration last, Enumeration unknown) {
  return word <= last ? word : unknown;
}

JobName unpack_job(const SlotLayout& slot) {
  JobName name{};
  char* next = name.text;
  for (const Word64& word : slot.job)
    for (std::uint64_t rest = word.load(), byte = 0; byte < 8; ++byte, rest >>= 8)
      if (const char letter = static_cast<char>(rest & 0xff)) *next++ = letter;
  name.text[sizeof(name.text) - 1] = 0;
  return name;
}

/// The words of a slot, bounded here: a snapshot may be used as it is.
SlotSnapshot read_slot(const BoardLayout& board, std::uint32_t index) {
  const SlotLayout& slot = board.slots[index];
  SlotSnapshot copy;
  copy.slot = index;
  copy.pid = slot.pid.load();
  copy.start_time = slot.start_time.load();
  copy.job = unpack_job(slot);
  copy.state = known(slot.state.load(), SlotState::evicted, SlotState::idle);
  copy.request = known(slot.request.load(), Request::resume, Request::none);
  copy.permit = slot.permit.load();
  copy.heavy_open = slot.gate_until_ns.load() != 0;
  copy.inflight_cap = slot.inflight_cap.load();
  const std::uint32_t lane = slot.lane.load();
  copy.lane = lane == 0 || lane > kBoardLanes ? kNoLane : lane - 1;
  copy.deadline_class = slot.deadline_class.load() == 1;
  copy.share = std::clamp(slot.share.load(), 1U, kWholeShare);
  copy.iteration = std::min<std::uint64_t>(slot.iteration.load(), kPermitAll - 1);
  copy.entered = std::min<std::uint64_t>(slot.entered.load(), kPermitAll - 1);
  copy.age = slot.age.load();
  copy.done = slot.done.load();  // before launched, so that done <= launched
  copy.launched = slot.launched.load();
  copy.held_bytes = slot.held.load().value_or(0);
  copy.over_bytes = std::min(slot.over.load(), Sealed::kMost);
  copy.needed_bytes = slot.needed.load();
  copy.rest_bytes = slot.rest.load();
  copy.wanted_bytes = slot.wanted.load();
  copy.ceiling_bytes = slot.ceiling.load();
  copy.limit_bytes = slot.limit.load();
  copy.waited_ns = slot.waited_ns.load();
  copy.waits_since_ns = slot.waits_since_ns.load();
  copy.stalled_ns = slot.stalled_ns.load();
  copy.taken = slot.use.load() == SlotUse::taken;
  return copy;
}

}  // namespace

std::shared_ptr<Board> Board::create(const std::string& path, const BoardConfig& config) {
  if (!BoardFile::create(path, config))
    throw BoardError("board " + path + ": there is a file already; name another path");
  return open(path);
}

std::shared_ptr<Board> Board::open_or_create(const std::string& path, const BoardConfig& config) {
  if (access(path.c_str(), F_OK) != 0) BoardFile::create(path, config);  // false: another process was faster
  return open(path);
}

std::shared_ptr<Board> Board::open(const std::string& path) {
  return std::make_shared<Board>(path, std::make_unique<BoardFile>(path));
}

Board::Board(std::string path, std::unique_ptr<BoardFile> file)
    : path_(std::move(path)),
      file_(std::move(file)),
      chunk_bytes_(file_->chunk_bytes()),
      capacity_(file_->layout().capacity.load().value_or(0)) {}

Board::~Board() = default;

bool Board::forked() const noexcept { return file_->forked(); }

void Board::require_owner() const {
  if (forked()) throw BoardError("board " + path_ + ": opened by the parent process; a forked child must open its own");
}

BoardLayout& Board::layout() const {
  require_owner();
  return file_->layout();
}

SlotLocks& Board::locks() const {
  require_owner();
  return file_->locks();
}

const DeviceRegion* Board::region() const { return file_->region(); }
std::uint64_t Board::region_setting() const { return file_->region_setting(); }
bool Board::is_at_its_path() const { return file_->is_at(path_); }
int Board::descriptor() const { return file_->descriptor(); }

std::uint64_t Board::capacity_bytes() const {
  if (const auto bytes = layout().capacity.load()) capacity_.store(*bytes);
  return capacity_.load();
}
std::uint64_t Board::used_bytes() const { return layout().used.load().value_or(0); }
std::uint64_t Board::high_water_bytes() const { return layout().high_water.load().value_or(0); }

BoardSnapshot Board::snapshot() const {
  const BoardLayout& board = layout();
  BoardSnapshot copy;
  const auto taken = [&](std::uint32_t index) { return board.slots[index].use.load() == SlotUse::taken; };
  const auto look = [&] {
    copy.slots.clear();
    copy.used_bytes = used_bytes();
    for (std::uint32_t index = 0; index < kSlots; ++index)
      if (taken(index)) copy.slots.push_back(read_slot(board, index));
  };
  copy.consistent = look_at_rest(board, taken, look);
  if (!copy.consistent) look();  // a process may stand inside a lease operation: the slots are there all the same
  copy.capacity_bytes = capacity_bytes();
  copy.high_water_bytes = high_water_bytes();
  copy.over_bytes = over_bytes();
  copy.taken_slots = static_cast<std::uint32_t>(copy.slots.size());
  return copy;
}

SlotSnapshot Board::slot(std::uint32_t index) const {
  if (index >= kSlots) throw BoardError("board " + path_ + ": there is no slot " + std::to_string(index));
  return read_slot(layout(), index);
}

std::uint32_t Board::reap() { return reap_dead(*this); }

void Board::beat(std::uint64_t now_ns, std::uint64_t capacity_bytes) {
  layout().heartbeat_ns.store(now_ns);
  file_->restore_header();
  if (layout().capacity.load() != capacity_bytes) set_capacity(capacity_bytes);
}

void Board::stop_beating() { layout().heartbeat_ns.store(0); }

bool Board::daemon_silent(std::uint64_t since_ns) const { return neaptide::daemon_silent(layout(), since_ns); }

bool daemon_silent(const BoardLayout& board, std::uint64_t since_ns) {
  const std::uint64_t beat_ns = board.heartbeat_ns.load();
  if (beat_ns == 0 && since_ns == 0) return false;
  const auto now_ns = std::chrono::steady_clock::now().time_since_epoch().count();
  const auto last_ns = static_cast<std::int64_t>(std::max(beat_ns, since_ns));
  return std::abs(now_ns - last_ns) > kSilence.count();  // a time to come is damage
}

void Board::mend_capacity() {
  if (layout().capacity.load() || capacity_.load() == 0) return;
  if (layout().heartbeat_ns.load() == 0 || daemon_silent()) layout().capacity.store(capacity_.load());
}

void Board::set_capacity(std::uint64_t bytes) {
  if (bytes == 0) throw BoardError("board " + path_ + ": a capacity of 0 bytes");
  const std::uint64_t before = capacity_bytes();
  for (SlotLayout& slot : layout().slots) slot.largest_capacity.raise(before);  // before the capacity: board_layout.h
  capacity_.store(std::min(bytes, Sealed::kMost));
  layout().capacity.store(capacity_.load());
  wake_memory_waiters(layout());
}

void Board::reset_high_water() { layout().high_water.store(used_bytes()); }

template <typename Word, typename Value>
void Board::control(std::uint32_t slot, Word word, Value value) {
  if (slot >= kSlots || layout().slots[slot].use.load() != SlotUse::taken)
    throw BoardError("board " + path_ + ": no process in slot " + std::to_string(slot));
  write_control(slot, word, value);
}

template <typename Word, typename Value>
void Board::write_control(std::uint32_t slot, Word word, Value value) {
  BoardLayout& board = layout();
  if ((board.slots[slot].*word).exchange(value) == value) return;
  futex_wake(board.slots[slot].control_epoch, Reach::all_processes);
  futex_wake(board.slots[slot].memory_epoch, Reach::all_processes);
}

void Board::set_permit(std::uint32_t slot, std::uint32_t iterations) { control(slot, &SlotLayout::permit, iterations); }
void Board::set_heavy_open(std::uint32_t slot, bool open) { set_gate(slot, open ? kAlways : 0, false); }
void Board::set_gate(std::uint32_t slot, std::uint64_t until_ns, bool holds_light) {
  control(slot, &SlotLayout::gate_holds_light, holds_light ? 1U : 0U);
  control(slot, &SlotLayout::gate_until_ns, until_ns);
}
void Board::set_deadline_class(std::uint32_t slot, bool deadline) {
  control(slot, &SlotLayout::deadline_class, deadline ? 1U : 0U);
}
void Board::set_share(std::uint32_t slot, std::uint32_t millionths) {
  control(slot, &SlotLayout::share, std::clamp(millionths, 1U, kWholeShare));
}
void Board::set_inflight_cap(std::uint32_t slot, std::uint32_t kernels) {
  control(slot, &SlotLayout::inflight_cap, kernels);
}
void Board::set_ceiling(std::uint32_t slot, std::uint64_t bytes) { control(slot, &SlotLayout::ceiling, bytes); }
void Board::set_limit(std::uint32_t slot, std::uint64_t bytes) {
  const bool changes = slot < kSlots && layout().slots[slot].limit.load() != bytes;
  control(slot, &SlotLayout::limit, bytes);
  if (changes) wake_memory_waiters(layout());  // others need not leave it what goes beyond
}
void Board::set_request(std::uint32_t slot, Request request) { control(slot, &SlotLayout::request, request); }

void Board::set_lane(std::uint32_t slot, std::uint32_t lane) {
  if (lane != kNoLane) require_lane(lane);
  control(slot, &SlotLayout::lane, lane == kNoLane ? 0U : lane + 1);
  wake_memory_waiters(layout());
}

void Board::set_lane_bytes(std::uint32_t lane, std::uint64_t bytes) {
  require_lane(lane);
  BoardLayout& board = layout();
  if (bytes > 0 && lanes_high(board) <= lane) board.lanes_high.store(lane + 1);
  if (board.lane_bytes[lane].exchange(bytes) != bytes) wake_memory_waiters(board);
}

void Board::set_oversubscribed(bool oversubscribed) {
  BoardLayout& board = layout();
  if (board.oversubscribed.exchange(oversubscribed ? 1 : 0) == (oversubscribed ? 1U : 0U)) return;
  for (std::uint32_t index = 0, high = slots_high(board); index < high; ++index)
    futex_wake(board.slots[index].memory_epoch, Reach::all_processes);
}

bool Board::oversubscribed() const { return layout().oversubscribed.load(std::memory_order_relaxed) == 1; }

std::uint64_t Board::over_bytes() const {
  const BoardLayout& board = layout();
  std::uint64_t bytes = 0;
  for (std::uint32_t index = 0, high = slots_high(board); index < high; ++index)
    if (board.slots[index].use.load() == SlotUse::taken)
      bytes += std::min(board.slots[index].over.load(std::memory_order_relaxed), Sealed::kMost);
  return bytes;
}

std::uint64_t Board::lane_bytes(std::uint32_t lane) const {
  require_lane(lane);
  return layout().lane_bytes[lane].load();
}

void Board::require_lane(std::uint32_t lane) const {
  if (lane >= kBoardLanes) throw BoardError("board " + path_ + ": there is no lane " + std::to_string(lane));
}

void Board::lift_controls(std::uint32_t slot, bool restore) {
  if (slot >= kSlots) throw BoardError("board " + path_ + ": there is no slot " + std::to_string(slot));
  write_control(slot, &SlotLayout::permit, kPermitAll);
  write_control(slot, &SlotLayout::gate_holds_light, 0U);
  write_control(slot, &SlotLayout::gate_until_ns, kAlways);
  write_control(slot, &SlotLayout::inflight_cap, kUnbounded);
  write_control(slot, &SlotLayout::ceiling, kNoCeiling);
  write_control(slot, &SlotLayout::limit, kNoCeiling);
  write_control(slot, &SlotLayout::deadline_class, 0U);
  write_control(slot, &SlotLayout::share, kWholeShare);
  write_control(slot, &SlotLayout::lane, 0U);
  if (restore) write_control(slot, &SlotLayout::request, Request::restore);
  wake_memory_waiters(layout());
}

void Board::forget_expected_leases(std::uint32_t slot) {
  control(slot, &SlotLayout::expected_leases, std::uint64_t{0});
  wake_memory_waiters(layout());
}

}  // namespace neaptide
