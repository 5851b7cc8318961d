// A process killed after any single instruction of a board operation: the next reaper puts everything right.
//
// The parent steps the child through the operation with ptrace and kills it after 1, 2, 3 ... instructions, so that
// every interrupted state is met, not only the likely ones.
#include <sys/ptrace.h>

#include <functional>
#include <optional>

#include "board_layout.h"
#include "reaper.h"
#include "sm_lane.h"
#include "sm_queue.h"
#include "support.h"

using namespace support;

namespace {

/// What a doomed child does: `prepare` runs freely, `operate` step by step.
struct Doomed {
  virtual ~Doomed() = default;
  virtual void prepare(const std::shared_ptr<Board>& board) = 0;
  virtual void operate() = 0;
};

enum class End { killed, finished };

/// Kills a child after `steps` instructions of its operation; runs `while_stopped` before that.
End kill_after(
    const std::string& path, Doomed& doomed, long steps, const std::function<void()>& while_stopped = [] {}) {
  Child child([&] {
    doomed.prepare(Board::open(path));
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    raise(SIGSTOP);
    doomed.operate();
    raise(SIGSTOP);  // marks the end of the operation
  });
  int status = 0;
  CHECK(waitpid(child.pid(), &status, 0) == child.pid());
  CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
  for (long step = 0; step < steps; ++step) {
    CHECK(ptrace(PTRACE_SINGLESTEP, child.pid(), nullptr, nullptr) == 0);
    CHECK(waitpid(child.pid(), &status, 0) == child.pid());
    CHECK(WIFSTOPPED(status));
    if (WSTOPSIG(status) == SIGSTOP) return End::finished;
  }
  while_stopped();
  child.kill();
  return End::killed;
}

/// Checks that nothing is lost: after a reap a new process can have the whole device.
void whole_device_is_free(const std::string& path) {
  auto board = Board::open(path);
  CHECK(reaped(*board));
  CHECK(board->snapshot().slots.empty());
  Member member(board, "heir");
  CHECK(member.try_take(board->capacity_bytes()) == Lease::granted);
  SmLane lane(member);
  CHECK(lane.acquire(sm_region(*board).sms, in(std::chrono::seconds(5))));
  for (const SlotLayout& slot : board->layout().slots) CHECK_EQUAL(slot.begun.load(), slot.ended.load());
}

void survive_every_instruction(Doomed& doomed, long stride = 1) {
  TemporaryPath path;
  Board::open_or_create(path, soft_board(10 * kMiB, 2));
  long steps = 1;
  while (kill_after(path, doomed, steps) == End::killed) {
    whole_device_is_free(path);
    steps += stride;
  }
  whole_device_is_free(path);
  std::printf("  %ld instructions\n", steps);
  CHECK(steps > 20);
}

struct WithMember : Doomed {
  void prepare(const std::shared_ptr<Board>& board) override {
    member.emplace(board, "doomed");
    CHECK(member->try_take(3 * kMiB) == Lease::granted);
  }
  std::optional<Member> member;
};

}  // namespace

TEST(taking_a_lease) {
  struct : WithMember {
    void operate() override { member->try_take(4 * kMiB); }
  } doomed;
  survive_every_instruction(doomed);
}

TEST(giving_a_lease_back) {
  struct : WithMember {
    void operate() override { member->give(2 * kMiB); }
  } doomed;
  survive_every_instruction(doomed);
}

namespace {

/// An iteration in a lane, on a board whose bytes all belong to lanes.
struct InLane : WithMember {
  void prepare(const std::shared_ptr<Board>& board) override {
    board->set_lane_bytes(0, 5 * kMiB);
    board->set_lane_bytes(1, 2 * kMiB);
    WithMember::prepare(board);
    board->set_lane(member->slot(), 0);
    member->enter_iteration(member->begin_iteration());
    member->set_expected_leases(8 * kMiB);
    CHECK(member->try_take(kMiB) == Lease::granted);
  }
};

/// Checks that nothing of a lane is lost: after a reap another process can fill it, and no more.
void lane_is_free(const std::string& path) {
  auto board = Board::open(path);
  CHECK(reaped(*board));
  Member heir(board, "heir");
  board->set_lane_bytes(0, 5 * kMiB);
  board->set_lane_bytes(1, 5 * kMiB);
  board->set_lane(heir.slot(), 0);
  heir.begin_iteration();
  CHECK(heir.try_take(5 * kMiB) == Lease::granted);
  CHECK(heir.try_take(1) == Lease::reserved);
}

void survive_every_instruction_in_a_lane(Doomed& doomed, long stride) {
  TemporaryPath path;
  Board::open_or_create(path, soft_board(10 * kMiB, 2));
  for (long steps = 1; kill_after(path, doomed, steps) == End::killed; steps += stride) lane_is_free(path);
  lane_is_free(path);
}

}  // namespace

