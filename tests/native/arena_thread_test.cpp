// The arena under threads: programs that launch ahead of streams that really run, on memory that is really written.
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "arena.h"
#include "host_driver.h"
#include "sm_lane.h"
#include "support.h"

using namespace support;

namespace {

/// A stream: a queue and a thread that runs it, with SM tokens, as the device does it.
class Stream {
 public:
  Stream(HostDriver& driver, Member& member, StreamId id) : driver_(driver), lane_(member), id_(id) {
    thread_ = std::thread([this] { run(); });
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
    launch({});
    thread_.join();
  }
  void launch(std::function<void()> kernel) {
    const std::lock_guard lock(mutex_);
    driver_.launch(id_);
    queue_.push_back(std::move(kernel));
    changed_.notify_one();
  }
  StreamId id() const { return id_; }

 private:
  void run() {
    for (bool more = true; more;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !queue_.empty(); });
      const std::function<void()> kernel = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      more = static_cast<bool>(kernel);
      lane_.acquire(1);
      if (more) kernel();
      lane_.release();
      driver_.complete(id_);
    }
  }

  HostDriver& driver_;
  SmLane lane_;
  StreamId id_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  std::thread thread_;
};

void write(Address block, std::size_t bytes, unsigned char tag) {
  std::memset(reinterpret_cast<void*>(block), tag, bytes);
}

bool holds(Address block, std::size_t bytes, unsigned char tag) {
  const auto* memory = reinterpret_cast<const unsigned char*>(block);
  for (std::size_t index = 0; index < bytes; ++index)
    if (memory[index] != tag) return false;
  return true;
}

/// Allocates, launches writers and readers, and frees at once: only the order of the streams keeps the bytes valid.
void program(Arena& arena, HostDriver& driver, Stream& own, Stream& side, unsigned seed, std::atomic<int>& wrong) {
  std::mt19937 random(seed);
  for (int step = 0; step < 1500; ++step) {
    const std::size_t bytes = 1 + random() % (random() % 8 == 0 ? 3 * kMiB : 20'000);
    const auto tag = static_cast<unsigned char>(random());
    const Address block = arena.allocate(bytes, own.id(), random() % 4 == 0 ? Hint::persistent : Hint::ephemeral);
    own.launch([=] { write(block, bytes, tag); });
    if (random() % 3 == 0) {
      const Event written = driver.record(own.id());
      arena.record_stream(block, side.id());
      side.launch([=, &driver, &wrong] {
        driver.wait(written, kNever);
        if (!holds(block, bytes, tag)) ++wrong;
      });
    }
    own.launch([=, &wrong] {
      if (!holds(block, bytes, tag)) ++wrong;
    });
    arena.deallocate(block);
    if (step % 100 == 0) arena.check_integrity();
    // An in-flight cap, as the device has one.
    if (driver.in_flight(own.id()) > 64) driver.wait({own.id(), driver.launched(own.id()) - 32}, kNever);
  }
}

}  // namespace

TEST(streams_that_run_behind_never_see_foreign_bytes) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(48 * kMiB, 8));
  board->set_patience(std::chrono::hours(1));  // a lost wake-up hangs the test
  Member member(board, "job");
  HostDriver driver;
  std::optional<Arena> arena;
  std::atomic<int> wrong{0};
  ArenaOptions options;
  options.keep_bytes = 0;
  arena.emplace(driver, member, options);
  {
    Stream streams[] = {{driver, member, 0}, {driver, member, 1}, {driver, member, 2}};
    std::thread first([&] { program(*arena, driver, streams[0], streams[2], 1, wrong); });
    std::thread second([&] { program(*arena, driver, streams[1], streams[2], 2, wrong); });
    first.join();
    second.join();
  }
  CHECK_EQUAL(wrong.load(), 0);
  arena->check_integrity();
  CHECK_EQUAL(arena->stats().needed, 0U);
  CHECK_EQUAL(member.held_bytes(), 0U);
  CHECK(board->high_water_bytes() <= 48 * kMiB);
}

TEST(an_eviction_between_two_steps_does_not_disturb_a_program) {
  TemporaryPath path;
  auto board = Board::open_or_create(path, soft_board(48 * kMiB, 2));
  Member member(board, "job"), other(board, "other");
  HostDriver driver;
  Arena arena(driver, member);
  std::atomic<int> wrong{0};
  constexpr std::size_t kBytes = 5'000'000;
  const Address block = arena.allocate(kBytes, 0, Hint::persistent);
  {
    Stream stream(driver, member, 0), side(driver, member, 1);
    stream.launch([&] { write(block, kBytes, 77); });
    for (unsigned round = 0; round < 5; ++round) {
      std::thread thread([&] { program(arena, driver, stream, side, round, wrong); });
      thread.join();
      CHECK(arena.evict(kNever) >= kBytes);
      CHECK(other.try_take(48 * kMiB) == Lease::granted);
      other.give(48 * kMiB);
      CHECK(arena.restore(kNever));
    }
    stream.launch([&] { wrong += !holds(block, kBytes, 77); });
  }
  CHECK_EQUAL(wrong.load(), 0);
  arena.deallocate(block);
  arena.check_integrity();
}

int main(int count, char** arguments) { return check::main(count, arguments); }
