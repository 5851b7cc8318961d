// Bytes over the link: at a limit, and under a policy that oversubscribes.
#include <cmath>
#include <cstring>
#include <optional>
#include <random>
#include <vector>

#include "arena.h"
#include "board_layout.h"
#include "fake_driver.h"
#include "launch_port.h"
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
    options.wait = std::chrono::milliseconds(1);
    arena.emplace(driver, member, options);
  }
  void check(std::uint64_t held_mib, std::uint64_t over_mib) const {
    arena->check_integrity();
    CHECK_EQUAL(member.held_bytes(), held_mib * kMiB);
    CHECK_EQUAL(arena->stats().held, held_mib * kMiB);
    CHECK_EQUAL(arena->stats().over, over_mib * kMiB);
    CHECK_EQUAL(board->slot(member.slot()).over_bytes, over_mib * kMiB);
    CHECK_EQUAL(board->over_bytes(), over_mib * kMiB);
  }
  Address take(std::uint64_t mib, Hint hint = Hint::ephemeral) { return arena->allocate(mib * kMiB, 0, hint); }

  TemporaryPath path;
  std::shared_ptr<Board> board;
  Member member, other;
  AnyDriver driver;
  std::optional<Arena> arena;
};

struct Filled {
  Address address;
  std::vector<unsigned char> bytes;
};

Filled filled(Address address, std::size_t bytes, std::mt19937& random) {
  Filled block{address, std::vector<unsigned char>(bytes)};
  for (unsigned char& byte : block.bytes) byte = static_cast<unsigned char>(random());
  std::memcpy(reinterpret_cast<void*>(address), block.bytes.data(), bytes);
  return block;
}

bool intact(const Filled& block) {
  return std::memcmp(reinterpret_cast<const void*>(block.address), block.bytes.data(), block.bytes.size()) == 0;
}

}  // namespace

TEST(what_goes_beyond_the_limit_is_over_the_link_and_holds_no_lease) {
  Bench<HostDriver> bench;
  bench.board->set_limit(bench.member.slot(), 8 * kMiB);
  const Address within = bench.take(6);
  bench.check(6, 0);
  const Address split = bench.take(6);  // one chunk of it fits
  bench.check(8, 4);
  const Address beyond = bench.take(2);
  bench.check(8, 6);
  CHECK_EQUAL(bench.board->used_bytes(), 8 * kMiB);
  CHECK(bench.other.try_take(56 * kMiB) == Lease::granted);  // the rest of the device is another's
  for (const Address address : {within, split, beyond}) bench.arena->deallocate(address);
  bench.check(0, 0);
}

TEST(a_limit_that_no_device_can_keep_is_waited_for_like_a_ceiling) {
  Bench<FakeDriver> bench;
  bench.board->set_limit(bench.member.slot(), 4 * kMiB);
  bench.take(4);
  CHECK_THROWS(OutOfMemory, "waited", bench.take(2));
  CHECK(bench.arena->try_allocate(2 * kMiB, 0).outcome == Allocation::ceiling);
  bench.check(4, 0);
}

TEST(within_its_limit_a_process_waits_for_others) {
  Bench<HostDriver> bench;
  bench.board->set_limit(bench.member.slot(), 8 * kMiB);
  CHECK(bench.other.try_take(60 * kMiB) == Lease::granted);
  CHECK_EQUAL(bench.arena->try_allocate(12 * kMiB, 0).need_bytes, 8 * kMiB);
  bench.check(0, 0);
  bench.other.give(4 * kMiB);
  bench.take(12);
  bench.check(8, 4);
}

