// Leases: never more than the capacity, oldest iteration first, no waiter forgotten.
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "board_layout.h"
#include "member.h"
#include "support.h"

using namespace support;

TEST(a_lease_is_all_or_nothing_and_never_beyond_the_capacity) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(10 * kMiB, 1));
  Member a(board, "a"), b(board, "b");
  CHECK(a.try_take(7 * kMiB) == Lease::granted);
  CHECK(b.try_take(4 * kMiB) == Lease::full);
  CHECK_EQUAL(b.held_bytes(), 0U);
  CHECK(b.try_take(3 * kMiB) == Lease::granted);
  CHECK(a.try_take(1) == Lease::full);
  CHECK(a.try_take(~std::uint64_t{0}) != Lease::granted);
  CHECK_EQUAL(board->used_bytes(), 10 * kMiB);
  a.give(7 * kMiB);
  CHECK_EQUAL(board->used_bytes(), 3 * kMiB);
  CHECK_EQUAL(board->high_water_bytes(), 10 * kMiB);
  board->reset_high_water();
  CHECK_EQUAL(board->high_water_bytes(), 3 * kMiB);
}

TEST(memory_outside_the_arena_is_leased_even_beyond_the_capacity) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(10 * kMiB, 1));
  Member member(board, "job"), other(board, "other");
  member.take_outside(3 * kMiB);
  CHECK_EQUAL(member.outside_bytes(), 3 * kMiB);
  CHECK(member.try_take(2 * kMiB) == Lease::granted);
  CHECK_EQUAL(member.held_bytes(), 5 * kMiB);
  CHECK(other.try_take(4 * kMiB) == Lease::granted);
  member.set_outside(6 * kMiB);  // it is there, whether there was room or not
  CHECK_EQUAL(board->used_bytes(), 12 * kMiB);
  CHECK(other.try_take(1) == Lease::full);
  member.set_outside(kMiB);
  CHECK_EQUAL(member.held_bytes(), 3 * kMiB);
  CHECK_EQUAL(board->used_bytes(), 7 * kMiB);
  CHECK(other.try_take(3 * kMiB) == Lease::granted);
}

TEST(memory_outside_the_arena_is_tried_for_within_the_capacity_whatever_the_ceiling) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(10 * kMiB, 1));
  Member member(board, "job");
  board->set_ceiling(member.slot(), kMiB);
  CHECK(member.try_take_outside(6 * kMiB));
  CHECK(!member.try_take_outside(5 * kMiB));
  CHECK_EQUAL(member.outside_bytes(), 6 * kMiB);
  CHECK_EQUAL(board->used_bytes(), 6 * kMiB);
  member.set_outside(2 * kMiB);
  CHECK_EQUAL(member.held_bytes(), 2 * kMiB);
  CHECK_EQUAL(member.arena_bytes(), 0U);
}

TEST(giving_back_more_than_is_held_changes_nothing) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(10 * kMiB, 1));
  Member member(board, "a");
  CHECK(member.try_take(kMiB) == Lease::granted);
  CHECK_THROWS(std::logic_error, "holds 1048576", member.give(2 * kMiB));
  CHECK_EQUAL(member.held_bytes(), kMiB);
  CHECK_EQUAL(board->used_bytes(), kMiB);
}

TEST(a_ceiling_binds_one_process) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(10 * kMiB, 1));
  Member a(board, "a"), b(board, "b");
  CHECK(a.try_take(3 * kMiB) == Lease::granted);
  board->set_ceiling(a.slot(), 4 * kMiB);
  CHECK(a.try_take(2 * kMiB) == Lease::ceiling);
  CHECK(a.try_take(kMiB) == Lease::granted);
  CHECK(b.try_take(5 * kMiB) == Lease::granted);
  board->set_ceiling(a.slot(), kMiB);  // below what is held: nothing is taken away
  CHECK(a.try_take(1) == Lease::ceiling);
  CHECK_EQUAL(a.held_bytes(), 4 * kMiB);
}

