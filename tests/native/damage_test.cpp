// The board's file is damaged by another program: nobody crashes, the budget holds, and the words are put right.
#include <fcntl.h>

#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "board_layout.h"
#include "device_region.h"
#include "member.h"
#include "sm_lane.h"
#include "sm_queue.h"
#include "support.h"

using namespace support;

namespace {

constexpr std::uint64_t kCapacity = 32 * kMiB;

std::size_t board_bytes() { return sizeof(BoardLayout) + sizeof(SmRegion); }
char* bytes_of(Board& board) { return reinterpret_cast<char*>(&board.layout()); }

/// What one member believes that it holds, where the other processes of a test can see it.
struct Books {
  std::array<std::atomic<std::uint64_t>, 4> held{};
  std::atomic<std::uint64_t> operations{0};
  std::atomic<bool> stop{false};
  std::uint64_t sum() const {
    std::uint64_t all = 0;
    for (const auto& each : held) all += each.load();
    return all;
  }
};

/// Takes and gives leases at random, and keeps its own books.
void trade(const std::string& path, Books& books, unsigned place) {
  Member member(Board::open(path), "honest");
  std::mt19937 random(place);
  while (!books.stop) {
    const std::uint64_t bytes = (1 + random() % 8) * kMiB;
    if (random() % 3 == 0) {
      member.begin_iteration();
    } else if (member.take(bytes, in(std::chrono::milliseconds(20))) == Lease::granted) {
      books.held[place] += bytes;
    } else if (const std::uint64_t all = books.held[place]; all > 0) {
      books.held[place] = 0;
      member.give(all);
      member.end_iteration();
    }
    ++books.operations;
  }
}

/// Flips, zeroes or fills a range.
void damage(char* bytes, std::size_t size, std::mt19937& random) {
  const std::size_t first = random() % size;
  const std::size_t count = 1 + random() % std::min<std::size_t>(size - first, random() % 4 == 0 ? size : 256);
  switch (random() % 4) {
    case 0:
      std::memset(bytes + first, 0, count);
      break;
    case 1:
      std::memset(bytes + first, 0xff, count);
      break;
    case 2:
      for (std::size_t at = first; at < first + count; ++at) bytes[at] = static_cast<char>(random());
      break;
    default:
      for (int flip = 0; flip < 8; ++flip)
        bytes[random() % size] = static_cast<char>(bytes[random() % size] ^ (1 << random() % 8));
  }
}

}  // namespace

TEST(a_damaged_count_grants_nothing_until_it_was_counted_anew) {
  TemporaryPath path;
  auto board = Board::create(path, soft_board(kCapacity, 2));
  Member one(board, "one"), other(board, "other");
  CHECK(one.try_take(20 * kMiB) == Lease::granted);
  for (const int fill : {0, 0xff, 0x5a}) {
    std::memset(static_cast<void*>(&board->layout().used), fill, sizeof(Sealed));
    CHECK(other.try_take(20 * kMiB) == Lease::full);
    one.give(kMiB);  // is not counted in a damaged count
    board->reap();
    CHECK_EQUAL(board->used_bytes(), 19 * kMiB);
    CHECK(other.try_take(20 * kMiB) == Lease::full);
    CHECK(one.try_take(kMiB) == Lease::granted);
  }
}

TEST(a_damaged_capacity_grants_nothing_until_the_daemon_wrote_it_again) {
  TemporaryPath path;
  auto board = Board::create(path, soft_board(kCapacity, 2));
  Member member(Board::open(path), "job");
  board->beat(now_ns(), kCapacity);
  std::memset(static_cast<void*>(&board->layout().capacity), 0x7f, sizeof(Sealed));
  CHECK(member.try_take(kMiB) == Lease::full);
  board->beat(now_ns(), kCapacity);
  CHECK_EQUAL(board->capacity_bytes(), kCapacity);
  CHECK(member.try_take(kMiB) == Lease::granted);
  // Without the daemon the members do it.
  board->stop_beating();
  std::memset(static_cast<void*>(&board->layout().capacity), 0, sizeof(Sealed));
  CHECK(member.take(kMiB, in(std::chrono::seconds(20))) == Lease::granted);
  CHECK_EQUAL(board->capacity_bytes(), kCapacity);
}

