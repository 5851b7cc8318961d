// SM tokens: never more than SMs, deadline jobs first, in the order of requests, none forgotten; shares of SM time.
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "board_layout.h"
#include "sm_lane.h"
#include "sm_pace.h"
#include "sm_queue.h"
#include "support.h"

using namespace support;

namespace {

std::size_t queued(const Board& board) {
  std::size_t count = 0;
  for (const LaneLayout& lane : sm_region(board).lanes) count += LaneWord::unpack(lane.word.load()).queued();
  return count;
}

}  // namespace

TEST(tokens_are_taken_and_given_back) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(kMiB, 4));
  Member member(board, "job");
  SmLane lane(member);
  CHECK(lane.acquire(3));
  CHECK_EQUAL(lane.held(), 3U);
  CHECK_EQUAL(tokens_granted(sm_region(*board), kNoSlot), 3U);
  CHECK_EQUAL(tokens_granted(sm_region(*board), 0), 3U);
  CHECK_THROWS(std::logic_error, "holds SM tokens already", lane.acquire(1));
  lane.release();
  lane.release();
  CHECK_EQUAL(tokens_granted(sm_region(*board), kNoSlot), 0U);
  CHECK_THROWS(std::invalid_argument, "width 5 on a device of 4", lane.acquire(5));
  CHECK_THROWS(std::invalid_argument, "width 0", lane.acquire(0));
}

TEST(an_sm_is_free_until_the_requests_of_all_lanes_cover_every_sm) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(kMiB, 2));
  Member member(board, "job");
  SmLane one(member), other(member);
  CHECK(any_sm_free(sm_region(*board)));
  CHECK(one.acquire(1));
  CHECK(any_sm_free(sm_region(*board)));
  CHECK(other.acquire(1));
  CHECK(!any_sm_free(sm_region(*board)));
  one.release();
  CHECK(any_sm_free(sm_region(*board)));
}

TEST(opening_a_lane_too_many_fails_in_one_line_until_a_lane_is_free) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(kMiB, 4));
  Member member(board, "job");
  std::vector<std::unique_ptr<SmLane>> lanes;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) lanes.push_back(std::make_unique<SmLane>(member));
  CHECK_THROWS(BoardError, "all 256 SM lanes are taken", SmLane{member});
  lanes.pop_back();
  SmLane again(member);
  CHECK(again.acquire(4));
}

TEST(requests_are_served_in_order_and_a_wide_one_is_not_overtaken) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(kMiB, 4));
  board->set_patience(std::chrono::hours(1));
  Member member(board, "job");
  SmLane first(member);
  CHECK(first.acquire(3));
  // One SM is free, but a request of width 4 came before the narrow ones.
  const std::vector<std::uint32_t> widths = {4, 1, 1, 2, 3, 1, 4, 1};
  std::vector<std::thread> threads;
  std::vector<std::size_t> order;
  std::atomic<std::size_t> served{0};
  std::mutex mutex;
  for (std::size_t index = 0; index < widths.size(); ++index) {
    threads.emplace_back([&, index] {
      SmLane lane(member);
      CHECK(lane.acquire(widths[index]));
      {
        const std::lock_guard lock(mutex);
        order.push_back(index);
        ++served;
      }
      // Requests are released in turn: one that runs beside others waits until those before it are noted.
      CHECK(eventually([&] { return served > index; }));
      lane.release();
    });
    CHECK(eventually([&] { return queued(*board) == index + 2; }));
  }
  CHECK_EQUAL(tokens_granted(sm_region(*board), kNoSlot), 3U);
  CHECK_EQUAL(served.load(), 0U);
  first.release();
  for (std::thread& thread : threads) thread.join();
  // Requests that run at the same time may note themselves in either order: compare the groups.
  std::size_t done = 0;
  while (done < order.size()) {
    std::uint32_t width = 0;
    std::size_t group = done;
    while (group < widths.size() && (width += widths[group]) <= 4) ++group;
    for (std::size_t at = done; at < group; ++at) CHECK(order[at] < group);
    done = group;
  }
}

TEST(a_late_request_leaves_the_queue_and_lets_others_pass) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(kMiB, 2));
  board->set_patience(std::chrono::hours(1));
  Member member(board, "job");
  SmLane holder(member), wide(member), narrow(member);
  CHECK(holder.acquire(1));
  CHECK(!wide.acquire(2, in(std::chrono::milliseconds(2))));
  CHECK_EQUAL(wide.held(), 0U);
  CHECK(narrow.acquire(1));
  holder.release();
  narrow.release();
  CHECK(wide.acquire(2));
}

