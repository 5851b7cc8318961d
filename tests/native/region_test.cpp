// The device's region of a board: it is made with the board, and cleared of what a process had when that is gone.
#include <cstring>

#include "board_layout.h"
#include "device_region.h"
#include "member.h"
#include "support.h"

using namespace support;

namespace {

/// A region with one word per slot.
struct Words {
  Word64 setting;
  std::array<Word64, kSlots> owned;
  Word64 wakes;
};

Words& words(void* region) { return *static_cast<Words*>(region); }
Words& words_of(const Board& board) { return words(region_of(board.layout())); }

constexpr DeviceRegion kWords{"words",
                              77,
                              sizeof(Words),
                              [](void* region, std::uint64_t setting) { words(region).setting.store(setting); },
                              [](void* region, std::uint32_t slot) { words(region).owned[slot].store(0); },
                              [](void* region) { words(region).wakes.fetch_add(1); }};
const LinkedRegion linked(kWords);

/// The process whose memory the device still has.
std::atomic<std::int32_t> lingering{0};
constexpr DeviceRegion kSlow{"slow",
                             79,
                             64,
                             [](void*, std::uint64_t) {},
                             [](void*, std::uint32_t) {},
                             [](void*) {},
                             [](std::uint64_t setting, std::int32_t pid) { return setting == 5 && pid == lingering; }};
const LinkedRegion linked_slow(kSlow);

}  // namespace

TEST(a_board_has_the_region_that_its_creator_chose) {
  TemporaryPath path, bare;
  auto board = Board::open_or_create(path, {kMiB, &kWords, 5});
  CHECK_EQUAL(words_of(*board).setting, 5U);
  auto again = Board::open_or_create(path, {kMiB, &kWords, 9});
  CHECK_EQUAL(words_of(*again).setting, 5U);
  CHECK_EQUAL(again->region_setting(), 5U);
  CHECK_EQUAL(Board::open_or_create(bare, {kMiB})->region_setting(), 0U);
}

TEST(a_process_that_leaves_or_dies_has_its_words_cleared_and_others_woken) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, {kMiB, &kWords, 1});
  std::uint32_t left = kNoSlot;
  {
    Member member(board, "leaves");
    left = member.slot();
    words_of(*board).owned[left] = 3;
  }
  CHECK_EQUAL(words_of(*board).owned[left], 0U);
  CHECK(words_of(*board).wakes > 0U);

  Shared<std::atomic<std::uint32_t>> slot;
  Child child([&] {
    Member member(Board::open(path), "dies");
    words_of(member.board()).owned[member.slot()] = 4;
    *slot = member.slot();
    raise(SIGKILL);
  });
  child.wait();
  CHECK_EQUAL(words_of(*board).owned[*slot], 4U);
  CHECK(eventually([&] { return board->reap() == 1; }));
  CHECK_EQUAL(words_of(*board).owned[*slot], 0U);
}

TEST(a_dead_process_keeps_its_leases_while_the_device_still_has_its_memory) {
  TemporaryPath path;
  auto board = Board::create(path, {8 * kMiB, &kSlow, 5});
  Child child([&] {
    Member member(Board::open(path), "dies");
    member.try_take(4 * kMiB);
    raise(SIGKILL);
  });
  const pid_t pid = child.pid();
  child.wait();
  lingering = pid;
  CHECK_EQUAL(board->reap(), 0U);
  CHECK_EQUAL(board->used_bytes(), 4 * kMiB);
  lingering = 0;
  CHECK(reaped(*board));
}

TEST(a_board_whose_region_is_not_linked_is_refused) {
  constexpr DeviceRegion kUnknown{"unknown",   78, 64, [](void*, std::uint64_t) {}, [](void*, std::uint32_t) {},
                                  [](void*) {}};
  TemporaryPath path;
  CHECK_THROWS(BoardError, "does not know", Board::create(path, {kMiB, &kUnknown, 0}));
  CHECK_THROWS(BoardError, "does not know", Board::open(path));
}

TEST(two_regions_cannot_have_one_kind) {
  CHECK_THROWS(std::logic_error, "a kind of its own", const LinkedRegion twice(kWords));
}

int main(int count, char** arguments) { return check::main(count, arguments); }