TEST(a_process_writes_the_words_of_its_slot_again) {
  TemporaryPath path;
  auto board = Board::create(path, soft_board(kCapacity, 2));
  Member member(board, "job"), other(board, "other");
  CHECK(member.try_take(5 * kMiB) == Lease::granted);
  CHECK_EQUAL(member.begin_iteration(), 0U);
  const SlotSnapshot before = board->slot(member.slot());
  std::memset(static_cast<void*>(&board->layout().slots), 0xa7, sizeof(SlotLayout) * kSlots);
  board->layout().slots_high.store(0xa7a7a7a7);
  CHECK_EQUAL(board->reap(), 0U);  // what the two hold is not known
  member.mend();
  other.mend();
  CHECK_EQUAL(board->reap(), kSlots - 2);  // those have no owner
  const SlotSnapshot after = board->slot(member.slot());
  CHECK(after.job == "job");
  CHECK_EQUAL(after.pid, before.pid);
  CHECK_EQUAL(after.start_time, before.start_time);
  CHECK_EQUAL(after.held_bytes, 5 * kMiB);
  CHECK_EQUAL(after.age, before.age);
  CHECK_EQUAL(after.iteration, 1U);
  CHECK_EQUAL(board->used_bytes(), 5 * kMiB);
  CHECK_EQUAL(board->snapshot().slots.size(), 2U);
  CHECK_EQUAL(member.begin_iteration(), 1U);
  CHECK(member.try_take(kCapacity - 5 * kMiB) == Lease::granted);
  CHECK(other.try_take(kMiB) == Lease::full);
}

TEST(a_process_knows_the_largest_capacity_when_the_words_that_say_it_are_damaged) {
  TemporaryPath path;
  auto board = Board::create(path, soft_board(kCapacity, 2));
  Member member(Board::open(path), "job");
  board->set_capacity(2 * kCapacity);
  board->set_capacity(kCapacity);
  member.mend();  // as every wait does
  for (const int fill : {0, 0xff, 0x5a}) {
    std::memset(static_cast<void*>(&board->layout().slots), fill, sizeof(SlotLayout) * kSlots);
    CHECK_EQUAL(member.largest_capacity_bytes(), 2 * kCapacity);
    CHECK_EQUAL(board->layout().slots[member.slot()].largest_capacity.load().value_or(0), 2 * kCapacity);
    member.mend();
  }
  // The capacity that is damaged when it changes is the one that the daemon knows.
  std::memset(static_cast<void*>(&board->layout().capacity), 0x7f, sizeof(Sealed));
  Member blind(Board::open(path), "joins while nobody can read the capacity");
  CHECK_EQUAL(blind.largest_capacity_bytes(), 0U);
  board->set_capacity(kCapacity / 2);
  CHECK_EQUAL(blind.largest_capacity_bytes(), kCapacity);
}

TEST(nothing_is_kept_for_a_slot_without_an_owner) {
  TemporaryPath path;
  auto board = Board::create(path, soft_board(kCapacity, 2));
  Member member(board, "job");
  SlotLayout& nobody = board->layout().slots[7];
  board->layout().slots_high.store(kSlots);
  nobody.age.store(0);
  nobody.expected_leases.store(kCapacity);
  nobody.wanted.store(kCapacity);
  member.begin_iteration();
  CHECK(member.try_take(kCapacity) == Lease::granted);
}