TEST(a_late_wide_request_wakes_the_narrow_one_behind_it) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(kMiB, 2));
  board->set_patience(std::chrono::hours(1));
  Member member(board, "job");
  SmLane holder(member);
  CHECK(holder.acquire(1));
  std::thread wide([&] {
    SmLane lane(member);
    CHECK(!lane.acquire(2, in(std::chrono::milliseconds(30))));
  });
  CHECK(eventually([&] { return queued(*board) == 2; }));
  std::thread narrow([&] {
    SmLane lane(member);
    CHECK(lane.acquire(1));
  });
  narrow.join();
  wide.join();
}

TEST(renew_keeps_the_tokens_until_another_lane_waits) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(kMiB, 2));
  board->set_patience(std::chrono::hours(1));
  Member member(board, "job");
  SmLane lane(member);
  CHECK(lane.acquire(2));
  CHECK(lane.renew(2));
  CHECK(!lane.renew(1));  // another width is another request
  CHECK_EQUAL(lane.held(), 1U);
  CHECK(!lane.renew(2));
  std::atomic<bool> had_it{false};
  std::thread other([&] {
    SmLane mine(member);
    CHECK(mine.acquire(1));
    had_it = true;
  });
  CHECK(eventually([&] { return queued(*board) == 2; }));
  CHECK(lane.renew(2, 3'600'000'000'000));  // the turn is young
  CHECK(!had_it);
  CHECK(!lane.renew(2, 0));
  CHECK(had_it);
  other.join();
}

TEST(the_lane_that_has_run_longest_makes_room_for_the_first_in_line) {
  constexpr std::uint64_t kTurn_ns = 1'000'000'000;
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(kMiB, 2));
  board->set_patience(std::chrono::hours(1));
  Member member(board, "job");
  SmLane elder(member);
  SmLane younger(member);
  CHECK(elder.acquire(1));
  CHECK(younger.acquire(1));
  std::atomic<bool> had_it{false};
  std::thread other([&] {
    SmLane mine(member);
    CHECK(mine.acquire(1));
    had_it = true;
  });
  CHECK(eventually([&] { return queued(*board) == 3; }));
  CHECK(elder.renew(1, kTurn_ns));  // both have now seen the waiting lane
  CHECK(younger.renew(1, kTurn_ns));
  std::this_thread::sleep_for(std::chrono::nanoseconds(kTurn_ns));
  CHECK(younger.renew(1, kTurn_ns));
  CHECK(!had_it);
  std::thread again([&] { CHECK(!elder.renew(1, kTurn_ns)); });  // it waits in line now, unless the other is done
  CHECK(eventually([&] { return had_it.load(); }));
  other.join();
  again.join();
}

TEST(a_narrow_kernel_keeps_tokens_that_would_not_help_the_first_in_line) {
  constexpr std::uint64_t kHour_ns = 3'600'000'000'000;
  for (const std::uint32_t wanted : {1U, 2U}) {
    TemporaryPath path;
    auto board = Board::open_or_create(path, soft_board(kMiB, 2));
    board->set_patience(std::chrono::hours(1));
    Member member(board, "job");
    SmLane lane(member);
    CHECK(lane.acquire(2));
    std::thread other([&] {
      SmLane mine(member);
      CHECK(mine.acquire(wanted));
    });
    CHECK(eventually([&] { return queued(*board) == 2; }));
    CHECK_EQUAL(lane.renew(1, kHour_ns), wanted == 2);
    CHECK_EQUAL(lane.held(), wanted);
    lane.release();
    other.join();
  }
}

TEST(a_younger_lane_makes_room_when_the_elder_does_not) {
  constexpr std::uint64_t kTurn_ns = 50'000'000;
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(kMiB, 2));
  board->set_patience(std::chrono::hours(1));
  Member member(board, "job");
  SmLane elder(member);
  SmLane younger(member);
  CHECK(elder.acquire(1));
  CHECK(younger.acquire(1));
  std::thread other([&] {
    SmLane mine(member);
    CHECK(mine.acquire(1));
  });
  CHECK(eventually([&] { return queued(*board) == 3; }));
  CHECK(younger.renew(1, kTurn_ns));
  std::this_thread::sleep_for(std::chrono::nanoseconds(2 * kTurn_ns));
  CHECK(!younger.renew(1, kTurn_ns));
  other.join();
}

namespace {

constexpr std::uint64_t kHour_ns = 3'600'000'000'000;

/// A thread that asks for tokens and, once it has them, holds them until it is told to end.
class Asking {
 public:
  Asking(const std::shared_ptr<Board>& board, Member& member, std::uint32_t width) {
    const std::size_t before = queued(*board);
    thread_ = std::thread([this, &member, width] {
      SmLane lane(member);
      CHECK(lane.acquire(width));
      has_them = true;
      CHECK(eventually([&] { return ends.load(); }));
    });
    CHECK(eventually([&] { return queued(*board) == before + 1; }));
  }
  ~Asking() {
    ends = true;
    thread_.join();
  }
  std::atomic<bool> has_them{false};
  std::atomic<bool> ends{false};