TEST(the_capacity_may_change_at_run_time) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(10 * kMiB, 1));
  board->set_patience(std::chrono::hours(1));
  Member a(board, "a"), b(board, "b");
  CHECK(a.try_take(8 * kMiB) == Lease::granted);
  board->set_capacity(4 * kMiB);
  CHECK(b.try_take(1) == Lease::full);
  a.give(5 * kMiB);
  CHECK(b.try_take(kMiB) == Lease::granted);
  std::thread waiter([&] { CHECK(b.take(6 * kMiB, kNever) == Lease::granted); });
  CHECK(eventually([&] { return board->snapshot().slots[1].wanted_bytes > 0; }));
  board->set_capacity(10 * kMiB);
  waiter.join();
}

TEST(a_slot_remembers_the_largest_capacity_since_it_was_taken) {
  TemporaryPath path;
  auto board = Board::create(path, soft_board(10 * kMiB, 2));
  Member first(Board::open(path), "first");  // as another process would
  board->set_capacity(20 * kMiB);
  board->set_capacity(5 * kMiB);
  CHECK_EQUAL(first.largest_capacity_bytes(), 20 * kMiB);
  std::optional<Member> second(std::in_place, Board::open(path), "second");
  CHECK_EQUAL(second->largest_capacity_bytes(), 5 * kMiB);
  Board::open(path)->set_capacity(8 * kMiB);  // the next daemon knows of the one before only what the file says
  Board::open(path)->set_capacity(4 * kMiB);
  CHECK_EQUAL(first.largest_capacity_bytes(), 20 * kMiB);
  CHECK_EQUAL(second->largest_capacity_bytes(), 8 * kMiB);
  second.reset();
  second.emplace(Board::open(path), "the next in its slot");
  CHECK_EQUAL(second->largest_capacity_bytes(), 4 * kMiB);
}

TEST(waiting_ends_at_the_deadline_and_leaves_no_claim) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(10 * kMiB, 1));
  Member a(board, "a"), b(board, "b");
  CHECK(a.try_take(10 * kMiB) == Lease::granted);
  CHECK(b.take(kMiB, in(std::chrono::milliseconds(2))) == Lease::full);
  CHECK_EQUAL(board->snapshot().slots[1].wanted_bytes, 0U);
}

TEST(an_iteration_with_a_new_age_comes_after_those_that_began_meanwhile) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(10 * kMiB, 1));
  Member away(board, "away"), here(board, "here");
  away.renew_age();  // without an iteration this changes nothing
  away.begin_iteration();
  here.begin_iteration();
  away.renew_age();
  here.set_expected_leases(7 * kMiB);
  CHECK(away.try_take(4 * kMiB) == Lease::reserved);
  CHECK(away.try_take(2 * kMiB) == Lease::granted);
  away.set_expected_leases(6 * kMiB);
  CHECK(here.try_take(8 * kMiB) == Lease::granted);  // nothing is kept for the younger one
}

TEST(a_younger_iteration_leaves_what_an_older_one_is_expected_to_need) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(10 * kMiB, 1));
  board->set_patience(std::chrono::hours(1));
  Member older(board, "older"), younger(board, "younger"), idle(board, "idle");
  older.begin_iteration();
  younger.begin_iteration();
  older.set_expected_leases(7 * kMiB);
  younger.set_expected_leases(9 * kMiB);
  CHECK(older.try_take(2 * kMiB) == Lease::granted);
  CHECK(idle.try_take(4 * kMiB) == Lease::reserved);  // a process without an iteration counts as younger than all
  CHECK(younger.try_take(4 * kMiB) == Lease::reserved);
  CHECK(younger.try_take(3 * kMiB) == Lease::granted);
  CHECK(older.try_take(5 * kMiB) == Lease::granted);
  older.give(4 * kMiB);
  CHECK(younger.try_take(1) == Lease::reserved);  // the older iteration may need the bytes again
  std::thread waiter([&] { CHECK(younger.take(2 * kMiB, kNever) == Lease::granted); });
  CHECK(eventually([&] { return board->snapshot().slots[1].wanted_bytes > 0; }));
  older.set_expected_leases(5 * kMiB);
  waiter.join();
  std::thread last([&] { CHECK(younger.take(2 * kMiB, kNever) == Lease::granted); });
  CHECK(eventually([&] { return board->snapshot().slots[1].wanted_bytes > 0; }));
  older.end_iteration();
  last.join();
  CHECK_EQUAL(board->high_water_bytes(), 10 * kMiB);
}

