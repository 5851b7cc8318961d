// The launch layer over a fake device: what holds a launch, what it writes to the board, and how requests are served.
#include "launch_port.h"

#include <fcntl.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "blocking.h"
#include "fake_driver.h"
#include "support.h"

using namespace support;

namespace {

constexpr auto kMoment = std::chrono::milliseconds(20);

struct Job {
  explicit Job(const std::shared_ptr<Board>& board, bool request_thread = false)
      : member(board, "job"), port(driver, member, options(request_thread)) {}

  static LaunchOptions options(bool request_thread) {
    LaunchOptions result;
    result.memory_wait = std::chrono::seconds(30);
    result.request_thread = request_thread;
    return result;
  }
  /// One kernel is launched; the device does one.
  void launch() {
    const Launch entered = port.enter(false);
    port.launched();
    driver.streams.launch(0);
  }
  void pass() {
    port.passed();
    driver.streams.complete(0);
  }

  FakeDriver driver;
  Member member;
  LaunchPort port;
};

std::shared_ptr<Board> new_board(const std::string& path, std::uint64_t chunks = 8) {
  return Board::open_or_create(path, {chunks * kChunkBytes});
}

struct Interrupted {};
std::atomic<bool> interrupted{false};
std::function<void()>& handler() {
  static std::function<void()> function;
  return function;
}

/// While it lives, threads that wait are interrupted as soon as `interrupted` is set: once, by the handler.
struct Interrupts {
  explicit Interrupts(std::function<void()> called = [] { throw Interrupted(); }) {
    handler() = std::move(called);
    set_interrupts([] {
      if (interrupted.exchange(false)) handler()();
    });
  }
  ~Interrupts() { set_interrupts(nullptr); }
};

std::string read_some(int socket) {
  char text[64];
  const ssize_t count = recv(socket, text, sizeof(text), MSG_DONTWAIT);
  return count > 0 ? std::string(text, static_cast<std::size_t>(count)) : std::string();
}

}  // namespace

TEST(a_launch_waits_until_launches_are_released) {
  TemporaryPath path;
  Job job(new_board(path));
  job.port.hold_launches();
  CHECK(job.port.try_enter(false) == Entry::held);
  std::atomic<bool> launched{false};
  std::thread program([&] {
    job.launch();
    launched = true;
  });
  CHECK(job.port.wait_for_held_launch(in(std::chrono::seconds(30))));
  CHECK(!launched);
  job.port.release_launches();
  program.join();
  CHECK(launched);
  job.pass();
}

TEST(a_device_looks_closely_at_launches_only_while_one_may_be_held_or_logged) {
  TemporaryPath path;
  auto board = new_board(path);
  FakeDriver driver;
  Member member(board, "job");
  int looks = 0;
  LaunchOptions options = Job::options(false);
  options.look_closely = [&] { ++looks; };
  LaunchPort port(driver, member, options);
  const auto looked = [&] {
    const Launch entered = port.enter(false);
    return std::exchange(looks, 0);
  };
  CHECK(port.is_free());
  CHECK_EQUAL(looked(), 0);
  port.arm_iteration();
  CHECK_EQUAL(std::exchange(looks, 0), 1);  // before the launch that waits for the permit
  CHECK(!port.is_free());
  CHECK_EQUAL(looked(), 1);
  CHECK_EQUAL(looked(), 0);
  board->set_heavy_open(member.slot(), false);
  CHECK_EQUAL(looked(), 1);
  board->set_gate(member.slot(), kAlways, false);
  board->set_inflight_cap(member.slot(), 4);
  CHECK_EQUAL(looked(), 0);  // room is for any launch
  port.start_log(port.measuring_log(), 1);
  CHECK_EQUAL(std::exchange(looks, 0), 1);
  CHECK(!port.is_free());
  port.measuring_log().stop();
  CHECK(port.is_free());
}

