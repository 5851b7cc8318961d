#include "board.h"

#include <utility>

#include "board_file.h"
#include "board_layout.h"
#include "futex.h"
#include "leases.h"
#include "reaper.h"

namespace neaptide {
namespace {

JobName unpack_job(const SlotLayout& slot) {
  JobName name{};
  char* next = name.text;
  for (const Word64& word : slot.job)
    for (std::uint64_t rest = word.load(), byte = 0; byte < 8; ++byte, rest >>= 8)
      if (const char letter = static_cast<char>(rest & 0xff)) *next++ = letter;
  name.text[sizeof(name.text) - 1] = 0;
  return name;
}

SlotSnapshot read_slot(const BoardLayout& board, std::uint32_t index) {
  const SlotLayout& slot = board.slots[index];
  SlotSnapshot copy;
  copy.slot = index;
  copy.pid = slot.pid.load();
  copy.start_time = slot.start_time.load();
  copy.job = unpack_job(slot);
  copy.state = slot.state.load();
  copy.request = slot.request.load();
  copy.permit = slot.permit.load();
  copy.heavy_open = slot.heavy_open.load();
  copy.inflight_cap = slot.inflight_cap.load();
  copy.iteration = slot.iteration.load();
  copy.age = slot.age.load();
  copy.done = slot.done.load();  // before launched, so that done <= launched
  copy.launched = slot.launched.load();
  copy.held_bytes = slot.held.load();
  copy.needed_bytes = slot.needed.load();
  copy.wanted_bytes = slot.wanted.load();
  copy.ceiling_bytes = slot.ceiling.load();
  copy.taken = slot.use.load() == SlotUse::taken;
  return copy;
}

}  // namespace

std::shared_ptr<Board> Board::open_or_create(const std::string& path, const BoardConfig& config) {
  return std::make_shared<Board>(path, std::make_unique<BoardFile>(path, config));
}

std::shared_ptr<Board> Board::open(const std::string& path) {
  return std::make_shared<Board>(path, std::make_unique<BoardFile>(path, std::nullopt));
}

Board::Board(std::string path, std::unique_ptr<BoardFile> file) : path_(std::move(path)), file_(std::move(file)) {}

Board::~Board() = default;

bool Board::forked() const noexcept { return file_->forked(); }

void Board::require_owner() const {
  if (forked()) throw BoardError("board " + path_ + ": opened by the parent process; a forked child must open its own");
}

BoardLayout& Board::layout() const {
  require_owner();
  return file_->layout();
}

std::uint64_t Board::capacity_bytes() const { return layout().capacity.load(); }
std::uint64_t Board::used_bytes() const { return layout().used.load(); }
std::uint64_t Board::high_water_bytes() const { return layout().high_water.load(); }

BoardSnapshot Board::snapshot() const {
  const BoardLayout& board = layout();
  BoardSnapshot copy;
  copy.consistent = look_at_rest(board, [&] {
    copy.slots.clear();
    copy.used_bytes = board.used.load();
    for (std::uint32_t index = 0, high = board.slots_high.load(); index < high; ++index)
      if (board.slots[index].use.load() == SlotUse::taken) copy.slots.push_back(read_slot(board, index));
  });
  copy.capacity_bytes = board.capacity.load();
  copy.high_water_bytes = board.high_water.load();
  copy.taken_slots = static_cast<std::uint32_t>(copy.slots.size());
  return copy;
}

SlotSnapshot Board::slot(std::uint32_t index) const {
  if (index >= kSlots) throw BoardError("board " + path_ + ": there is no slot " + std::to_string(index));
  return read_slot(layout(), index);
}

std::uint64_t Board::region_setting() const { return layout().region_setting.load(); }

std::uint32_t Board::reap() { return reap_dead(layout(), path_, Patience::wait_for_lock); }

void Board::set_capacity(std::uint64_t bytes) {
  if (bytes == 0) throw BoardError("board " + path_ + ": a capacity of 0 bytes");
  layout().capacity.store(bytes);
  wake_memory_waiters(layout());
}

void Board::reset_high_water() { layout().high_water.store(layout().used.load()); }

template <typename Change>
void Board::control(std::uint32_t slot, Change change) {
  BoardLayout& board = layout();
  if (slot >= kSlots || board.slots[slot].use.load() != SlotUse::taken)
    throw BoardError("board " + path_ + ": no process in slot " + std::to_string(slot));
  change(board.slots[slot]);
  futex_wake(board.slots[slot].control_epoch, Reach::all_processes);
  futex_wake(board.slots[slot].memory_epoch, Reach::all_processes);
}

void Board::set_permit(std::uint32_t slot, std::uint32_t iterations) {
  control(slot, [=](SlotLayout& words) { words.permit.store(iterations); });
}

void Board::set_heavy_open(std::uint32_t slot, bool open) {
  control(slot, [=](SlotLayout& words) { words.heavy_open.store(open ? 1 : 0); });
}

void Board::set_inflight_cap(std::uint32_t slot, std::uint32_t kernels) {
  control(slot, [=](SlotLayout& words) { words.inflight_cap.store(kernels); });
}

void Board::set_ceiling(std::uint32_t slot, std::uint64_t bytes) {
  control(slot, [=](SlotLayout& words) { words.ceiling.store(bytes); });
}

void Board::set_request(std::uint32_t slot, Request request) {
  control(slot, [=](SlotLayout& words) { words.request.store(request); });
}

void Board::forget_expected_leases(std::uint32_t slot) {
  control(slot, [](SlotLayout& words) { words.expected_leases.store(0); });
  wake_memory_waiters(layout());
}

}  // namespace neaptide
