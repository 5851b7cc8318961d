// Several processes on one board: limits hold, and whatever happens to one process, the others go on.
#include "process.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "arena.h"
#include "board_layout.h"
#include "host_driver.h"
#include "sm_lane.h"
#include "sm_queue.h"
#include "support.h"

using namespace support;

namespace {

constexpr std::uint64_t kCapacity = 32 * kMiB;
constexpr std::uint32_t kSms = 2;

/// Counters that the processes of a test share outside the board.
struct Notes {
  std::atomic<std::uint64_t> kernels{0};
  std::atomic<std::uint32_t> running{0};  // tokens in use, counted by their users
  std::atomic<std::uint32_t> worst{0};
  std::atomic<bool> stop{false};
};

/// A job that allocates, runs kernels and frees for ever, through the arena and the SM queue.
void be_busy(const std::string& path, Notes& notes, unsigned seed, bool count_running) {
  Member member(Board::open(path), "busy");
  HostDriver driver;
  ArenaOptions options;
  options.keep_bytes = 0;
  options.wait = std::chrono::milliseconds(2);
  Arena arena(driver, member, options);
  SmLane lane(member);
  std::mt19937 random(seed);
  std::vector<Address> blocks;
  member.begin_iteration();
  while (!notes.stop) {
    if (blocks.size() < 8 && random() % 2 == 0) {
      try {
        const Address block = arena.allocate(1 + random() % (2 * kMiB), 0);
        std::memset(reinterpret_cast<void*>(block), 1, 1);
        blocks.push_back(block);
      } catch (const OutOfMemory&) {
        // All processes hold memory and wait for more: free all blocks, or they would wait for ever.
        for (const Address block : blocks) arena.deallocate(block);
        blocks.clear();
      }
    } else if (!blocks.empty()) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      arena.deallocate(blocks.back());
      blocks.pop_back();
    } else {
      member.end_iteration();
      member.begin_iteration();
    }
    driver.launch(0);
    const auto width = static_cast<std::uint32_t>(1 + random() % kSms);
    lane.acquire(width);
    if (count_running) {
      const std::uint32_t now = notes.running.fetch_add(width) + width;
      std::uint32_t worst = notes.worst.load();
      while (worst < now && !notes.worst.compare_exchange_weak(worst, now)) {
      }
      notes.running.fetch_sub(width);
    }
    lane.release();
    driver.complete(0);
    ++notes.kernels;
  }
  for (const Address block : blocks) arena.deallocate(block);
  arena.check_integrity();
}

void nothing_is_lost(Board& board) {
  CHECK(reaped(board));
  CHECK(board.snapshot().slots.empty());
  Member member(Board::open(board.path()), "heir");
  CHECK(member.try_take(kCapacity) == Lease::granted);
  SmLane lane(member);
  CHECK(lane.acquire(kSms, in(std::chrono::seconds(5))));
}

}  // namespace

TEST(several_processes_never_exceed_the_capacity) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(kCapacity, kSms));
  Shared<Notes> notes;
  std::vector<Child> children;
  for (unsigned seed = 0; seed < 4; ++seed) children.emplace_back([&] { be_busy(path, *notes, seed, true); });
  std::uint64_t most = 0;
  int exact = 0;
  while (notes->kernels < 20'000) {
    const BoardSnapshot snapshot = board->snapshot();
    CHECK(snapshot.used_bytes <= kCapacity);
    if (!snapshot.consistent) continue;
    ++exact;
    std::uint64_t held = 0;
    for (const SlotSnapshot& slot : snapshot.slots) held += slot.held_bytes;
    CHECK(held <= kCapacity);
    most = std::max(most, held);
  }
  notes->stop = true;
  for (Child& child : children) CHECK_EQUAL(child.wait(), 0);
  CHECK(exact > 0 && most > kCapacity / 2);
  CHECK(board->high_water_bytes() >= most && board->high_water_bytes() <= kCapacity);
  CHECK(notes->worst > 0 && notes->worst <= kSms);
  CHECK_EQUAL(notes->running.load(), 0U);
  nothing_is_lost(*board);
}