TEST(the_board_is_told_of_kernels_when_they_are_marked) {
  TemporaryPath path;
  auto board = new_board(path);
  Job job(board);
  auto& in_flight = job.port.in_flight();
  in_flight.count(3);
  CHECK_EQUAL(in_flight.count(), 3);
  CHECK_EQUAL(in_flight.launched(), 3U);
  CHECK_EQUAL(board->slot(job.member.slot()).launched, 0U);
  in_flight.publish(2);
  in_flight.passed(2);
  CHECK_EQUAL(in_flight.count(), 1);
  CHECK_EQUAL(board->slot(job.member.slot()).launched, 2U);
  CHECK_EQUAL(board->slot(job.member.slot()).done, 2U);
}

TEST(a_member_is_alone_until_another_joins) {
  TemporaryPath path;
  auto board = new_board(path);
  Member member(board, "job");
  CHECK(member.alone());
  {
    Member other(board, "other");
    CHECK(!member.alone());
  }
  CHECK(member.alone());
}

TEST(a_refused_launch_throws_the_reason) {
  TemporaryPath path;
  Job job(new_board(path));
  job.port.refuse_launches("no room for this job");
  CHECK(job.port.try_enter(false) == Entry::refused);
  CHECK_THROWS(LaunchRefused, "no room for this job", job.launch());
}

TEST(every_thread_waits_for_the_permit_of_an_armed_iteration) {
  TemporaryPath path;
  auto board = new_board(path);
  Job job(board);
  board->set_permit(job.member.slot(), 0);
  job.port.arm_iteration();
  CHECK(job.port.try_enter(false) == Entry::permit);
  CHECK(job.port.try_enter(false) == Entry::permit);  // as another thread would
  CHECK_EQUAL(board->slot(job.member.slot()).iteration, 1U);
  CHECK(board->slot(job.member.slot()).state == SlotState::waiting_permit);
  std::thread program([&] { job.launch(); });
  job.driver.clock_ns = 5;
  board->set_permit(job.member.slot(), 1);
  program.join();
  CHECK(board->slot(job.member.slot()).state == SlotState::running);
  job.pass();
  const auto ended = job.port.end_iteration();
  CHECK(ended && ended->index == 0 && ended->began_ns == 5);
  CHECK(!job.port.end_iteration());
}

TEST(the_heavy_gate_holds_heavy_launches_that_would_not_end_in_time_and_the_cap_those_beyond_it) {
  TemporaryPath path;
  auto board = new_board(path);
  Job job(board);
  board->set_heavy_open(job.member.slot(), false);
  CHECK(job.port.try_enter(true) == Entry::heavy);
  CHECK(!job.port.may_run(true) && job.port.may_run(false));
  job.driver.clock_ns = 100;
  board->set_gate(job.member.slot(), 110, false);
  CHECK(job.port.may_run(true, 10) && !job.port.may_run(true, 11) && job.port.may_run(false, 11));
  board->set_gate(job.member.slot(), 110, true);
  CHECK(job.port.may_run(false, 10) && !job.port.may_run(false, 11));
  board->set_gate(job.member.slot(), 110, false);
  job.driver.clock_ns = 111;
  CHECK(!job.port.may_run(true) && job.port.try_enter(true) == Entry::heavy);
  board->set_inflight_cap(job.member.slot(), 1);
  job.launch();
  CHECK(job.port.try_enter(false) == Entry::in_flight_cap);
  std::thread program([&] { job.launch(); });
  job.pass();
  program.join();
  job.pass();
  CHECK_EQUAL(board->slot(job.member.slot()).done, 2U);
}

TEST(the_board_learns_what_an_iteration_may_yet_hold_as_the_device_passes_kernels) {
  TemporaryPath path;
  auto board = new_board(path);
  Job job(board);
  const auto expected = [&] { return board->layout().slots[job.member.slot()].expected_leases.load(); };
  job.port.expect({6 * kChunkBytes, 2 * kChunkBytes}, 2);
  job.port.arm_iteration();
  job.launch();
  CHECK_EQUAL(expected(), 6 * kChunkBytes);
  job.launch();
  job.pass();
  CHECK_EQUAL(expected(), 2 * kChunkBytes);
  job.pass();
  job.port.end_iteration();
  CHECK_EQUAL(expected(), 0U);
}