 private:
  std::thread thread_;
};

}  // namespace

TEST(a_deadline_job_goes_before_requests_that_came_earlier_and_have_not_begun) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(kMiB, 2));
  board->set_patience(std::chrono::hours(1));
  Member best_effort(board, "training"), deadline(board, "server");
  board->set_deadline_class(deadline.slot(), true);
  SmLane running(best_effort);
  CHECK(running.acquire(2));
  Asking earlier(board, best_effort, 1);
  Asking first(board, deadline, 2);
  running.release();
  CHECK(eventually([&] { return first.has_them.load(); }));
  CHECK(!earlier.has_them);
  first.ends = true;
  CHECK(eventually([&] { return earlier.has_them.load(); }));
}

TEST(a_turn_ends_at_once_when_a_deadline_job_waits_and_a_deadline_job_keeps_its_own) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(kMiB, 1));
  board->set_patience(std::chrono::hours(1));
  Member best_effort(board, "training"), deadline(board, "server");
  board->set_deadline_class(deadline.slot(), true);
  SmLane training(best_effort);
  CHECK(training.acquire(1));
  std::atomic<bool> served{false};
  std::thread serving([&] {
    SmLane lane(deadline);
    CHECK(lane.acquire(1));
    served = true;
    CHECK(eventually([&] { return queued(*board) == 2; }));  // the training waits
    CHECK(lane.renew(1, 0));                                 // which ends no turn of a deadline job
  });
  CHECK(eventually([&] { return queued(*board) == 2; }));
  CHECK(!training.renew(1, kHour_ns));
  CHECK(served);
  serving.join();
}

TEST(a_job_pauses_until_its_sm_time_is_within_its_share) {
  constexpr std::uint64_t kMs = 1'000'000;
  SmPace pace;
  const double rate = 0.5 * 2;  // half of two SMs
  CHECK_EQUAL(pace.next_ns(100 * kMs, rate), 100 * kMs);
  pace.ran(100 * kMs, 110 * kMs, 2, rate);  // 20 ms of one SM, of which 10 were its share meanwhile
  CHECK_EQUAL(pace.next_ns(110 * kMs, rate), 120 * kMs - SmPace::kAheadNs);
  CHECK_EQUAL(pace.next_ns(119 * kMs, rate), 119 * kMs);
  pace.ran(130 * kMs, 140 * kMs, 1, rate);  // a kernel within the share never pauses the job
  CHECK_EQUAL(pace.next_ns(140 * kMs, rate), 140 * kMs);
}

TEST(two_streams_of_a_job_share_its_share) {
  constexpr std::uint64_t kMs = 1'000'000;
  SmPace pace;
  const double rate = 0.5 * 2;
  for (int stream = 0; stream < 2; ++stream) pace.next_ns(100 * kMs, rate);
  pace.ran(100 * kMs, 110 * kMs, 1, rate);
  pace.ran(100 * kMs, 110 * kMs, 1, rate);
  CHECK_EQUAL(pace.next_ns(110 * kMs, rate), 120 * kMs - SmPace::kAheadNs);
}

TEST(lanes_never_hold_more_tokens_than_sms_and_no_wake_up_is_lost) {
  for (const std::uint32_t sms : {1U, 2U, 5U}) {
    TemporaryPath path;
    auto board = Board::open_or_create(path, soft_board(kMiB, sms));
    board->set_patience(std::chrono::hours(1));  // a lost wake-up hangs the test
    std::atomic<std::uint32_t> running{0};
    std::vector<std::thread> threads;
    for (unsigned seed = 0; seed < 5; ++seed) {
      threads.emplace_back([&, seed] {
        Member member(board, "job");
        board->set_deadline_class(member.slot(), seed % 2 == 0);
        SmLane lane(member);
        std::mt19937 random(seed);
        for (int kernel = 0; kernel < 2000; ++kernel) {
          const auto width = static_cast<std::uint32_t>(1 + random() % sms);
          CHECK(lane.acquire(width));
          CHECK(running.fetch_add(width) + width <= sms);
          if (random() % 4 == 0) std::this_thread::yield();
          running.fetch_sub(width);
          if (random() % 3 == 0) {
            lane.renew(width, random() % 2 * 1000);
            CHECK(running.fetch_add(width) + width <= sms);
            running.fetch_sub(width);
          }
          lane.release();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK_EQUAL(tokens_granted(sm_region(*board), kNoSlot), 0U);
  }
}

int main(int count, char** arguments) { return check::main(count, arguments); }