TEST(when_an_iteration_begins_bytes_over_the_link_are_leased_as_far_as_the_limit_allows) {
  Bench<HostDriver> bench;
  std::mt19937 random(1);
  bench.board->set_limit(bench.member.slot(), 8 * kMiB);
  const Address leased = bench.take(8);
  const Filled kept = filled(bench.take(6, Hint::persistent), 6 * kMiB, random);
  bench.check(8, 6);
  bench.arena->rebalance();
  bench.check(8, 6);
  bench.arena->deallocate(leased);
  bench.check(0, 6);
  bench.board->set_limit(bench.member.slot(), 4 * kMiB);
  bench.member.begin_iteration();
  bench.arena->rebalance();
  bench.check(4, 2);
  CHECK_EQUAL(bench.board->slot(bench.member.slot()).rest_bytes, 4 * kMiB);
  bench.board->set_limit(bench.member.slot(), kNoCeiling);
  bench.arena->rebalance();
  bench.check(6, 0);
  CHECK(intact(kept));
  bench.arena->deallocate(kept.address);
  bench.check(0, 0);
}

TEST(when_an_iteration_begins_what_is_leased_beyond_the_limit_goes_over_the_link) {
  Bench<HostDriver> bench;
  std::mt19937 random(5);
  const Filled block = filled(bench.take(10), 10 * kMiB, random);
  bench.board->set_limit(bench.member.slot(), 7 * kMiB);
  bench.check(10, 0);
  bench.arena->rebalance();
  bench.check(6, 4);  // in whole chunks
  bench.arena->rebalance();
  bench.check(6, 4);
  CHECK(intact(block));
}

TEST(a_launch_port_leases_what_is_over_the_link_when_the_next_iteration_is_permitted) {
  TemporaryPath path;
  const auto board = Board::open_or_create(path, soft_board(64 * kMiB, 2));
  Member member(board, "job");
  HostDriver driver;
  LaunchOptions options;
  options.request_thread = false;
  LaunchPort port(driver, member, options);
  board->set_limit(member.slot(), 2 * kMiB);
  const Address block = port.arena().allocate(6 * kMiB, 0);
  CHECK_EQUAL(port.arena().stats().over, 4 * kMiB);
  board->set_limit(member.slot(), kNoCeiling);
  CHECK_EQUAL(port.arena().stats().over, 4 * kMiB);
  port.arm_iteration();
  {
    const Launch launch = port.prepare();
  }
  CHECK_EQUAL(port.arena().stats().over, 0U);
  CHECK_EQUAL(member.held_bytes(), 6 * kMiB);
  port.arena().deallocate(block);
}

TEST(the_program_s_own_limit_counts_what_is_over_the_link) {
  Bench<HostDriver> bench;
  bench.board->set_limit(bench.member.slot(), 2 * kMiB);
  bench.member.set_arena_limit(6 * kMiB);
  bench.take(6);
  bench.check(2, 4);
  CHECK_THROWS(OutOfMemory, "allows itself", bench.take(2));
}

TEST(others_keep_no_more_for_an_iteration_than_its_limit) {
  Bench<HostDriver> bench;
  bench.member.begin_iteration();
  bench.member.set_expected_leases(40 * kMiB);
  bench.other.begin_iteration();
  CHECK(bench.other.try_take(32 * kMiB) == Lease::reserved);
  bench.board->set_limit(bench.member.slot(), 16 * kMiB);
  CHECK(bench.other.try_take(32 * kMiB) == Lease::granted);
}

TEST(an_evicted_process_keeps_what_is_over_the_link_in_place) {
  Bench<HostDriver> bench;
  std::mt19937 random(2);
  bench.board->set_limit(bench.member.slot(), 6 * kMiB);
  std::vector<Filled> blocks;
  for (int index = 0; index < 6; ++index) blocks.push_back(filled(bench.take(2), 2 * kMiB, random));
  bench.check(6, 6);
  CHECK_EQUAL(bench.arena->evict(kNever), 6 * kMiB);
  bench.check(0, 6);
  CHECK(intact(blocks[5]));
  bench.arena->deallocate(blocks[5].address);  // also while the process is away
  CHECK(bench.other.try_take(64 * kMiB) == Lease::granted);
  CHECK(!bench.arena->restore(in(std::chrono::milliseconds(1))));
  bench.other.give(64 * kMiB);
  CHECK(bench.arena->restore(kNever));
  bench.check(6, 4);
  blocks.pop_back();
  for (const Filled& block : blocks) CHECK(intact(block));
  for (const Filled& block : blocks) bench.arena->deallocate(block.address);
  bench.check(0, 0);
}