TEST(a_thread_of_the_port_evicts_and_restores_while_the_program_launches_nothing) {
  TemporaryPath path;
  auto board = new_board(path);
  Job job(board, true);
  const Address block = job.port.arena().allocate(3 * kChunkBytes, 0);
  job.driver.word(block) = 77;
  board->set_request(job.member.slot(), Request::evict);
  CHECK(eventually([&] { return board->slot(job.member.slot()).state == SlotState::evicted; }));
  CHECK_EQUAL(board->used_bytes(), 0U);
  CHECK(job.port.try_enter(false) == Entry::held);
  board->set_request(job.member.slot(), Request::restore);
  CHECK(eventually([&] { return job.member.request() == Request::none; }));
  CHECK_EQUAL(job.driver.word(block), 77U);
  job.launch();
  job.pass();
  job.port.arena().check_integrity();
}

TEST(memory_that_was_to_return_while_the_daemon_was_silent_stays_away_when_it_speaks_again) {
  TemporaryPath path;
  auto board = new_board(path);
  Job job(board, true);
  Member other(board, "other");
  const std::uint32_t slot = job.member.slot();
  const auto seen = [&] { return board->slot(slot); };
  job.port.arena().allocate(6 * kChunkBytes, 0);
  job.member.begin_iteration();
  board->beat(support::now_ns(), 8 * kChunkBytes);
  board->set_request(slot, Request::suspend);
  CHECK(eventually([&] { return seen().state == SlotState::suspended; }));
  other.begin_iteration();
  CHECK(other.try_take(6 * kChunkBytes) == Lease::granted);
  for (const Request asked : {Request::none, Request::suspend}) {
    board->beat(1, 8 * kChunkBytes);  // long ago
    job.member.poke_controls();
    CHECK(eventually([&] { return seen().wanted_bytes > 0; }));
    other.renew_age();  // its next iteration is younger than the one that returns
    CHECK(other.try_take(kChunkBytes) == Lease::reserved);
    board->beat(support::now_ns(), 8 * kChunkBytes);
    board->set_request(slot, asked);
    CHECK(eventually([&] { return seen().wanted_bytes == 0 && seen().request == Request::none; }));
    CHECK(other.take(kChunkBytes, in(std::chrono::seconds(30))) == Lease::granted);
    CHECK(seen().state == SlotState::suspended);
    other.give(kChunkBytes);
  }
  other.give(6 * kChunkBytes);
  board->set_request(slot, Request::resume);
  CHECK(eventually([&] { return seen().held_bytes == 6 * kChunkBytes && seen().request == Request::none; }));
  job.launch();
  job.pass();
}

TEST(a_step_gives_up_a_return_that_only_the_silence_of_the_daemon_began) {
  TemporaryPath path;
  auto board = new_board(path);
  Job job(board);
  Member other(board, "other");
  const std::uint32_t slot = job.member.slot();
  job.port.arena().allocate(6 * kChunkBytes, 0);
  board->beat(support::now_ns(), 8 * kChunkBytes);
  board->set_request(slot, Request::suspend);
  CHECK(job.port.step() == Service::evicted);
  CHECK(other.try_take(6 * kChunkBytes) == Lease::granted);
  for (const Request asked : {Request::none, Request::suspend}) {
    board->beat(1, 8 * kChunkBytes);  // long ago
    CHECK(job.port.step() == Service::busy);
    CHECK(board->slot(slot).wanted_bytes > 0);
    board->beat(support::now_ns(), 8 * kChunkBytes);
    board->set_request(slot, asked);
    CHECK(job.port.step() == (asked == Request::none ? Service::nothing : Service::evicted));
    CHECK(board->slot(slot).wanted_bytes == 0 && board->slot(slot).request == Request::none);
    CHECK(board->slot(slot).state == SlotState::suspended);
  }
  other.give(6 * kChunkBytes);
  board->set_request(slot, Request::resume);
  CHECK(job.port.step() == Service::restored);
}

