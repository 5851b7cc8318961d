// The board's file, its slots and controls, seen from one process.
#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "board_layout.h"
#include "member.h"
#include "process.h"
#include "support.h"

using namespace support;

namespace {

void write_file(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

void one_line(const std::string& message, const std::string& path) {
  CHECK(message.find('\n') == std::string::npos);
  CHECK(message.find(path) != std::string::npos);
}

}  // namespace

TEST(a_new_board_has_the_given_capacity_and_sms) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(64 * kMiB, 4));
  CHECK_EQUAL(board->capacity_bytes(), 64 * kMiB);
  CHECK_EQUAL(sm_region(*board).sms, 4U);
  CHECK_EQUAL(board->used_bytes(), 0U);
  CHECK(board->snapshot().slots.empty());
}

TEST(an_existing_board_keeps_its_capacity_its_sms_and_its_leases) {
  TemporaryPath path;
  auto first = Board::open_or_create(path, soft_board(64 * kMiB, 4));
  Member member(first, "job");
  CHECK(member.try_take(kMiB) == Lease::granted);
  auto second = Board::open_or_create(path, soft_board(128 * kMiB, 8));
  CHECK_EQUAL(second->capacity_bytes(), 64 * kMiB);
  CHECK_EQUAL(sm_region(*second).sms, 4U);
  CHECK_EQUAL(second->used_bytes(), kMiB);
  CHECK_EQUAL(Board::open(path)->used_bytes(), kMiB);
}

TEST(a_board_keeps_the_chunk_size_that_it_was_made_with) {
  TemporaryPath path, other;
  CHECK_EQUAL(Board::open_or_create(path, soft_board(64 * kMiB, 4))->chunk_bytes(), 2 * kMiB);
  Board::create(other, {64 * kMiB, nullptr, 0, 32 * kMiB});
  CHECK_EQUAL(Board::open_or_create(other, {64 * kMiB})->chunk_bytes(), 32 * kMiB);
}

TEST(a_chunk_is_a_power_of_two_from_2_to_32_mebibytes) {
  for (const std::uint64_t bytes : {kMiB, 3 * kMiB, 64 * kMiB}) {
    TemporaryPath path;
    one_line(CHECK_THROWS(BoardError, "power of two", Board::create(path, {64 * kMiB, nullptr, 0, bytes})), path);
  }
}