TEST(a_process_that_returns_under_a_limit_leaves_the_rest_over_the_link) {
  Bench<HostDriver> bench;
  std::mt19937 random(3);
  const Filled block = filled(bench.take(10), 10 * kMiB, random);
  bench.arena->evict(kNever);
  bench.board->set_limit(bench.member.slot(), 4 * kMiB);
  CHECK(bench.arena->restore(kNever));
  bench.check(4, 6);
  CHECK(intact(block));
  bench.arena->evict(kNever);
  bench.check(0, 6);
  bench.board->set_limit(bench.member.slot(), kNoCeiling);
  CHECK(bench.arena->restore(kNever));
  bench.check(4, 6);
  bench.arena->rebalance();
  bench.check(10, 0);
  CHECK(intact(block));
  bench.arena->deallocate(block.address);
}

TEST(where_the_device_is_oversubscribed_nobody_waits_for_memory) {
  Bench<HostDriver> bench(16 * kMiB);
  bench.board->set_oversubscribed(true);
  CHECK(bench.other.try_take(10 * kMiB) == Lease::granted);
  const Address first = bench.take(4);
  bench.check(4, 0);
  const Address second = bench.take(6);
  bench.check(6, 4);
  const Address third = bench.take(20);  // alone it is more than the device
  bench.check(6, 24);
  CHECK_EQUAL(bench.board->used_bytes(), 16 * kMiB);
  bench.other.give(10 * kMiB);
  bench.arena->rebalance();
  bench.check(16, 14);
  for (const Address address : {first, second, third}) bench.arena->deallocate(address);
  bench.check(0, 0);
}

TEST(where_the_device_is_oversubscribed_what_older_iterations_need_is_left_to_them) {
  Bench<HostDriver> bench(16 * kMiB);
  bench.board->set_oversubscribed(true);
  bench.other.begin_iteration();
  bench.other.set_expected_leases(16 * kMiB);
  bench.member.begin_iteration();
  bench.take(4);
  bench.check(0, 4);
}

TEST(where_the_device_is_oversubscribed_nothing_is_kept_for_what_is_over_the_link_already) {
  Bench<HostDriver> bench(16 * kMiB);
  bench.board->set_oversubscribed(true);
  CHECK(bench.other.try_take(16 * kMiB) == Lease::granted);
  bench.member.begin_iteration();
  bench.member.set_expected_leases(12 * kMiB);
  bench.take(8);
  bench.check(0, 8);
  bench.other.give(16 * kMiB);
  bench.other.begin_iteration();
  CHECK(bench.other.try_take(14 * kMiB) == Lease::reserved);
  CHECK(bench.other.try_take(12 * kMiB) == Lease::granted);  // 4 are to come, of the 12 that were expected
}

TEST(a_budget_that_falls_sends_bytes_over_the_link_where_the_device_is_oversubscribed) {
  Bench<HostDriver> bench(32 * kMiB);
  std::mt19937 random(4);
  bench.board->set_oversubscribed(true);
  const Filled block = filled(bench.take(20), 20 * kMiB, random);
  bench.board->set_capacity(12 * kMiB);
  bench.arena->rebalance();
  bench.check(12, 8);
  CHECK(intact(block));
  bench.arena->evict(kNever);
  bench.check(0, 8);
  CHECK(bench.arena->restore(kNever));
  bench.check(12, 8);
  CHECK(intact(block));
  bench.arena->deallocate(block.address);
}

TEST(what_a_dead_process_had_over_the_link_is_gone_from_the_board) {
  TemporaryPath path;
  const auto board = Board::open_or_create(path, soft_board(8 * kMiB, 2));
  board->set_oversubscribed(true);
  Shared<std::atomic<bool>> ready;
  Child child([&] {
    const auto own = Board::open(path);
    Member member(own, "child");
    HostDriver driver;
    Arena arena(driver, member);
    arena.allocate(20 * kMiB, 0);
    ready->store(true);
    pause();
  });
  CHECK(eventually([&] { return ready->load(); }));
  CHECK_EQUAL(board->used_bytes(), 8 * kMiB);
  CHECK_EQUAL(board->over_bytes(), 12 * kMiB);
  child.kill();
  board->reap();
  CHECK_EQUAL(board->used_bytes(), 0U);
  CHECK_EQUAL(board->over_bytes(), 0U);
  Member next(board, "next");
  CHECK_EQUAL(board->slot(next.slot()).over_bytes, 0U);
}