TEST(a_launch_that_waits_for_memory_lets_its_process_be_evicted) {
  TemporaryPath path;
  auto board = new_board(path);
  Job job(board, true);
  Member other(board, "other");
  job.port.arena().allocate(2 * kChunkBytes, 0);
  CHECK(other.try_take(6 * kChunkBytes) == Lease::granted);
  std::thread program([&] {
    const Launch entered = job.port.prepare();
    job.port.arena().allocate(2 * kChunkBytes, 0);
  });
  CHECK(eventually([&] { return board->slot(job.member.slot()).wanted_bytes > 0; }));
  board->set_request(job.member.slot(), Request::evict);
  CHECK(eventually([&] { return board->slot(job.member.slot()).state == SlotState::evicted; }));
  CHECK_EQUAL(board->slot(job.member.slot()).held_bytes, 0U);
  other.give(6 * kChunkBytes);
  board->set_request(job.member.slot(), Request::restore);
  program.join();
  CHECK_EQUAL(job.member.held_bytes(), 4 * kChunkBytes);
}

TEST(a_launch_that_is_interrupted_while_it_waits_for_memory_is_abandoned) {
  TemporaryPath path;
  auto board = new_board(path);
  Job job(board);
  Member other(board, "other");
  CHECK(other.try_take(8 * kChunkBytes) == Lease::granted);
  const Interrupts interrupts;
  std::atomic<bool> ended{false};
  std::thread program([&] {
    try {
      const Launch entered = job.port.prepare();
      job.port.arena().allocate(kChunkBytes, 0);
    } catch (const Interrupted&) {
      ended = true;
    }
  });
  CHECK(eventually([&] { return board->slot(job.member.slot()).wanted_bytes > 0; }));
  interrupted = true;
  const bool in_time = eventually([&] { return ended.load(); });
  other.give(8 * kChunkBytes);
  program.join();
  CHECK(in_time);
  CHECK_EQUAL(board->slot(job.member.slot()).wanted_bytes, 0U);
  CHECK(job.port.try_enter(false) == Entry::entered);
  CHECK_THROWS(std::runtime_error, "did not end in time", job.port.evict(in(kMoment)));  // only that one is inside
  job.port.gates().leave();
  CHECK_EQUAL(job.port.evict(in(kMoment)), 0U);
  CHECK(job.port.restore(in(kMoment)));
}

TEST(launches_are_interrupted_while_the_memory_is_away_which_returns_as_if_nothing_had_happened) {
  TemporaryPath path;
  auto board = new_board(path);
  Job job(board, true);
  const Address block = job.port.arena().allocate(2 * kChunkBytes, 0);
  job.driver.word(block) = 5;
  const auto state = [&] { return board->slot(job.member.slot()).state; };
  const Interrupts interrupts;
  for (int round = 0; round < 3; ++round) {
    std::atomic<bool> ended{false}, stop{false};
    std::thread program([&] {
      try {
        while (!stop) {
          job.launch();
          job.pass();
        }
      } catch (const Interrupted&) {
        ended = true;
      }
    });
    board->set_request(job.member.slot(), Request::evict);
    CHECK(eventually([&] { return state() == SlotState::evicted; }));
    interrupted = true;
    const bool in_time = eventually([&] { return ended.load(); });
    stop = true;
    board->set_request(job.member.slot(), Request::restore);
    program.join();
    CHECK(in_time);
    CHECK(eventually([&] { return job.member.request() == Request::none; }));
    CHECK_EQUAL(job.driver.word(block), 5U);
  }
  job.port.arena().check_integrity();
}