TEST(a_file_that_is_no_board_is_refused_in_one_line) {
  TemporaryPath path;
  one_line(CHECK_THROWS(BoardError, "No such file", Board::open(path)), path);
  for (const std::string& text : {std::string("hello"), std::string(300'000, 'x'), std::string(8, '\0') + "text"}) {
    write_file(path, text);
    one_line(CHECK_THROWS(BoardError, "not a board", Board::open_or_create(path, soft_board(kMiB, 1))), path);
  }
  // A foreign file that happens to have a board's size and begins with zeros is not overwritten either.
  write_file(path, std::string(sizeof(BoardLayout) - 1, '\0') + "x");
  one_line(CHECK_THROWS(BoardError, "not a board", Board::open_or_create(path, soft_board(kMiB, 1))), path);
  std::ifstream file(path, std::ios::binary);
  file.seekg(-1, std::ios::end);
  CHECK_EQUAL(static_cast<char>(file.get()), 'x');
}

TEST(a_board_is_never_made_over_another_file) {
  TemporaryPath path;
  auto board = Board::create(path, soft_board(kMiB, 1));
  Member member(board, "job");
  CHECK(member.try_take(kMiB) == Lease::granted);
  one_line(CHECK_THROWS(BoardError, "there is a file already", Board::create(path, soft_board(2 * kMiB, 1))), path);
  CHECK_EQUAL(Board::open(path)->capacity_bytes(), kMiB);
  CHECK_EQUAL(Board::open(path)->used_bytes(), kMiB);
}

TEST(a_board_that_was_cut_short_is_refused_in_one_line) {
  TemporaryPath path;
  Board::create(path, soft_board(kMiB, 1));
  CHECK(truncate(path.text().c_str(), 5000) == 0);
  one_line(CHECK_THROWS(BoardError, "damaged, or made by another build", Board::open(path)), path);
}

TEST(a_process_that_joins_a_board_which_is_no_longer_at_its_path_is_told) {
  TemporaryPath path;
  auto board = Board::create(path, soft_board(kMiB, 1));
  unlink(path.text().c_str());
  CHECK_THROWS(BoardReplaced, "removed or replaced", Member(board, "job"));
  Board::create(path, soft_board(2 * kMiB, 1));
  CHECK_THROWS(BoardReplaced, "removed or replaced", Member(board, "job"));
  CHECK(board->snapshot().slots.empty());
  // It opens the path again, and gets the new one.
  int opened = 0;
  const auto member = join(
      [&] {
        auto first = Board::open(path);
        if (opened++ == 0) {
          unlink(path.text().c_str());
          Board::create(path, soft_board(3 * kMiB, 1));
        }
        return first;
      },
      "job");
  CHECK_EQUAL(member->board().capacity_bytes(), 3 * kMiB);
}

TEST(a_file_without_a_name_can_be_opened_where_a_daemon_links_to_it) {
  TemporaryPath path;
  auto board = Board::create(path, soft_board(kMiB, 1));
  unlink(path.text().c_str());
  const std::string open_file = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(board->descriptor());
  CHECK(symlink(open_file.c_str(), path.text().c_str()) == 0);
  CHECK(board->is_at_its_path());
  Member member(Board::open(path), "late");
  CHECK(member.try_take(kMiB) == Lease::granted);
  CHECK_EQUAL(board->used_bytes(), kMiB);
}

TEST(a_path_that_is_no_regular_file_is_refused) {
  CHECK_THROWS(BoardError, "cannot be opened", Board::open_or_create("/tmp", soft_board(kMiB, 1)));
  TemporaryPath path, link;
  Board::open_or_create(path, soft_board(kMiB, 1));
  CHECK(symlink(path.text().c_str(), link.text().c_str()) == 0);
  CHECK_THROWS(BoardError, "cannot be opened", Board::open(link));
}

TEST(a_configuration_that_makes_no_sense_is_refused) {
  TemporaryPath path;
  CHECK_THROWS(BoardError, "capacity of 0", Board::open_or_create(path, soft_board(0, 1)));
  CHECK_THROWS(BoardError, "0 SMs", Board::open_or_create(path, soft_board(kMiB, 0)));
  CHECK_THROWS(BoardError, "100000 SMs", Board::open_or_create(path, soft_board(kMiB, 100'000)));
  CHECK_EQUAL(Board::open_or_create(path, soft_board(kMiB, 1))->capacity_bytes(), kMiB);
}

TEST(another_version_is_refused_in_one_line) {
  TemporaryPath path;
  Board::open_or_create(path, soft_board(kMiB, 1))->layout().version.store(kBoardVersion + 6);
  const auto message = CHECK_THROWS(BoardError, "version " + std::to_string(kBoardVersion + 6),
                                    Board::open_or_create(path, soft_board(kMiB, 1)));
  one_line(message, path);
  CHECK(message.find("version " + std::to_string(kBoardVersion)) != std::string::npos);
}

TEST(a_board_of_another_pid_namespace_is_refused) {
  TemporaryPath path;
  Board::open_or_create(path, soft_board(kMiB, 1))->layout().pid_namespace.store(1);
  CHECK_THROWS(BoardError, "pid namespace", Board::open_or_create(path, soft_board(kMiB, 1)));
}

TEST(a_slot_shows_its_process_and_is_free_afterwards) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(64 * kMiB, 4));
  {
    Member member(board, "resnet");
    Member other(board, std::string(100, 'j'));
    CHECK(member.try_take(6 * kMiB) == Lease::granted);
    member.publish_needed(5 * kMiB);
    member.count_launched(3);
    member.count_done();
    member.set_state(SlotState::running);
    CHECK_EQUAL(member.begin_iteration(), 0U);
    const BoardSnapshot snapshot = board->snapshot();
    CHECK(snapshot.consistent);
    CHECK_EQUAL(snapshot.slots.size(), 2U);
    const SlotSnapshot& slot = snapshot.slots[0];
    CHECK_EQUAL(slot.pid, getpid());
    CHECK_EQUAL(slot.start_time, this_process().start_time);
    CHECK(slot.job == "resnet");
    CHECK(snapshot.slots[1].job == std::string(63, 'j'));
    CHECK(slot.state == SlotState::running);
    CHECK_EQUAL(slot.held_bytes, 6 * kMiB);
    CHECK_EQUAL(slot.needed_bytes, 5 * kMiB);
    CHECK_EQUAL(slot.launched, 3U);
    CHECK_EQUAL(slot.done, 1U);
    CHECK_EQUAL(slot.iteration, 1U);
    CHECK(slot.age < snapshot.slots[1].age);
    CHECK_EQUAL(slot.permit, kPermitAll);
    CHECK(slot.heavy_open);
  }
  CHECK(board->snapshot().slots.empty());
  CHECK_EQUAL(board->used_bytes(), 0U);
}

TEST(joining_a_full_board_fails_in_one_line_until_a_slot_is_free) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(64 * kMiB, 4));
  std::vector<std::unique_ptr<Member>> members;
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) members.push_back(std::make_unique<Member>(board, "job"));
  CHECK_THROWS(BoardError, "all 64 slots are taken", Member(board, "one too many"));
  members.erase(members.begin() + 5);
  CHECK_EQUAL(Member(board, "again").slot(), 5U);
}