TEST(a_kernel_pays_for_its_share_of_what_is_over_the_link) {
  Bench<HostDriver> bench(64 * kMiB);
  CHECK(!bench.member.may_pay_for_link());
  bench.board->set_limit(bench.member.slot(), 6 * kMiB);
  bench.take(8);
  CHECK(bench.member.may_pay_for_link());
  CHECK_EQUAL(bench.member.over_the_link_ns(4'000'000, 1e9), 1'000'000);  // a quarter of its bytes, 1 byte/ns
  bench.board->set_limit(bench.member.slot(), kNoCeiling);
  bench.arena->rebalance();
  CHECK(!bench.member.may_pay_for_link());
  CHECK_EQUAL(bench.member.over_the_link_ns(4'000'000, 1e9), 0);
}

TEST(where_the_device_is_oversubscribed_every_kernel_pays_for_the_share_of_all_bytes_that_is_away) {
  Bench<HostDriver> bench(16 * kMiB);
  bench.board->set_oversubscribed(true);
  CHECK(bench.other.try_take(8 * kMiB) == Lease::granted);
  CHECK_EQUAL(bench.other.over_the_link_ns(4'100'000, 1e9), 0);
  bench.take(24);
  const auto near = [](double ns) { return std::abs(ns - 6e6) < 1; };
  CHECK(near(bench.member.over_the_link_ns(4'100'000, 1e9)));  // half of it, there and back, at 8.2/12 byte/ns
  CHECK(near(bench.other.over_the_link_ns(4'100'000, 1e9)));   // as a driver pages for all
}

TEST(a_long_random_life_under_changing_limits_keeps_every_bit_and_every_count) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    Bench<HostDriver> bench(32 * kMiB);
    std::mt19937 random(seed);
    std::vector<Filled> blocks;
    bench.board->set_oversubscribed(seed % 2 == 0);
    for (int step = 0; step < 300; ++step) {
      switch (random() % 10) {
        case 0:
          if (seed % 2 == 1) bench.board->set_limit(bench.member.slot(), (2 + random() % 16) * kMiB);
          bench.arena->rebalance();
          break;
        case 1:
          bench.arena->evict(kNever);
          bench.arena->check_integrity();
          if (!blocks.empty()) {
            bench.arena->deallocate(blocks.back().address);
            blocks.pop_back();
          }
          CHECK(bench.arena->restore(kNever));
          break;
        case 2:
          if (seed % 2 == 0) bench.board->set_capacity((8 + random() % 24) * kMiB);
          break;
        case 3:
        case 4:
        case 5:
        case 6:
          if (!blocks.empty()) {
            const std::size_t chosen = random() % blocks.size();
            CHECK(intact(blocks[chosen]));
            bench.arena->deallocate(blocks[chosen].address);
            blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(chosen));
          }
          break;
        default: {
          const std::size_t bytes = 1 + random() % (random() % 4 == 0 ? 5 * kMiB : 400'000);
          const Hint hint = random() % 2 == 0 ? Hint::ephemeral : Hint::persistent;
          const auto made = bench.arena->try_allocate(bytes, random() % 2, hint);
          if (made.outcome == Allocation::granted) blocks.push_back(filled(made.address, bytes, random));
        }
      }
      bench.arena->check_integrity();
      if (seed % 2 == 1) CHECK(bench.board->used_bytes() <= 32 * kMiB);
    }
    for (const Filled& block : blocks) {
      CHECK(intact(block));
      bench.arena->deallocate(block.address);
    }
    bench.check(0, 0);
  }
}

int main(int count, char** arguments) { return check::main(count, arguments); }