TEST(taking_a_lease_in_a_lane) {
  struct : InLane {
    void operate() override { member->try_take(4 * kMiB); }
  } doomed;
  survive_every_instruction_in_a_lane(doomed, 3);
}

TEST(ending_an_iteration_in_a_lane) {
  struct : InLane {
    void operate() override {
      member->end_iteration();
      member->give(kMiB);
    }
  } doomed;
  survive_every_instruction_in_a_lane(doomed, 1);
}

TEST(moving_a_process_to_another_lane_and_resizing_lanes) {
  struct : InLane {
    void prepare(const std::shared_ptr<Board>& opened) override { InLane::prepare(board = opened); }
    void operate() override {
      board->set_lane_bytes(0, 2 * kMiB);
      board->set_lane(member->slot(), 1);
      board->set_lane_bytes(1, 4 * kMiB);
    }
    std::shared_ptr<Board> board;
  } doomed;
  survive_every_instruction_in_a_lane(doomed, 3);
}

TEST(taking_and_giving_back_sm_tokens) {
  struct : WithMember {
    void prepare(const std::shared_ptr<Board>& board) override {
      WithMember::prepare(board);
      lane.emplace(*member);
    }
    void operate() override {
      lane->acquire(2);
      lane->release();
    }
    std::optional<SmLane> lane;
  } doomed;
  survive_every_instruction(doomed);
}

TEST(opening_a_lane) {
  struct : WithMember {
    void operate() override { lane.emplace(*member); }
    std::optional<SmLane> lane;
  } doomed;
  survive_every_instruction(doomed, 5);
}

namespace {

/// Reaps a slot whose owner died holding a lease, tokens, and bytes in transit.
struct Reaping : Doomed {
  void prepare(const std::shared_ptr<Board>& opened) override {
    board = opened;
    Child victim([&] {
      Member member(board = Board::open(board->path()), "victim");
      SmLane lane(member);
      lane.acquire(2);
      member.try_take(3 * kMiB);
      BoardLayout& layout = board->layout();
      layout.slots[member.slot()].begun.fetch_add(1);  // cut short: used raised, held not yet
      layout.used.add(kMiB);
      raise(SIGKILL);
    });
    CHECK_EQUAL(victim.wait(), -SIGKILL);
  }
  void operate() override { board->reap(); }
  std::shared_ptr<Board> board;
};

struct Joining : Doomed {
  void prepare(const std::shared_ptr<Board>& opened) override { board = opened; }
  void operate() override { member.emplace(board, "doomed"); }
  std::shared_ptr<Board> board;
  std::optional<Member> member;
};

struct Leaving : WithMember {
  void operate() override { member.reset(); }
};

}  // namespace

TEST(leaving_the_board) {
  Leaving doomed;
  survive_every_instruction(doomed, 5);
}

TEST(joining_the_board) {
  Joining doomed;
  survive_every_instruction(doomed, 797);
}

TEST(reaping_another_process) {
  Reaping doomed;
  survive_every_instruction(doomed, 101);
}