TEST(a_hundred_kills_lose_no_byte_and_no_token) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(kCapacity, kSms));
  Shared<Notes> notes;
  std::mt19937 random(7);
  std::vector<Child> children;
  for (int killed = 0; killed < 100; ++killed) {
    while (children.size() < 3) {
      const auto seed = static_cast<unsigned>(random());
      children.emplace_back([&] { be_busy(path, *notes, seed, false); });
    }
    // Kill at a random moment of their work: after a random number of kernels, then a random number of turns here.
    const std::uint64_t until = notes->kernels + random() % 200;
    CHECK(eventually([&] { return notes->kernels >= until; }));
    for (volatile int turn = static_cast<int>(random() % 3000); turn > 0; turn = turn - 1) {
    }
    Child& victim = children[random() % children.size()];
    victim.kill();
    std::swap(victim, children.back());
    children.pop_back();
    // The survivors go on: what the dead process held is given back without a call of reap().
    const std::uint64_t next = notes->kernels + 10;
    CHECK(eventually([&] { return notes->kernels >= next; }));
    CHECK(board->used_bytes() <= kCapacity);
  }
  children.clear();
  nothing_is_lost(*board);
  CHECK(board->high_water_bytes() <= kCapacity);
}

TEST(a_killed_process_counts_as_gone_even_as_a_zombie) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(kCapacity, kSms));
  Shared<Notes> notes;
  Child child([&] {
    Member member(Board::open(path), "zombie");
    member.try_take(kCapacity);
    notes->kernels = 1;
    pause();
  });
  CHECK(eventually([&] { return notes->kernels == 1; }));
  child.signal(SIGKILL);  // not waited for: a zombie with a valid pid
  CHECK(eventually([&] { return board->reap() == 1; }));
  CHECK_EQUAL(board->used_bytes(), 0U);
}

TEST(a_process_that_could_not_read_when_it_started_is_not_taken_for_gone) {
  CHECK(probe({getpid(), 0}) == ProcessState::running);
  CHECK(!is_recycled({getpid(), 0}));
  CHECK(probe({getpid(), this_process().start_time + 1}) == ProcessState::gone);
}

TEST(a_slot_belongs_to_its_process_whatever_pid_its_words_name) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(kCapacity, kSms));
  Shared<Notes> notes;
  Child child([&] {
    Member member(Board::open(path), "other");
    member.try_take(kMiB);
    notes->kernels = 1;
    pause();
  });
  CHECK(eventually([&] { return notes->kernels == 1; }));
  board->layout().slots[0].pid.store(999'999'999);
  board->layout().slots[0].start_time.fetch_sub(1);
  CHECK_EQUAL(board->reap(), 0U);
  CHECK_EQUAL(board->used_bytes(), kMiB);
  child.kill();
  CHECK(reaped(*board));
}

TEST(a_slot_is_free_when_its_process_becomes_another_program) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(kCapacity, kSms));
  Shared<Notes> notes;
  Child child([&] {
    Member member(Board::open(path), "before");
    member.try_take(kCapacity);
    notes->kernels = 1;
    while (!notes->stop) {
    }
    execlp("sleep", "sleep", "60", nullptr);
  });
  CHECK(eventually([&] { return notes->kernels == 1; }));
  CHECK_EQUAL(board->reap(), 0U);
  notes->stop = true;
  CHECK(eventually([&] { return board->reap() == 1; }));
  CHECK_EQUAL(board->used_bytes(), 0U);
  CHECK(probe({child.pid(), 1}) == ProcessState::gone);  // of another start time
  CHECK(::kill(child.pid(), 0) == 0);
}

TEST(a_child_that_outlives_its_parent_does_not_keep_the_parents_slot) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(kCapacity, kSms));
  Shared<Notes> notes;
  Child parent([&] {
    Member member(Board::open(path), "parent");
    member.try_take(kCapacity);
    if (fork() == 0) {
      notes->worst = static_cast<std::uint32_t>(getpid());
      pause();
    }
    while (notes->worst == 0) {
    }
    notes->kernels = 1;
    pause();
  });
  CHECK(eventually([&] { return notes->kernels == 1; }));
  CHECK_EQUAL(board->reap(), 0U);
  parent.kill();
  CHECK(eventually([&] { return board->reap() == 1; }));
  CHECK_EQUAL(board->used_bytes(), 0U);
  ::kill(static_cast<pid_t>(notes->worst.load()), SIGKILL);
}