TEST(each_older_iteration_is_checked_by_itself) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(9 * kMiB, 1));
  Member first(board, "first"), second(board, "second"), third(board, "third");
  for (Member* member : {&first, &second, &third}) member->begin_iteration();
  for (Member* member : {&first, &second}) {
    member->set_expected_leases(4 * kMiB);
    CHECK(member->try_take(kMiB) == Lease::granted);
  }
  CHECK(third.try_take(5 * kMiB) == Lease::reserved);
  CHECK(third.try_take(4 * kMiB) == Lease::granted);
}

TEST(bytes_held_since_before_an_iteration_are_not_expected_back_from_it) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(9 * kMiB, 1));
  Member first(board, "first"), second(board, "second"), third(board, "third");
  CHECK(first.try_take(2 * kMiB) == Lease::granted);
  for (Member* member : {&first, &second, &third}) member->begin_iteration();
  first.set_expected_leases(3 * kMiB);
  second.set_expected_leases(6 * kMiB);
  CHECK(first.try_take(kMiB) == Lease::granted);
  CHECK(third.try_take(2 * kMiB) == Lease::reserved);  // of 9, first keeps 2 and second needs 6
  CHECK(third.try_take(kMiB) == Lease::granted);
}

TEST(only_the_oldest_iteration_overtakes_a_waiting_process_outside_iterations) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(10 * kMiB, 1));
  board->set_patience(std::chrono::hours(1));
  Member older(board, "older"), younger(board, "younger"), outside(board, "outside"), later(board, "later");
  older.begin_iteration();
  younger.begin_iteration();
  CHECK(older.try_take(7 * kMiB) == Lease::granted);
  std::thread waiter([&] { CHECK(outside.take(5 * kMiB, kNever) == Lease::granted); });
  CHECK(eventually([&] { return board->snapshot().slots[2].wanted_bytes > 0; }));
  CHECK(younger.try_take(kMiB) == Lease::reserved);
  CHECK(later.try_take(kMiB) == Lease::reserved);
  CHECK(older.try_take(kMiB) == Lease::granted);
  older.give(8 * kMiB);
  waiter.join();
  CHECK(younger.try_take(5 * kMiB) == Lease::granted);
}

TEST(an_iteration_that_stands_still_keeps_no_younger_one_from_being_the_oldest) {
  for (const SlotState state : {SlotState::waiting_permit, SlotState::suspended, SlotState::evicted}) {
    TemporaryPath path;
    auto board = Board::open_or_create(path, soft_board(10 * kMiB, 1));
    board->set_patience(std::chrono::hours(1));  // a lost wake-up hangs the test
    Member standing(board, "standing"), running(board, "running"), outside(board, "outside");
    standing.begin_iteration();
    running.begin_iteration();
    running.set_expected_leases(8 * kMiB);
    std::thread waiter([&] { CHECK(outside.take(4 * kMiB, kNever) == Lease::granted); });
    CHECK(eventually([&] { return board->snapshot().slots[2].wanted_bytes > 0; }));
    std::thread iteration([&] { CHECK(running.take(7 * kMiB, kNever) == Lease::granted); });
    CHECK(eventually([&] { return board->snapshot().slots[1].wanted_bytes > 0; }));
    standing.set_state(state);
    iteration.join();
    running.give(7 * kMiB);
    running.end_iteration();
    waiter.join();
  }
}