TEST(no_number_of_the_file_is_used_before_it_is_bounded) {
  TemporaryPath path;
  auto board = Board::create(path, soft_board(kCapacity, 2));
  Member member(board, "job");
  SmLane lane(member);
  for (const int fill : {0xff, 0x7f, 0x80, 0x01, 0x00}) {
    std::memset(static_cast<void*>(bytes_of(*board)), fill, board_bytes());
    const BoardSnapshot snapshot = board->snapshot();
    CHECK(snapshot.slots.size() <= kSlots);
    for (const SlotSnapshot& slot : snapshot.slots) {
      CHECK(slot.state <= SlotState::evicted && slot.request <= Request::resume);
      CHECK(slot.iteration < kPermitAll);
      CHECK(slot.held_bytes <= Sealed::kMost);
    }
    CHECK(member.request() <= Request::resume);
    board->reap();
    board->beat(now_ns(), kCapacity);
    tokens_granted(sm_region(*board), kNoSlot);
    CHECK(lane.acquire(1, in(std::chrono::seconds(60))));
    lane.release();
    CHECK(eventually([&] { return member.take(kMiB, in(std::chrono::milliseconds(50))) == Lease::granted; }));
    member.give(kMiB);
    CHECK_EQUAL(Board::open(path)->capacity_bytes(), kCapacity);  // the header is whole again
  }
}

TEST(a_file_that_is_cut_short_in_use_is_made_whole_again) {
  TemporaryPath path;
  auto board = Board::create(path, soft_board(kCapacity, 2));
  Child child([&] {
    Member member(Board::open(path), "job");
    CHECK(member.try_take(3 * kMiB) == Lease::granted);
    CHECK(truncate(path.text().c_str(), 0) == 0);
    member.mend();
    member.board().reap();
    member.board().mend_capacity();
    CHECK_EQUAL(member.board().used_bytes(), 3 * kMiB);
    CHECK_EQUAL(member.board().capacity_bytes(), kCapacity);
    CHECK_EQUAL(member.board().snapshot().slots.size(), 1U);
  });
  CHECK_EQUAL(child.wait(), 0);
  board->beat(now_ns(), kCapacity);
  board->reap();
  Member(Board::open(path), "next");
}

TEST(a_bus_error_elsewhere_ends_the_process_as_before) {
  TemporaryPath path;
  auto board = Board::create(path, soft_board(kCapacity, 2));
  Child sent([&] {
    auto own = Board::open(path);
    raise(SIGBUS);
  });
  CHECK_EQUAL(sent.wait(), -SIGBUS);
}

TEST(a_request_for_sms_that_nobody_made_does_not_hold_up_the_queue) {
  TemporaryPath path;
  auto board = Board::create(path, soft_board(kCapacity, 2));
  Member member(board, "job");
  SmLane lane(member);
  CHECK(lane.acquire(2));
  lane.release();
  SmRegion& queue = sm_region(*board);
  queue.lanes_high.store(~0U);
  for (const std::uint32_t owner : {0U, 4711U}) {
    queue.lanes[7].owner.store(owner);
    queue.lanes[7].word.store(LaneWord{LanePhase::ticket, 2, 1}.pack());
    CHECK(lane.acquire(2, in(std::chrono::seconds(20))));
    lane.release();
  }
}

TEST(honest_processes_keep_the_budget_while_the_file_is_damaged) {
  TemporaryPath path;
  auto board = Board::create(path, soft_board(kCapacity, 2));
  Shared<Books> books;
  std::vector<Child> children;
  for (unsigned place = 0; place < 3; ++place) children.emplace_back([&, place] { trade(path, *books, place); });
  CHECK(eventually([&] { return books->operations > 100; }));
  std::mt19937 random(11);
  for (int round = 0; round < 40; ++round) {
    damage(bytes_of(*board), board_bytes(), random);
    const std::uint64_t until = books->operations + 30;
    CHECK(eventually([&] {
      board->beat(now_ns(), kCapacity);
      board->reap();
      CHECK(books->sum() <= kCapacity);
      return books->operations > until;
    }));
  }
  books->stop = true;
  for (Child& child : children) CHECK_EQUAL(child.wait(), 0);
  board->reap();
  CHECK_EQUAL(board->used_bytes(), 0U);
  Member heir(board, "heir");
  CHECK(heir.try_take(kCapacity) == Lease::granted);
}

int main(int count, char** arguments) { return check::main(count, arguments); }