TEST(a_waiter_is_served_from_what_a_dead_process_held) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(kCapacity, kSms));
  Shared<Notes> notes;
  Child child([&] {
    Member member(Board::open(path), "holder");
    SmLane lane(member);
    lane.acquire(kSms);
    member.try_take(kCapacity);
    notes->kernels = 1;
    pause();
  });
  CHECK(eventually([&] { return notes->kernels == 1; }));
  Member member(board, "waiter");
  SmLane lane(member);
  Child killer([&] {
    // Wait until the waiter sleeps on its lease.
    auto own = Board::open(path);
    CHECK(eventually([&] { return own->snapshot().slots.at(1).wanted_bytes > 0; }));
    child.signal(SIGKILL);
  });
  CHECK(member.take(kCapacity, in(std::chrono::seconds(20))) == Lease::granted);
  CHECK(lane.acquire(kSms, in(std::chrono::seconds(20))));
  CHECK_EQUAL(killer.wait(), 0);
}

TEST(a_stopped_holder_of_tokens_does_not_stop_the_device) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(kCapacity, kSms));
  Shared<Notes> notes;
  Child child([&] {
    Member member(Board::open(path), "stopped");
    SmLane lane(member);
    lane.acquire(kSms);
    notes->kernels = 1;
    while (!notes->stop) {
    }
    lane.release();  // others have taken the tokens over, so none is given back
    CHECK_EQUAL(lane.held(), 0U);
    lane.acquire(1);
    notes->kernels = 2;
    lane.release();
  });
  CHECK(eventually([&] { return notes->kernels == 1; }));
  child.stop();
  Member member(board, "running");
  SmLane lane(member);
  CHECK(lane.acquire(1, in(std::chrono::seconds(20))));
  CHECK_EQUAL(tokens_granted(sm_region(*board), kNoSlot), 1U);
  notes->stop = true;
  child.signal(SIGCONT);
  CHECK(eventually([&] { return notes->kernels == 2; }));
  CHECK_EQUAL(lane.held(), 1U);
  CHECK_EQUAL(child.wait(), 0);
  CHECK_EQUAL(tokens_granted(sm_region(*board), kNoSlot), 1U);
}

TEST(a_stopped_waiter_does_not_hold_up_the_queue_and_queues_again) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(kCapacity, kSms));
  Shared<Notes> notes;
  Member member(board, "running");
  SmLane holder(member), narrow(member);
  CHECK(holder.acquire(1));
  Child child([&] {
    Member own(Board::open(path), "stopped");
    SmLane lane(own);
    CHECK(lane.acquire(2));
    notes->kernels = 1;
  });
  CHECK(eventually([&] { return LaneWord::unpack(sm_region(*board).lanes[2].word.load()).queued(); }));
  child.stop();
  CHECK(narrow.acquire(1, in(std::chrono::seconds(20))));
  narrow.release();
  holder.release();
  child.signal(SIGCONT);
  CHECK_EQUAL(child.wait(), 0);
  CHECK_EQUAL(notes->kernels.load(), 1U);
}

TEST(a_stopped_waiter_for_memory_does_not_hold_up_the_younger) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(kCapacity, kSms));
  Member holder(board, "holder"), young(board, "young");
  CHECK(holder.try_take(kCapacity - kMiB) == Lease::granted);
  Child old([&] {
    Member own(Board::open(path), "old");
    own.begin_iteration();
    CHECK(own.take(2 * kMiB, in(std::chrono::seconds(60))) == Lease::granted);
  });
  CHECK(eventually([&] { return board->layout().slots[2].wanted.load() > 0; }));
  young.begin_iteration();
  CHECK(young.try_take(kMiB) == Lease::reserved);
  old.stop();
  CHECK(young.take(kMiB, in(std::chrono::seconds(20))) == Lease::granted);
  old.signal(SIGCONT);
  // When the old process goes on, it claims memory again, and the next free bytes go to it.
  CHECK(eventually([&] { return young.try_take(kMiB) != Lease::granted; }));
  holder.give(2 * kMiB);
  CHECK_EQUAL(old.wait(), 0);
}