TEST(the_handler_of_a_signal_launches_only_when_the_memory_is_back) {
  TemporaryPath path;
  auto board = new_board(path);
  Job job(board, true);
  Member other(board, "other");
  const Address block = job.port.arena().allocate(kChunkBytes, 0);
  job.driver.word(block) = 3;
  CHECK(other.try_take(6 * kChunkBytes) == Lease::granted);
  std::atomic<bool> handling{false}, was_away{false};
  const Interrupts interrupts([&] {
    handling = true;
    const Launch entered = job.port.prepare();
    was_away = job.driver.word(block) != 3;
    handling = false;
  });
  std::atomic<bool> allocated{false};
  std::thread program([&] {
    const Launch entered = job.port.prepare();
    job.port.arena().allocate(2 * kChunkBytes, 0);
    allocated = true;
  });
  CHECK(eventually([&] { return board->slot(job.member.slot()).wanted_bytes > 0; }));
  board->set_request(job.member.slot(), Request::evict);
  CHECK(eventually([&] { return board->slot(job.member.slot()).state == SlotState::evicted; }));
  interrupted = true;
  CHECK(eventually([&] { return handling.load(); }));
  other.give(6 * kChunkBytes);
  std::this_thread::sleep_for(kMoment);  // nothing may happen meanwhile
  CHECK(handling);
  board->set_request(job.member.slot(), Request::restore);
  CHECK(eventually([&] { return allocated.load(); }));
  program.join();
  CHECK(!was_away && !handling);
  job.port.arena().check_integrity();
}

TEST(the_board_counts_the_time_in_which_a_job_waits_for_others) {
  TemporaryPath path;
  auto board = new_board(path);
  Job job(board);
  const auto seen = [&] { return board->slot(job.member.slot()); };
  CHECK(seen().waited_ns == 0 && seen().waits_since_ns == 0);
  board->set_permit(job.member.slot(), 0);
  job.port.arm_iteration();
  std::thread first([&] { job.launch(); });
  std::thread second([&] { job.launch(); });
  CHECK(eventually([&] { return seen().waits_since_ns > 0; }));
  board->set_permit(job.member.slot(), 1);
  first.join();
  second.join();
  const std::uint64_t for_permit = seen().waited_ns;
  CHECK(for_permit > 0 && seen().waits_since_ns == 0 && seen().stalled_ns == 0);

  Member other(board, "other");
  CHECK(other.try_take(8 * kChunkBytes) == Lease::granted);
  std::thread program([&] { job.port.arena().allocate(kChunkBytes, 0); });
  CHECK(eventually([&] { return seen().wanted_bytes > 0 && seen().waits_since_ns > 0; }));
  other.give(8 * kChunkBytes);
  program.join();
  CHECK(seen().waited_ns > for_permit && seen().waits_since_ns == 0);
  CHECK(seen().stalled_ns > 0 && seen().stalled_ns <= seen().waited_ns - for_permit);
  job.pass();
  job.pass();
}

TEST(a_job_whose_stderr_takes_nothing_waits_for_a_larger_budget_and_goes_on) {
  TemporaryPath path;
  auto board = new_board(path);
  Job job(board);
  job.port.arena().allocate(3 * kChunkBytes, 0);
  std::array<int, 2> unread{};
  CHECK(pipe2(unread.data(), O_NONBLOCK) == 0);
  for (const std::size_t size : {std::size_t{4096}, std::size_t{1}})
    while (write(unread[1], std::string(size, 'x').data(), size) > 0) {
    }
  CHECK(fcntl(unread[1], F_SETFL, 0) == 0);
  const int real = dup(STDERR_FILENO);
  dup2(unread[1], STDERR_FILENO);
  board->set_capacity(2 * kChunkBytes);
  std::atomic<bool> allocated{false};
  std::thread program([&] {
    job.port.arena().allocate(3 * kChunkBytes, 0);
    allocated = true;
  });
  CHECK(eventually([&] { return board->slot(job.member.slot()).wanted_bytes > 0; }));
  std::this_thread::sleep_for(std::chrono::seconds(2));  // until it would say that the budget is too small
  board->set_capacity(8 * kChunkBytes);
  const bool went_on = eventually([&] { return allocated.load(); });
  dup2(real, STDERR_FILENO);
  close(unread[0]);  // a write that still waits fails
  program.join();
  close(unread[1]);
  close(real);
  CHECK(went_on);
}

TEST(a_restore_does_not_release_launches_that_the_client_holds) {
  TemporaryPath path;
  Job job(new_board(path));
  job.port.hold_launches();
  job.port.evict(in(std::chrono::seconds(30)));
  CHECK(job.port.restore(in(std::chrono::seconds(30))));
  CHECK(job.port.try_enter(false) == Entry::held);
}

