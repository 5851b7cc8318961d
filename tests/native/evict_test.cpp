// Evicting a process to host memory and restoring it at the same addresses.
#include <cstring>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "arena.h"
#include "fake_driver.h"
#include "support.h"

using namespace support;

namespace {

template <typename AnyDriver>
struct Bench {
  explicit Bench(std::uint64_t capacity = 64 * kMiB)
      : board(Board::open_or_create(path, soft_board(capacity, 2))), member(board, "job"), other(board, "other") {
    board->set_patience(std::chrono::hours(1));
    ArenaOptions options;
    options.keep_bytes = 0;
    options.on_request = [this](Request request) { on_request(request); };
    arena.emplace(driver, member, options);
  }
  TemporaryPath path;
  std::shared_ptr<Board> board;
  Member member, other;
  AnyDriver driver;
  std::function<void(Request)> on_request;
  std::optional<Arena> arena;
};

struct Filled {
  Address address;
  std::vector<unsigned char> bytes;
};

std::vector<Filled> fill(Arena& arena, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Filled> blocks;
  for (int index = 0; index < 30; ++index) {
    const std::size_t bytes = 1 + random() % (index % 5 == 0 ? 5 * kMiB : 100'000);
    const Hint hint = index % 2 == 0 ? Hint::ephemeral : Hint::persistent;
    const Address address = arena.allocate(bytes, index % 3 == 0 ? 1 : 0, hint);
    blocks.push_back({address, std::vector<unsigned char>(bytes)});
    for (unsigned char& byte : blocks.back().bytes) byte = static_cast<unsigned char>(random());
    std::memcpy(reinterpret_cast<void*>(address), blocks.back().bytes.data(), bytes);
  }
  return blocks;
}

bool intact(const Filled& block) {
  return std::memcmp(reinterpret_cast<const void*>(block.address), block.bytes.data(), block.bytes.size()) == 0;
}

}  // namespace

TEST(a_restored_process_finds_every_bit_at_its_address) {
  Bench<HostDriver> bench;
  std::vector<Filled> blocks = fill(*bench.arena, 1);
  const std::uint64_t held = bench.member.held_bytes();
  CHECK_EQUAL(bench.arena->evict(kNever), held);
  CHECK(bench.arena->evicted());
  CHECK_EQUAL(bench.board->used_bytes(), 0U);
  CHECK_EQUAL(bench.arena->stats().evicted_bytes, held);
  bench.arena->check_integrity();
  CHECK(bench.other.try_take(64 * kMiB) == Lease::granted);  // another process can lease all memory
  CHECK(!bench.arena->restore(in(std::chrono::milliseconds(1))));
  CHECK(bench.arena->evicted());
  bench.other.give(64 * kMiB);
  CHECK(bench.arena->restore(kNever));
  CHECK(!bench.arena->evicted());
  CHECK_EQUAL(bench.member.held_bytes(), held);
  bench.arena->check_integrity();
  for (const Filled& block : blocks) CHECK(intact(block));
  for (const Filled& block : blocks) bench.arena->deallocate(block.address);
  CHECK_EQUAL(bench.board->used_bytes(), 0U);
  CHECK(bench.arena->restore(kNever));
  CHECK_EQUAL(bench.arena->evict(kNever), 0U);
}

TEST(blocks_may_be_freed_while_evicted_and_need_no_lease_again) {
  Bench<HostDriver> bench;
  std::vector<Filled> blocks = fill(*bench.arena, 2);
  bench.arena->evict(kNever);
  for (std::size_t index = 0; index < blocks.size(); index += 2) bench.arena->deallocate(blocks[index].address);
  bench.arena->check_integrity();
  const std::uint64_t evicted = bench.arena->stats().evicted_bytes;
  CHECK(bench.arena->restore(kNever));
  CHECK(bench.member.held_bytes() < evicted);
  bench.arena->check_integrity();
  for (std::size_t index = 1; index < blocks.size(); index += 2) {
    CHECK(intact(blocks[index]));
    bench.arena->deallocate(blocks[index].address);
  }
  bench.arena->check_integrity();
  CHECK_EQUAL(bench.board->used_bytes(), 0U);
}

TEST(a_process_with_work_in_flight_is_not_evicted) {
  Bench<FakeDriver> bench;
  bench.arena->allocate(kMiB, 0);
  bench.driver.streams.launch(0);
  CHECK_THROWS(std::logic_error, "not quiescent", bench.arena->evict(in(std::chrono::milliseconds(1))));
  CHECK(!bench.arena->evicted());
  CHECK_EQUAL(bench.member.held_bytes(), kChunkBytes);
  bench.driver.streams.complete(0);
  CHECK_EQUAL(bench.arena->evict(kNever), kChunkBytes);
}

TEST(an_allocation_during_eviction_waits_for_the_restore) {
  Bench<FakeDriver> bench;
  const Address block = bench.arena->allocate(kMiB, 0);
  bench.driver.word(block) = 42;
  bench.arena->evict(kNever);
  std::atomic<bool> allocated{false};
  std::thread thread([&] {
    bench.arena->allocate(3 * kMiB, 0);
    allocated = true;
  });
  CHECK(eventually([&] { return bench.arena->stats().lease_waits == 1; }));
  CHECK(!allocated);
  CHECK(bench.arena->restore(kNever));
  thread.join();
  CHECK_EQUAL(bench.driver.word(block), 42U);
  bench.arena->check_integrity();
}

TEST(a_waiting_process_is_evicted_when_asked_and_goes_on_later) {
  Bench<FakeDriver> bench(8 * kMiB);
  const Address block = bench.arena->allocate(4 * kMiB, 0);
  bench.driver.word(block) = 7;
  CHECK(bench.other.try_take(4 * kMiB) == Lease::granted);
  bench.on_request = [&](Request request) {
    CHECK(request == Request::evict);
    CHECK_EQUAL(bench.arena->evict(kNever), 4 * kMiB);
    bench.member.finish_request(Request::evict);
    CHECK(bench.member.wait_control([&] { return bench.member.request() == Request::restore; }, kNever));
    CHECK(bench.arena->restore(kNever));
    bench.member.finish_request(Request::restore);
  };
  // Both hold half and want more: one of them must give way.
  std::thread daemon([&] {
    CHECK(eventually([&] { return bench.board->snapshot().slots[0].wanted_bytes > 0; }));
    bench.board->set_request(bench.member.slot(), Request::evict);
    CHECK(bench.other.take(4 * kMiB, kNever) == Lease::granted);
    bench.other.give(8 * kMiB);
    bench.board->set_request(bench.member.slot(), Request::restore);
  });
  bench.arena->allocate(4 * kMiB, 0);
  daemon.join();
  CHECK_EQUAL(bench.driver.word(block), 7U);
  CHECK_EQUAL(bench.member.held_bytes(), 8 * kMiB);
  bench.arena->check_integrity();
}

TEST(a_driver_that_fails_leaves_the_process_evicted_and_without_leases) {
  Bench<FakeDriver> bench;
  const Address block = bench.arena->allocate(kMiB, 0);
  bench.driver.word(block) = 5;
  bench.arena->evict(kNever);
  bench.driver.fail_next_back = true;
  CHECK_THROWS(DriverError, "told to fail", bench.arena->restore(kNever));
  CHECK(bench.arena->evicted());
  CHECK_EQUAL(bench.board->used_bytes(), 0U);
  CHECK(bench.arena->restore(kNever));
  CHECK_EQUAL(bench.driver.word(block), 5U);
}

TEST(an_eviction_for_which_the_host_has_no_memory_leaves_everything_in_place) {
  Bench<FakeDriver> bench;
  const Address low = bench.arena->allocate(3 * kMiB, 0), high = bench.arena->allocate(kMiB, 0, Hint::persistent);
  bench.driver.word(low) = 5;
  bench.driver.word(high) = 6;
  const std::uint64_t held = bench.member.held_bytes();
  const auto in_place = [&] {
    CHECK(!bench.arena->evicted());
    CHECK_EQUAL(bench.member.held_bytes(), held);
    CHECK_EQUAL(bench.driver.word(low), 5U);
    CHECK_EQUAL(bench.driver.word(high), 6U);
    bench.arena->check_integrity();
  };
  for (int copies = 0; copies < 2; ++copies) {
    bench.driver.copies_until_failure = copies;
    CHECK_THROWS(std::bad_alloc, "", bench.arena->evict(kNever));
    in_place();
  }
  int unbacked = 0;  // the second range cannot be taken away: the first is put back
  bench.driver.on_unback = [&](Address, std::size_t) { bench.driver.fail_next_unback = unbacked++ == 1; };
  CHECK_THROWS(DriverError, "told to fail", bench.arena->evict(kNever));
  bench.driver.on_unback = {};
  in_place();
  CHECK_EQUAL(bench.arena->evict(kNever), held);
  CHECK(bench.arena->restore(kNever));
  in_place();
}

TEST(a_process_returns_to_a_device_that_has_become_too_small_for_its_gaps) {
  Bench<FakeDriver> bench(16 * kMiB);
  std::vector<Address> blocks;
  for (int count = 0; count < 16; ++count) blocks.push_back(bench.arena->allocate(kMiB / 2, 0));
  for (std::size_t index = 0; index < 16; ++index) {
    bench.driver.word(blocks[index]) = index;
    if (index % 2 == 1) bench.arena->deallocate(blocks[index]);
  }
  CHECK_EQUAL(bench.arena->evict(kNever), 8 * kMiB);
  bench.board->set_capacity(4 * kMiB);
  CHECK(bench.arena->restore(in(std::chrono::seconds(30))));
  CHECK_EQUAL(bench.member.held_bytes(), 4 * kMiB);
  CHECK_EQUAL(bench.driver.backed_bytes(), 4 * kMiB);
  bench.arena->check_integrity();
  for (std::size_t index = 0; index < 16; index += 2) CHECK_EQUAL(bench.driver.word(blocks[index]), index);
}

int main(int count, char** arguments) { return check::main(count, arguments); }
