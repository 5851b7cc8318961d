// Lanes: bytes of the board that belong to the iterations of a group of processes (core/rules/memory_grant.h).
#include <thread>
#include <vector>

#include "board_layout.h"
#include "member.h"
#include "support.h"

using namespace support;

namespace {

/// A process in a lane that runs an iteration and holds `rest` between iterations.
struct Runner {
  Runner(const std::shared_ptr<Board>& board, const char* name, std::uint32_t lane, std::uint64_t rest)
      : member(board, name) {
    if (rest > 0) CHECK(member.try_take(rest) == Lease::granted);
    board->set_lane(member.slot(), lane);
    begin();
  }
  void begin() { member.enter_iteration(member.begin_iteration()); }

  Member member;
};

}  // namespace

TEST(an_iteration_does_not_take_what_belongs_to_another_lane) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(10 * kMiB, 1));
  board->set_lane_bytes(0, 4 * kMiB);
  board->set_lane_bytes(1, 4 * kMiB);
  Runner a(board, "a", 0, kMiB), b(board, "b", 1, kMiB);
  CHECK(a.member.try_take(4 * kMiB) == Lease::granted);
  CHECK(a.member.try_take(1) == Lease::reserved);  // the other lane's bytes are free, but not for it
  CHECK(b.member.try_take(4 * kMiB) == Lease::granted);
  CHECK_EQUAL(board->used_bytes(), 10 * kMiB);
}

TEST(a_lane_grows_into_what_no_lane_has) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(12 * kMiB, 1));
  board->set_lane_bytes(0, 4 * kMiB);
  board->set_lane_bytes(1, 4 * kMiB);
  Runner a(board, "a", 0, kMiB), b(board, "b", 1, kMiB);
  CHECK(a.member.try_take(7 * kMiB) == Lease::reserved);
  CHECK(a.member.try_take(6 * kMiB) == Lease::granted);
  Member outside(board, "outside");
  CHECK(outside.try_take(1) == Lease::reserved);
  a.member.give(3 * kMiB);
  CHECK(outside.try_take(2 * kMiB) == Lease::granted);  // the lane is as large as it was again
  CHECK(a.member.try_take(2 * kMiB) == Lease::reserved);
  CHECK(b.member.try_take(4 * kMiB) == Lease::granted);
}

TEST(a_job_outside_iterations_takes_nothing_from_a_lane_that_is_not_used) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(10 * kMiB, 1));
  board->set_lane_bytes(3, 6 * kMiB);
  Member outside(board, "outside");
  CHECK(outside.try_take(5 * kMiB) == Lease::reserved);
  CHECK(outside.try_take(4 * kMiB) == Lease::granted);
  board->set_lane_bytes(3, 0);
  CHECK(outside.try_take(6 * kMiB) == Lease::granted);
}

TEST(in_a_lane_the_older_iteration_goes_first) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(6 * kMiB, 1));
  board->set_lane_bytes(0, 6 * kMiB);
  Runner older(board, "older", 0, 0), younger(board, "younger", 0, 0);
  older.member.set_expected_leases(5 * kMiB);
  CHECK(older.member.try_take(kMiB) == Lease::granted);
  CHECK(younger.member.try_take(2 * kMiB) == Lease::reserved);
  CHECK(younger.member.try_take(kMiB) == Lease::granted);
  CHECK(older.member.try_take(4 * kMiB) == Lease::granted);
}

TEST(a_waiter_is_woken_when_its_lane_grows_and_when_the_iteration_before_it_ends) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(10 * kMiB, 1));
  board->set_patience(std::chrono::hours(1));  // a lost wake-up hangs the test
  board->set_lane_bytes(0, 2 * kMiB);
  board->set_lane_bytes(1, 8 * kMiB);
  Runner a(board, "a", 0, 0), b(board, "b", 0, 0);
  CHECK(a.member.try_take(2 * kMiB) == Lease::granted);
  std::thread waiter([&] { CHECK(b.member.take(2 * kMiB, kNever) == Lease::granted); });
  CHECK(eventually([&] { return board->snapshot().slots[1].wanted_bytes > 0; }));
  board->set_lane_bytes(1, 6 * kMiB);
  board->set_lane_bytes(0, 4 * kMiB);
  waiter.join();
  std::thread last([&] { CHECK(b.member.take(2 * kMiB, kNever) == Lease::granted); });
  CHECK(eventually([&] { return board->snapshot().slots[1].wanted_bytes > 0; }));
  a.member.end_iteration();
  a.member.give(2 * kMiB);
  last.join();
}

TEST(bytes_at_rest_that_an_iteration_gave_back_are_kept_for_it) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(10 * kMiB, 1));
  board->set_lane_bytes(0, 4 * kMiB);
  Runner trains(board, "trains", 0, 3 * kMiB);
  trains.member.set_expected_leases(7 * kMiB);
  trains.member.give(2 * kMiB);  // its gradients, which the backward pass makes again
  Member outside(board, "outside");
  CHECK(outside.try_take(4 * kMiB) == Lease::reserved);
  CHECK(outside.try_take(3 * kMiB) == Lease::granted);
  CHECK(trains.member.try_take(6 * kMiB) == Lease::granted);
  CHECK_EQUAL(board->used_bytes(), 10 * kMiB);
}

TEST(a_lane_that_shrinks_below_what_it_holds_gets_nothing_more) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(10 * kMiB, 1));
  board->set_lane_bytes(0, 6 * kMiB);
  Runner a(board, "a", 0, 0), b(board, "b", 1, 0);
  CHECK(a.member.try_take(6 * kMiB) == Lease::granted);
  board->set_lane_bytes(0, 2 * kMiB);
  board->set_lane_bytes(1, 8 * kMiB);
  CHECK(a.member.try_take(1) == Lease::reserved);
  CHECK(b.member.try_take(5 * kMiB) == Lease::full);
  a.member.give(5 * kMiB);
  CHECK(b.member.try_take(8 * kMiB) == Lease::granted);
  CHECK(a.member.try_take(kMiB) == Lease::granted);
}

TEST(without_a_daemon_there_are_no_lanes) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(10 * kMiB, 1));
  board->set_lane_bytes(0, 2 * kMiB);
  board->set_lane_bytes(1, 8 * kMiB);
  Runner a(board, "a", 0, 0);
  CHECK(a.member.try_take(4 * kMiB) == Lease::reserved);
  board->beat(1, 10 * kMiB);  // long ago
  CHECK(a.member.try_take(4 * kMiB) == Lease::granted);
}

TEST(damaged_lanes_are_bounded) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(10 * kMiB, 1));
  Runner a(board, "a", 0, 0);
  BoardLayout& layout = board->layout();
  for (Word64& bytes : layout.lane_bytes) bytes.store(~std::uint64_t{0});
  layout.lanes_high.store(~std::uint32_t{0});
  layout.slots[a.member.slot()].lane.store(~std::uint32_t{0});
  CHECK(a.member.try_take(11 * kMiB) == Lease::full);
  CHECK_EQUAL(board->snapshot().slots[0].lane, kNoLane);
  CHECK_THROWS(BoardError, "there is no lane 64", board->set_lane_bytes(64, kMiB));
  CHECK_THROWS(BoardError, "there is no lane 64", board->set_lane(a.member.slot(), 64));
}

int main(int count, char** arguments) { return check::main(count, arguments); }