TEST(lowering_the_capacity_is_never_forgotten_and_nothing_is_remembered_that_was_not) {
  struct : Doomed {
    void prepare(const std::shared_ptr<Board>& opened) override { board = opened; }
    void operate() override { board->set_capacity(6 * kMiB); }
    std::shared_ptr<Board> board;
  } doomed;
  TemporaryPath path;
  auto board = Board::create(path, soft_board(10 * kMiB, 2));
  for (long steps = 1;; steps += 7) {
    Member member(board, "job"), later(Board::open(path), "later");
    const bool finished = kill_after(path, doomed, steps) == End::finished;
    const bool lowered = board->capacity_bytes() == 6 * kMiB;
    board->set_capacity(4 * kMiB);  // the next daemon
    CHECK_EQUAL(member.largest_capacity_bytes(), 10 * kMiB);
    CHECK_EQUAL(later.largest_capacity_bytes(), 10 * kMiB);
    Member newcomer(board, "newcomer");
    CHECK_EQUAL(newcomer.largest_capacity_bytes(), 4 * kMiB);
    CHECK(lowered || !finished);
    board->set_capacity(10 * kMiB);
    if (finished) break;
  }
}

TEST(a_process_stopped_anywhere_in_joining_leaving_or_reaping_blocks_no_other) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(10 * kMiB, 2));
  Joining joining;
  Leaving leaving;
  Reaping reaping;
  const auto others_go_on = [&] {
    board->reap();
    board->beat(1, 10 * kMiB);
    Member member(Board::open(path), "other");
    SmLane lane(member);
    CHECK(member.try_take(5 * kMiB) == Lease::granted);
    member.give(5 * kMiB);
  };
  const auto stop_everywhere = [&](Doomed& doomed, long stride) {
    for (long steps = 1; kill_after(path, doomed, steps, others_go_on) == End::killed; steps += stride) board->reap();
  };
  stop_everywhere(joining, 1499);
  stop_everywhere(leaving, 101);
  stop_everywhere(reaping, 499);
  whole_device_is_free(path);
}

TEST(a_request_for_tokens_interrupted_anywhere_never_lets_two_run_at_once) {
  struct Notes {
    std::atomic<std::uint32_t> running{0};
    std::atomic<bool> both{false};
    void enter() { both = both || running.fetch_add(1) > 0; }
    void leave() { running.fetch_sub(1); }
  };
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(10 * kMiB, 2));
  board->set_patience(std::chrono::hours(1));  // no lane takes over from a process that is merely stopped
  Member member(board, "other");
  SmLane lane(member);
  Shared<Notes> notes;
  int overtaken = 0;
  for (long steps = 1, finished = 0; finished == 0; steps += 2) {
    Child child([&] {
      Member own(Board::open(path), "interrupted");
      SmLane slow(own);
      ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
      raise(SIGSTOP);
      slow.acquire(2);
      notes->enter();
      raise(SIGSTOP);
      notes->leave();
    });
    int status = 0;
    CHECK(waitpid(child.pid(), &status, 0) == child.pid());
    for (long step = 0; step < steps && finished == 0; ++step) {
      CHECK(ptrace(PTRACE_SINGLESTEP, child.pid(), nullptr, nullptr) == 0);
      CHECK(waitpid(child.pid(), &status, 0) == child.pid());
      finished = WSTOPSIG(status) == SIGSTOP;
    }
    // The other lane asks now; the first in the queue runs, and the interrupted process goes on.
    const bool mine = lane.acquire(2, in(std::chrono::nanoseconds(0)));
    if (mine) notes->enter();
    overtaken += mine;
    ptrace(PTRACE_CONT, child.pid(), nullptr, nullptr);
    const auto waits = [&] {
      for (const LaneLayout& other : sm_region(*board).lanes)
        if (LaneWord::unpack(other.word.load()).phase == LanePhase::asleep) return true;
      return false;
    };
    if (finished == 0) CHECK(eventually([&] { return notes->running > (mine ? 1U : 0U) || waits(); }));
    if (mine) notes->leave();
    lane.release();
    CHECK(!notes->both);
    if (finished == 0) {
      CHECK(waitpid(child.pid(), &status, 0) == child.pid() && WIFSTOPPED(status));
      ptrace(PTRACE_CONT, child.pid(), nullptr, nullptr);
    }
    CHECK_EQUAL(child.wait(), 0);
    CHECK_EQUAL(notes->running.load(), 0U);
  }
  CHECK(overtaken > 0);
}

int main(int count, char** arguments) { return check::main(count, arguments); }