TEST(an_eviction_that_waits_too_long_for_a_launch_changes_nothing) {
  TemporaryPath path;
  Job job(new_board(path));
  CHECK(job.port.try_enter(false) == Entry::entered);
  CHECK_THROWS(std::runtime_error, "did not end in time", job.port.evict(in(kMoment)));
  job.port.gates().leave();
  CHECK(job.port.try_enter(false) == Entry::entered);
  job.port.gates().leave();
}

TEST(an_eviction_that_fails_never_reaches_the_launch_that_serves_it) {
  TemporaryPath path;
  auto board = new_board(path);
  Job job(board);
  const Address block = job.port.arena().allocate(kChunkBytes, 0);
  job.driver.word(block) = 9;
  job.driver.copies_until_failure = 0;
  board->set_request(job.member.slot(), Request::evict);
  job.launch();
  job.pass();
  CHECK(job.member.request() == Request::none);
  CHECK(board->slot(job.member.slot()).state != SlotState::evicted);
  CHECK_EQUAL(board->slot(job.member.slot()).held_bytes, kChunkBytes);
  CHECK_EQUAL(job.driver.word(block), 9U);
  job.driver.copies_until_failure = 0;
  board->set_request(job.member.slot(), Request::suspend);
  CHECK(job.port.step() == Service::failed);
  CHECK(job.port.try_enter(false) == Entry::entered);
  job.port.gates().leave();
}

TEST(a_driver_that_has_no_memory_for_a_restore_is_asked_again) {
  TemporaryPath path;
  auto board = new_board(path);
  Job job(board, true);
  const Address block = job.port.arena().allocate(kChunkBytes, 0);
  job.driver.word(block) = 9;
  board->set_request(job.member.slot(), Request::evict);
  CHECK(eventually([&] { return board->slot(job.member.slot()).state == SlotState::evicted; }));
  job.driver.fail_next_back = true;
  board->set_request(job.member.slot(), Request::restore);
  job.launch();
  job.pass();
  CHECK_EQUAL(job.driver.word(block), 9U);
}

namespace {

/// The frame of an iteration's end, here nothing but its duration.
IterationFrame end_of_iteration() { return {std::string{'\x40'} + std::string(7, '\0'), 0}; }

std::uint64_t number(const std::string& bytes) {
  std::uint64_t value = 0;
  for (const char byte : bytes) value = value << 8 | static_cast<unsigned char>(byte);
  return value;
}

/// A line whose sender finds no room after a few kilobytes.
struct NarrowLine {
  NarrowLine() {
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    const int bytes = 4096;
    CHECK(setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)) == 0);
  }
  ~NarrowLine() { close(ends[1]); }
  /// All that is sent until the other side closes the line.
  std::string read_all() const {
    std::string all;
    std::array<char, 65536> some;
    for (ssize_t count = 1; (count = recv(ends[1], some.data(), some.size(), 0)) > 0;)
      all.append(some.data(), static_cast<std::size_t>(count));
    return all;
  }
  int ends[2];
};

}  // namespace

TEST(ends_of_iterations_that_find_no_room_become_one_and_no_duration_is_lost) {
  NarrowLine line;
  Reporter reporter;
  reporter.connect(line.ends[0], 0);
  constexpr std::uint64_t kIterations = 100'000;
  for (std::uint64_t index = 0; index < kIterations; ++index) {
    reporter.send_progress(std::string(8, '\0'));
    reporter.end_iteration(end_of_iteration(), index, 3 * index, 3 * index + 2);
  }
  CHECK_EQUAL(reporter.ended(), kIterations);
  std::string all;
  std::thread reader([&] { all = line.read_all(); });
  reporter.disconnect();
  reader.join();
  CHECK(all.size() % 8 == 0 && all.size() < 16 * kIterations / 4);
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at < all.size(); at += 8) sum += number(all.substr(at, 8));
  CHECK_EQUAL(sum, 2 * kIterations);
}