TEST(controls_reach_their_process) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(64 * kMiB, 4));
  Member member(board, "job");
  const std::uint32_t slot = member.slot();
  CHECK(member.permitted(1'000'000));
  board->set_permit(slot, 2);
  CHECK(member.permitted(1) && !member.permitted(2));
  board->set_heavy_open(slot, false);
  CHECK(!member.heavy_open());
  board->set_gate(slot, 7, true);
  CHECK(member.heavy_until_ns() == 7 && member.gate_holds_light());
  board->set_inflight_cap(slot, 4);
  CHECK_EQUAL(member.inflight_cap(), 4U);
  CHECK(!member.in_deadline_class() && member.share() == 1);
  board->set_deadline_class(slot, true);
  board->set_share(slot, 250'000);
  CHECK(member.in_deadline_class() && member.share() == 0.25);
  board->set_request(slot, Request::evict);
  CHECK(member.request() == Request::evict);
  CHECK(member.finish_request(Request::evict));
  CHECK(member.request() == Request::none);
  CHECK_THROWS(BoardError, "no process in slot 63", board->set_permit(63, 1));
  CHECK_THROWS(BoardError, "no process in slot", board->set_permit(kNoSlot, 1));
}

TEST(a_process_lifts_its_controls_even_if_damage_says_that_its_slot_is_free) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(64 * kMiB, 4));
  Member member(board, "job");
  const std::uint32_t slot = member.slot();
  board->set_permit(slot, 0);
  board->set_gate(slot, 0, true);
  board->layout().slots[slot].use.store(SlotUse::free);
  board->lift_controls(slot, /*restore=*/true);
  CHECK(member.permitted(1'000'000) && member.heavy_open() && !member.gate_holds_light());
  CHECK(member.request() == Request::restore);
  CHECK_THROWS(BoardError, "there is no slot 64", board->lift_controls(kSlots));
}

TEST(a_process_waits_for_its_permit_and_its_gate) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(64 * kMiB, 4));
  board->set_patience(std::chrono::hours(1));  // a lost wake-up would hang
  Member member(board, "job");
  board->set_permit(member.slot(), 0);
  board->set_heavy_open(member.slot(), false);
  CHECK(!member.wait_permit(0, in(std::chrono::milliseconds(1))));
  const auto open = [&] { return member.heavy_open(); };
  CHECK(!member.wait_control(open, in(std::chrono::milliseconds(1))));
  for (std::uint32_t iteration = 0; iteration < 200; ++iteration) {
    std::thread daemon([&] { board->set_permit(member.slot(), iteration + 1); });
    CHECK(member.wait_permit(iteration, kNever));
    daemon.join();
  }
  std::thread daemon([&] { board->set_heavy_open(member.slot(), true); });
  CHECK(member.wait_control(open, kNever));
  daemon.join();
}