TEST(nothing_is_kept_for_an_iteration_whose_expected_leases_are_forgotten) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(10 * kMiB, 1));
  board->set_patience(std::chrono::hours(1));
  Member older(board, "older"), younger(board, "younger");
  older.begin_iteration();
  younger.begin_iteration();
  older.set_expected_leases(10 * kMiB);
  std::thread waiter([&] { CHECK(younger.take(6 * kMiB, kNever) == Lease::granted); });
  CHECK(eventually([&] { return board->snapshot().slots[1].wanted_bytes > 0; }));
  board->forget_expected_leases(older.slot());
  waiter.join();
}

TEST(the_oldest_iteration_has_the_first_claim) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(10 * kMiB, 1));
  board->set_patience(std::chrono::hours(1));
  Member holder(board, "holder"), old(board, "old"), young(board, "young"), idle(board, "idle");
  old.begin_iteration();
  young.begin_iteration();
  CHECK(holder.try_take(8 * kMiB) == Lease::granted);
  std::thread waiter([&] { CHECK(old.take(6 * kMiB, kNever) == Lease::granted); });
  CHECK(eventually([&] { return board->snapshot().slots[1].wanted_bytes > 0; }));
  // 2 MiB are free, but granting them to a younger iteration would keep the old one waiting.
  CHECK(young.try_take(kMiB) == Lease::reserved);
  CHECK(idle.try_take(kMiB) == Lease::reserved);
  holder.give(4 * kMiB);
  waiter.join();
  CHECK_EQUAL(old.held_bytes(), 6 * kMiB);
  CHECK(young.try_take(kMiB) == Lease::full);
  old.end_iteration();
  old.give(6 * kMiB);
  CHECK(young.try_take(kMiB) == Lease::granted);
}

TEST(bytes_that_an_older_waiter_leaves_go_to_a_younger_one_at_once) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(10 * kMiB, 1));
  board->set_patience(std::chrono::hours(1));
  Member holder(board, "holder"), old(board, "old"), young(board, "young");
  old.begin_iteration();
  young.begin_iteration();
  CHECK(holder.try_take(10 * kMiB) == Lease::granted);
  std::thread first([&] { CHECK(old.take(6 * kMiB, kNever) == Lease::granted); });
  CHECK(eventually([&] { return board->snapshot().slots[1].wanted_bytes > 0; }));
  std::thread second([&] { CHECK(young.take(4 * kMiB, kNever) == Lease::granted); });
  CHECK(eventually([&] { return board->snapshot().slots[2].wanted_bytes > 0; }));
  holder.give(10 * kMiB);  // wakes both, or wakes the old one, whose ending claim wakes the young one
  first.join();
  second.join();
  CHECK_EQUAL(board->used_bytes(), 10 * kMiB);
}

TEST(a_waiter_is_woken_when_bytes_come_back) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(10 * kMiB, 1));
  board->set_patience(std::chrono::hours(1));  // a lost wake-up hangs the test
  Member holder(board, "holder"), waiter(board, "waiter");
  CHECK(holder.try_take(10 * kMiB) == Lease::granted);
  for (int round = 0; round < 200; ++round) {
    std::thread thread([&] { CHECK(waiter.take(2 * kMiB, kNever) == Lease::granted); });
    CHECK(eventually([&] { return board->snapshot().slots[1].wanted_bytes > 0; }));
    holder.give(2 * kMiB);
    thread.join();
    waiter.give(2 * kMiB);
    CHECK(holder.try_take(2 * kMiB) == Lease::granted);
  }
}