TEST(a_large_frame_is_sent_behind_the_others_while_the_program_goes_on) {
  NarrowLine line;
  Reporter reporter;
  reporter.connect(line.ends[0], 0);
  const std::string large(5 << 20, 'x');
  CHECK(reporter.send("before ", false));
  CHECK(reporter.send(large, true));
  CHECK(reporter.send(" after", false));
  std::string all;
  std::thread reader([&] { all = line.read_all(); });
  reporter.disconnect();
  reader.join();
  CHECK(all == "before " + large + " after");
}

TEST(a_line_that_nobody_reads_ends_when_too_much_waits_for_it) {
  NarrowLine line;
  Reporter reporter;
  reporter.connect(line.ends[0], 0);
  std::size_t sent = 0;
  while (sent < (8U << 20) && reporter.send(std::string(1000, 'x'), false)) sent += 1000;
  CHECK(sent > 1 << 20 && sent < 2 << 20);
  CHECK(!reporter.send("more", false));
}

TEST(a_process_that_may_have_no_more_threads_sends_what_is_queued_with_a_later_frame) {
  Child job([] {
    NarrowLine line;
    Reporter reporter;
    reporter.connect(line.ends[0], 0);
    const std::string large(40'000, 'x');
    CHECK(mallopt(M_MMAP_THRESHOLD, 1 << 25) == 1 && mallopt(M_TRIM_THRESHOLD, 1 << 25) == 1);
    void* volatile room = std::malloc(1 << 20);  // what the frames take comes from here
    std::free(room);
    rlimit before{};
    CHECK(getrlimit(RLIMIT_AS, &before) == 0);
    const rlimit none{1, before.rlim_max};  // no stack for a thread
    CHECK(setrlimit(RLIMIT_AS, &none) == 0);
    CHECK(reporter.send(large, true));
    CHECK(setrlimit(RLIMIT_AS, &before) == 0);
    CHECK(reporter.send("after", false));
    std::string all;
    std::thread reader([&] { all = line.read_all(); });
    reporter.disconnect();
    reader.join();
    CHECK(all == large + "after");
  });
  CHECK_EQUAL(job.wait(), 0);
}

TEST(reports_are_sent_in_order_when_the_device_has_passed_the_work) {
  TemporaryPath path;
  Job job(new_board(path));
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  job.port.reporter()->connect(ends[0], 0);  // which owns it
  job.launch();
  job.port.report_after("first ");
  job.launch();
  job.port.report_after("second ");
  const std::string frame = std::string("end ") + '\x40' + std::string(7, '\0');
  job.port.report_iteration(IterationFrame(frame, 4), {0, 1});
  CHECK(read_some(ends[1]).empty());
  job.driver.clock_ns = 258;
  job.pass();
  CHECK(read_some(ends[1]) == "first ");
  job.pass();
  CHECK(read_some(ends[1]) == std::string("second end \0\0\0\0\0\0\1\1", 19));
  CHECK_EQUAL(job.port.reporter()->ended(), 1U);
  job.port.report_after("at once");
  CHECK(read_some(ends[1]) == "at once");
  close(ends[1]);
}

TEST(progress_is_reported_only_by_a_process_that_waits_for_permits) {
  TemporaryPath path;
  const auto board = new_board(path);
  Job job(board);
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  job.port.reporter()->connect(ends[0], 0);  // which owns it
  job.port.report_progress("ahead ");
  board->set_permit(job.member.slot(), 1);
  job.port.report_progress("in turn");
  CHECK(read_some(ends[1]) == "in turn");
  close(ends[1]);
}

TEST(a_frame_without_a_place_for_the_duration_is_refused) {
  CHECK_THROWS(std::invalid_argument, "no place", IterationFrame("short", 0));
  CHECK_THROWS(std::invalid_argument, "no place", IterationFrame(std::string(16, 'x'), 8));
  CHECK_THROWS(std::invalid_argument, "no place", IterationFrame("", 99));
}

int main(int count, char** arguments) { return check::main(count, arguments); }