TEST(a_silent_daemon_is_not_waited_for_until_it_speaks_again) {
  TemporaryPath path;
  auto board = Board::create(path, soft_board(64 * kMiB, 4));
  const auto silence_ns = static_cast<std::uint64_t>(kSilence.count());
  Member member(board, "job");
  board->set_permit(member.slot(), 0);
  board->set_heavy_open(member.slot(), false);
  board->set_ceiling(member.slot(), kMiB);
  const auto is_free = [&] {
    const bool free = member.permitted(0);
    CHECK_EQUAL(member.heavy_open(), free);
    CHECK_EQUAL(member.try_take(2 * kMiB) == Lease::granted, free);
    if (free) member.give(2 * kMiB);
    return free;
  };
  CHECK(!is_free());  // there is no heartbeat: controls count
  board->beat(now_ns() - 100'000'000, 64 * kMiB);
  CHECK(!is_free());  // late by load
  board->beat(now_ns() - silence_ns - 1, 64 * kMiB);
  CHECK(is_free());
  CHECK(member.try_take(65 * kMiB) == Lease::full);  // the capacity counts always
  CHECK(member.wait_permit(0, in(std::chrono::seconds(20))));
  board->beat(now_ns(), 64 * kMiB);
  CHECK(!is_free());
  board->beat(now_ns() + 10 * silence_ns, 64 * kMiB);  // damaged
  CHECK(is_free());
  board->stop_beating();
  CHECK(!is_free());
  CHECK(board->daemon_silent(now_ns() - silence_ns - 1));
  CHECK(!board->daemon_silent(now_ns()));
}

int main(int count, char** arguments) { return check::main(count, arguments); }

TEST(a_snapshot_has_the_slots_also_while_a_process_stands_inside_a_lease_operation) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(10 * kMiB, 2));
  Member member(board, "job");
  CHECK(member.try_take(kMiB) == Lease::granted);
  board->layout().slots[member.slot()].begun.fetch_add(1);
  const BoardSnapshot snapshot = board->snapshot();
  CHECK(!snapshot.consistent);
  CHECK_EQUAL(snapshot.slots.size(), 1U);
  CHECK_EQUAL(snapshot.used_bytes, kMiB);
  board->layout().slots[member.slot()].ended.fetch_add(1);
}

TEST(a_process_that_closed_the_boards_file_by_mistake_keeps_its_slot_and_reaps_no_other) {
  TemporaryPath path, other_path;
  const auto board = Board::open_or_create(path, soft_board(64 * kMiB, 2)), others = Board::open(path);
  Member member(board, "mistaken"), other(others, "other");
  CHECK(member.try_take(2 * kMiB) == Lease::granted && other.try_take(4 * kMiB) == Lease::granted);
  const int number = board->descriptor();
  close(number);
  CHECK_EQUAL(board->reap() + others->reap(), 0U);
  const int own = open(other_path.text().c_str(), O_RDWR | O_CREAT, 0600);  // a file of the program
  CHECK_EQUAL(own, number);
  CHECK_EQUAL(board->reap() + others->reap(), 0U);
  CHECK(member.try_take(2 * kMiB) == Lease::granted);
  CHECK_EQUAL(board->used_bytes(), 8 * kMiB);
}

TEST(a_board_never_takes_the_place_of_a_standard_file) {
  TemporaryPath path;
  const auto board = Board::open_or_create(path, soft_board(64 * kMiB, 2));
  const int error = dup(STDERR_FILENO);
  close(STDERR_FILENO);
  const int number = Board::open(path)->descriptor();
  dup2(error, STDERR_FILENO);
  close(error);
  CHECK(number > STDERR_FILENO);
}