TEST(a_younger_waiter_is_woken_when_an_older_one_gives_up) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(10 * kMiB, 1));
  board->set_patience(std::chrono::hours(1));
  Member holder(board, "holder"), old(board, "old"), young(board, "young");
  old.begin_iteration();
  young.begin_iteration();
  CHECK(holder.try_take(6 * kMiB) == Lease::granted);
  for (int round = 0; round < 200; ++round) {
    std::optional<LeaseClaim> claim(std::in_place, old, 6 * kMiB);
    std::thread thread([&] { CHECK(young.take(2 * kMiB, kNever) == Lease::granted); });
    CHECK(eventually([&] { return board->snapshot().slots[2].wanted_bytes > 0; }));
    claim.reset();
    thread.join();
    young.give(2 * kMiB);
  }
}

TEST(an_iteration_that_becomes_the_oldest_is_woken) {
  for (const bool renews : {false, true}) {
    TemporaryPath path;
    auto board = Board::open_or_create(path, soft_board(10 * kMiB, 1));
    board->set_patience(std::chrono::hours(1));
    Member first(board, "first"), second(board, "second"), outside(board, "outside");
    first.begin_iteration();
    second.begin_iteration();
    // The two wait for each other, because an older iteration than the second's runs.
    const LeaseClaim claim(outside, 6 * kMiB);
    std::thread thread([&] { CHECK(second.take(6 * kMiB, kNever) == Lease::granted); });
    CHECK(eventually([&] { return board->snapshot().slots[1].wanted_bytes > 0; }));
    CHECK_EQUAL(board->used_bytes(), 0U);
    renews ? first.renew_age() : static_cast<void>(first.begin_iteration());
    thread.join();
  }
}

TEST(a_claim_that_can_never_be_met_reserves_nothing) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(10 * kMiB, 1));
  Member old(board, "old"), young(board, "young");
  old.begin_iteration();
  young.begin_iteration();
  LeaseClaim claim(old, 11 * kMiB);
  CHECK(young.try_take(10 * kMiB) == Lease::granted);
}

TEST(without_iterations_waiters_are_served_in_order) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(10 * kMiB, 1));
  Member a(board, "a"), b(board, "b"), c(board, "c");
  LeaseClaim first(b, 8 * kMiB), second(a, 8 * kMiB);
  CHECK(a.try_take(8 * kMiB) == Lease::reserved);
  CHECK(c.try_take(8 * kMiB) == Lease::reserved);
  CHECK(b.try_take(8 * kMiB) == Lease::granted);
}

TEST(no_wake_up_is_lost_under_traffic) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(8 * kMiB, 1));
  board->set_patience(std::chrono::hours(1));  // a lost wake-up hangs the test instead of slowing it down
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&board, seed] {
      Member member(board, "job");
      std::mt19937 random(seed);
      for (int step = 0; step < 3000; ++step) {
        if (random() % 4 == 0) member.begin_iteration();
        const std::uint64_t bytes = (1 + random() % 6) * kMiB;
        CHECK(member.take(bytes, kNever) == Lease::granted);
        CHECK(board->used_bytes() <= board->capacity_bytes());
        member.give(bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQUAL(board->used_bytes(), 0U);
  CHECK(board->high_water_bytes() <= 8 * kMiB);
}

TEST(a_snapshot_under_traffic_adds_up) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(8 * kMiB, 1));
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 2; ++seed) {
    threads.emplace_back([&, seed] {
      Member member(board, "job");
      std::mt19937 random(seed);
      while (!stop) {
        const std::uint64_t bytes = 1 + random() % (6 * kMiB);
        if (member.try_take(bytes) == Lease::granted) member.give(bytes);
      }
    });
  }
  int consistent = 0;
  for (int look = 0; look < 2000; ++look) {
    const BoardSnapshot snapshot = board->snapshot();
    if (!snapshot.consistent) continue;
    ++consistent;
    std::uint64_t held = 0;
    for (const SlotSnapshot& slot : snapshot.slots) held += slot.held_bytes;
    CHECK_EQUAL(held, snapshot.used_bytes);
    CHECK(held <= snapshot.capacity_bytes);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(consistent > 0);
}

int main(int count, char** arguments) { return check::main(count, arguments); }