TEST(jobs_that_are_stopped_and_continued_at_random_lose_nothing) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(kCapacity, kSms));
  Shared<Notes> notes;
  std::vector<Child> children;
  for (unsigned seed = 0; seed < 3; ++seed) children.emplace_back([&] { be_busy(path, *notes, seed, false); });
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    const Child& child = children[random() % children.size()];
    const std::uint64_t until = notes->kernels + random() % 300;
    CHECK(eventually([&] { return notes->kernels >= until; }));
    child.stop();
    const std::uint64_t next = notes->kernels + 100;
    CHECK(eventually([&] { return notes->kernels >= next; }));
    CHECK(board->used_bytes() <= kCapacity);
    child.signal(SIGCONT);
  }
  notes->stop = true;
  for (Child& child : children) CHECK_EQUAL(child.wait(), 0);
  nothing_is_lost(*board);
}

TEST(a_forked_child_has_no_part_in_its_parents_slot) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(kCapacity, kSms));
  HostDriver driver;
  {
    Member member(board, "parent");
    Arena arena(driver, member);
    SmLane lane(member);
    const Address block = arena.allocate(kMiB, 0);
    CHECK(lane.acquire(1));
    Child child([&] {
      CHECK(board->forked());
      CHECK_THROWS(BoardError, "forked child", member.try_take(1));
      CHECK_THROWS(BoardError, "forked child", member.give(1));
      CHECK_THROWS(BoardError, "forked child", board->snapshot());
      CHECK_THROWS(BoardError, "forked child", lane.acquire(1));
      CHECK_THROWS(BoardError, "forked child", lane.release());
      CHECK_THROWS(BoardError, "forked child", arena.allocate(1, 0));
      CHECK_THROWS(BoardError, "forked child", arena.stats());
      arena.deallocate(block);  // the child drops a tensor, which has no effect
      lane.~SmLane();
      arena.~Arena();
      member.~Member();
      board.reset();
      // The child can take a slot of its own.
      Member own(Board::open(path), "child");
      CHECK_EQUAL(own.slot(), 1U);
      CHECK(own.try_take(kMiB) == Lease::granted);
    });
    CHECK_EQUAL(child.wait(), 0);
    CHECK_EQUAL(member.held_bytes(), kChunkBytes);
    CHECK_EQUAL(board->snapshot().slots.size(), 1U);
    CHECK_EQUAL(lane.held(), 1U);
    arena.check_integrity();
    arena.deallocate(block);
  }
  nothing_is_lost(*board);
}

TEST(out_of_memory_in_one_process_does_not_disturb_another) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(kCapacity, kSms));
  Shared<Notes> notes;
  Child busy([&] { be_busy(path, *notes, 1, false); });
  CHECK(eventually([&] { return notes->kernels > 10; }));
  Child greedy([&] {
    Member member(Board::open(path), "greedy");
    HostDriver driver;
    ArenaOptions options;
    options.wait = std::chrono::milliseconds(1);
    Arena arena(driver, member, options);
    int failures = 0;
    for (int attempt = 0; attempt < 50; ++attempt) {
      std::vector<Address> blocks;
      try {
        for (;;) blocks.push_back(arena.allocate(3 * kMiB, 0));
      } catch (const OutOfMemory&) {
        ++failures;
      }
      for (const Address block : blocks) arena.deallocate(block);
      arena.check_integrity();
    }
    CHECK_EQUAL(failures, 50);
  });
  CHECK_EQUAL(greedy.wait(), 0);
  const std::uint64_t next = notes->kernels + 100;
  CHECK(eventually([&] { return notes->kernels >= next; }));
  notes->stop = true;
  CHECK_EQUAL(busy.wait(), 0);
  nothing_is_lost(*board);
}

int main(int count, char** arguments) { return check::main(count, arguments); }
