// The arena's rules, one by one.
#include "arena.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "fake_driver.h"
#include "member.h"
#include "support.h"

using namespace support;

namespace {

constexpr std::uint64_t kKiB = 1024;

/// A board, a member and an arena over a driver without memory.
struct Bench {
  explicit Bench(std::uint64_t capacity = 64 * kMiB, std::uint64_t keep = 0,
                 std::chrono::nanoseconds wait = std::chrono::hours(1))
      : board(Board::open_or_create(path, soft_board(capacity, 2))), member(board, "job"), other(board, "other") {
    ArenaOptions options;
    options.keep_bytes = keep;
    options.wait = wait;
    options.on_request = [this](Request request) { on_request(request); };
    options.give_allowance = [this] { return give_allowance && give_allowance(); };
    arena.emplace(driver, member, options);
  }
  std::uint64_t held() const { return arena->stats().held; }
  std::uint64_t needed() const { return arena->stats().needed; }

  TemporaryPath path;
  std::shared_ptr<Board> board;
  Member member, other;
  FakeDriver driver;
  std::function<void(Request)> on_request;
  std::function<bool()> give_allowance;
  std::optional<Arena> arena;
};

}  // namespace

TEST(an_arena_reserves_four_times_the_capacity_and_at_least_a_gibibyte) {
  constexpr std::uint64_t kGiB = 1024 * kMiB;
  CHECK_EQUAL(Bench().driver.reserved, kGiB);
  CHECK_EQUAL(Bench(kGiB).driver.reserved, 4 * kGiB);
  CHECK_EQUAL(Bench(200 * 1024 * kGiB).driver.reserved, 4 * 1024 * kGiB);
}

TEST(an_arena_leaves_the_program_half_of_the_addresses_where_it_may_not_have_so_many) {
  TemporaryPath path;
  const auto board = Board::open_or_create(path, soft_board(1024 * kMiB, 2));
  Member member(board, "job");
  FakeDriver driver;
  driver.addresses = 700 * kMiB;
  Arena arena(driver, member, {});
  CHECK_EQUAL(driver.reserved, 256 * kMiB);
  arena.allocate(200 * kMiB, 0);
  CHECK_THROWS(OutOfMemory, "it may have no more addresses than 256.0 MiB (ulimit -v)", arena.allocate(100 * kMiB, 0));
  arena.check_integrity();
}

TEST(blocks_are_rounded_to_512_bytes_and_share_chunks) {
  Bench bench;
  const Address a = bench.arena->allocate(1, 0), b = bench.arena->allocate(513, 0), c = bench.arena->allocate(0, 0);
  CHECK_EQUAL(bench.arena->block_bytes(a), 512U);
  CHECK_EQUAL(bench.arena->block_bytes(b), 1024U);
  CHECK_EQUAL(bench.arena->block_bytes(c), 512U);
  CHECK_EQUAL(bench.arena->block_bytes(b + 512), 0U);
  CHECK_EQUAL(b, a + 512);
  CHECK_EQUAL(bench.needed(), 2048U);
  CHECK_EQUAL(bench.held(), kChunkBytes);
  CHECK_EQUAL(bench.member.held_bytes(), kChunkBytes);
  CHECK(bench.arena->contains(a) && !bench.arena->contains(a - 1));
  bench.arena->check_integrity();
}

TEST(memory_is_leased_backed_and_returned_in_the_chunks_of_the_board) {
  constexpr std::uint64_t kLarge = 32 * kMiB;
  TemporaryPath path;
  Member member(Board::create(path, {4 * kLarge, nullptr, 0, kLarge}), "job");
  FakeDriver driver;
  ArenaOptions options;
  options.keep_bytes = 0;
  Arena arena(driver, member, options);
  const Address a = arena.allocate(1, 0), b = arena.allocate(kLarge, 0);
  CHECK_EQUAL(member.held_bytes(), 2 * kLarge);
  CHECK_EQUAL(driver.backed_bytes(), 2 * kLarge);
  arena.check_integrity();
  arena.deallocate(b);
  CHECK_EQUAL(member.held_bytes(), kLarge);
  CHECK_EQUAL(arena.evict(kNever), kLarge);
  CHECK_EQUAL(driver.backed_bytes(), 0U);
  CHECK(arena.restore(kNever));
  CHECK_EQUAL(arena.block_bytes(a), 512U);
  arena.check_integrity();
}

TEST(all_blocks_that_are_held_can_be_seen_in_the_order_of_their_addresses) {
  Bench bench;
  const Address a = bench.arena->allocate(512, 0), b = bench.arena->allocate(5 * kMiB, 0);
  const Address c = bench.arena->allocate(kMiB, 3, Hint::persistent);
  bench.arena->deallocate(a);
  const auto blocks = bench.arena->blocks();
  std::uint64_t bytes = 0;
  std::vector<Address> live;
  for (const HeldBlock& block : blocks) {
    bytes += block.bytes;
    if (!block.free) live.push_back(block.address);
  }
  CHECK(live == std::vector<Address>({b, c}));
  CHECK_EQUAL(bytes, bench.held());
  CHECK_EQUAL(blocks.front().address, a);
  CHECK(blocks.front().free && blocks.back().stream == 3);
  CHECK(std::is_sorted(blocks.begin(), blocks.end(), [](auto& x, auto& y) { return x.address < y.address; }));
}

TEST(a_process_counts_memory_outside_its_arena_when_it_asks_whether_it_fits) {
  Bench bench(8 * kMiB);
  bench.member.set_outside(4 * kMiB);
  bench.arena->allocate(4 * kMiB, 0);
  CHECK_THROWS(OutOfMemory, "out of memory", bench.arena->allocate(2 * kMiB, 0));
  bench.arena->check_integrity();
}

TEST(a_process_that_does_not_fit_alone_first_gives_back_what_is_kept_for_memory_that_is_not_there) {
  Bench bench(8 * kMiB);
  bench.member.set_outside(4 * kMiB);
  int asked = 0;
  bench.give_allowance = [&] {
    ++asked;
    if (bench.member.outside_bytes() <= 2 * kMiB) return false;
    bench.member.set_outside(2 * kMiB);
    return true;
  };
  bench.arena->allocate(4 * kMiB, 0);
  CHECK_EQUAL(asked, 0);
  bench.arena->allocate(2 * kMiB, 0);
  CHECK_EQUAL(asked, 1);
  CHECK_THROWS(OutOfMemory, "out of memory", bench.arena->allocate(2 * kMiB, 0));
  bench.arena->check_integrity();
}

TEST(a_large_block_spans_chunks_and_uses_the_tail_of_the_one_before) {
  Bench bench;
  const Address small = bench.arena->allocate(kMiB, 0);
  const Address large = bench.arena->allocate(7 * kMiB, 0);
  CHECK_EQUAL(large, small + kMiB);
  CHECK_EQUAL(bench.held(), 8 * kMiB);
  bench.arena->deallocate(large);
  CHECK_EQUAL(bench.held(), 2 * kMiB);
  bench.arena->check_integrity();
}

TEST(the_best_fit_is_taken_and_among_equals_the_lowest_address) {
  Bench bench;
  std::vector<Address> blocks;
  for (const std::uint64_t size : {64, 1, 32, 1, 16, 1, 32, 1}) blocks.push_back(bench.arena->allocate(size * kKiB, 0));
  for (const int hole : {0, 2, 4, 6}) bench.arena->deallocate(blocks[static_cast<std::size_t>(hole)]);
  CHECK_EQUAL(bench.arena->allocate(10 * kKiB, 0), blocks[4]);
  CHECK_EQUAL(bench.arena->allocate(32 * kKiB, 0), blocks[2]);
  CHECK_EQUAL(bench.arena->allocate(32 * kKiB, 0), blocks[6]);
  CHECK_EQUAL(bench.arena->allocate(32 * kKiB, 0), blocks[0]);
  bench.arena->check_integrity();
}

TEST(free_neighbours_become_one_block) {
  Bench bench;
  std::vector<Address> blocks;
  for (int index = 0; index < 4; ++index) blocks.push_back(bench.arena->allocate(512 * kKiB, 0));
  for (const std::size_t index : {0U, 2U, 1U}) bench.arena->deallocate(blocks[index]);
  bench.arena->check_integrity();
  CHECK_EQUAL(bench.arena->allocate(1536 * kKiB, 0), blocks[0]);
  CHECK_EQUAL(bench.held(), kChunkBytes);
}

TEST(ephemeral_blocks_grow_from_the_low_end_persistent_ones_from_the_high) {
  Bench bench;
  const Address low = bench.arena->allocate(kMiB, 0, Hint::ephemeral);
  const Address high = bench.arena->allocate(kMiB, 0, Hint::persistent);
  const Address end = FakeDriver::kBase + bench.driver.reserved;
  CHECK_EQUAL(low, FakeDriver::kBase);
  CHECK_EQUAL(high, end - kMiB);
  CHECK_EQUAL(bench.arena->allocate(3 * kMiB, 0, Hint::persistent), end - 4 * kMiB);
  CHECK_EQUAL(bench.arena->allocate(3 * kMiB, 0, Hint::ephemeral), low + kMiB);
  CHECK_EQUAL(bench.held(), 8 * kMiB);
  bench.arena->check_integrity();
}

TEST(a_block_at_the_wrong_end_is_better_than_none) {
  Bench bench(4 * kMiB);
  const Address high = bench.arena->allocate(kMiB, 0, Hint::persistent);
  bench.arena->allocate(2 * kMiB, 0, Hint::ephemeral);
  CHECK_EQUAL(bench.arena->allocate(kMiB, 0, Hint::ephemeral), high - kMiB);
}

TEST(within_one_stream_a_freed_block_is_reused_at_launch_time) {
  Bench bench;
  const Address block = bench.arena->allocate(4 * kMiB, 0);
  bench.driver.streams.launch(0);  // a kernel that uses the block and has not run
  bench.arena->deallocate(block);
  CHECK_EQUAL(bench.held(), 4 * kMiB);
  CHECK_EQUAL(bench.arena->allocate(4 * kMiB, 0), block);
  bench.driver.streams.complete(0);  // the chunks are in use again, so none is given back
  CHECK_EQUAL(bench.held(), 4 * kMiB);
  bench.arena->check_integrity();
}

TEST(an_empty_chunk_goes_back_as_soon_as_the_stream_has_passed_its_last_use) {
  Bench bench;
  const Address block = bench.arena->allocate(4 * kMiB, 0);
  bench.driver.streams.launch(0);
  bench.driver.streams.launch(0);
  bench.arena->deallocate(block);
  bench.driver.streams.launch(0);  // later work does not use it
  bench.driver.streams.complete(0);
  CHECK_EQUAL(bench.board->used_bytes(), 4 * kMiB);
  bench.driver.streams.complete(0);
  CHECK_EQUAL(bench.board->used_bytes(), 0U);
  CHECK_EQUAL(bench.driver.backed_bytes(), 0U);
  CHECK_EQUAL(bench.driver.streams.in_flight(0), 1U);
  bench.arena->check_integrity();
}

TEST(another_stream_gets_the_memory_only_when_the_first_has_passed) {
  Bench bench;
  const Address block = bench.arena->allocate(4 * kMiB, 0);
  bench.driver.streams.launch(0);
  bench.arena->deallocate(block);
  const Address other = bench.arena->allocate(4 * kMiB, 1);
  CHECK(other != block);
  CHECK_EQUAL(bench.held(), 8 * kMiB);
  bench.driver.streams.complete(0);
  CHECK_EQUAL(bench.held(), 4 * kMiB);
  CHECK_EQUAL(bench.arena->allocate(4 * kMiB, 1), block);
}

TEST(a_block_recorded_on_other_streams_waits_for_all_of_them) {
  Bench bench;
  const Address block = bench.arena->allocate(4 * kMiB, 0);
  bench.arena->record_stream(block, 1);
  bench.arena->record_stream(block, 2);
  bench.arena->record_stream(block, 0);  // the block's own stream needs no record
  bench.driver.streams.launch(1);
  bench.driver.streams.launch(2);
  bench.arena->deallocate(block);
  CHECK_EQUAL(bench.needed(), 0U);
  CHECK(bench.arena->allocate(4 * kMiB, 0) != block);  // not even on its own stream
  bench.driver.streams.complete(2);
  CHECK_EQUAL(bench.held(), 8 * kMiB);
  bench.driver.streams.complete(1);
  CHECK_EQUAL(bench.held(), 4 * kMiB);
  bench.arena->check_integrity();
}

TEST(without_reuse_at_launch_a_block_waits_for_its_own_stream_too) {
  Bench bench;
  bench.arena->set_reuse_at_launch(false);
  const Address block = bench.arena->allocate(4 * kMiB, 0);
  bench.driver.streams.launch(0);
  bench.arena->deallocate(block);
  CHECK_EQUAL(bench.needed(), 0U);
  CHECK(bench.arena->allocate(4 * kMiB, 0) != block);
  CHECK_EQUAL(bench.held(), 8 * kMiB);
  bench.driver.streams.complete(0);
  CHECK_EQUAL(bench.held(), 4 * kMiB);
  bench.arena->check_integrity();
  bench.arena->set_reuse_at_launch(true);
  const Address again = bench.arena->allocate(4 * kMiB, 0);
  bench.driver.streams.launch(0);
  bench.arena->deallocate(again);
  CHECK_EQUAL(bench.arena->allocate(4 * kMiB, 0), again);
}

TEST(a_drained_block_still_waits_for_its_own_stream_before_its_chunks_go_back) {
  Bench bench;
  const Address block = bench.arena->allocate(4 * kMiB, 0);
  bench.arena->record_stream(block, 1);
  bench.driver.streams.launch(0);
  bench.driver.streams.launch(1);
  bench.arena->deallocate(block);
  bench.driver.streams.complete(1);
  CHECK_EQUAL(bench.held(), 4 * kMiB);
  bench.driver.streams.complete(0);
  CHECK_EQUAL(bench.held(), 0U);
}

TEST(a_kept_chunk_is_reused_without_the_driver_until_a_process_waits_for_memory) {
  Bench bench(8 * kMiB, kChunkBytes);
  for (int round = 0; round < 10; ++round) bench.arena->deallocate(bench.arena->allocate(3 * kMiB, 0));
  CHECK_EQUAL(bench.held(), kChunkBytes);
  CHECK_EQUAL(bench.arena->stats().chunks_given, 10U);  // of two chunks each time, one is kept
  bench.arena->check_integrity();
  {
    const LeaseClaim claim(bench.other, kMiB);
    bench.arena->deallocate(bench.arena->allocate(3 * kMiB, 0));
    CHECK_EQUAL(bench.held(), 0U);
  }
  bench.arena->deallocate(bench.arena->allocate(3 * kMiB, 0));
  CHECK_EQUAL(bench.arena->empty_cache(), kChunkBytes);
  CHECK_EQUAL(bench.held(), 0U);
}

TEST(a_kept_chunk_does_not_hinder_an_allocation_of_the_process_itself) {
  Bench bench(4 * kMiB, kChunkBytes);
  bench.arena->deallocate(bench.arena->allocate(kMiB, 0));
  CHECK_EQUAL(bench.held(), kChunkBytes);
  bench.arena->allocate(4 * kMiB, 1);
  CHECK_EQUAL(bench.held(), 4 * kMiB);
}

TEST(statistics_count_needed_and_held_bytes_separately) {
  Bench bench;
  bench.arena->record_series(3);
  const Address a = bench.arena->allocate(kMiB, 0);
  const Address b = bench.arena->allocate(3 * kMiB, 0);
  bench.arena->deallocate(a);
  ArenaStats stats = bench.arena->stats();
  CHECK_EQUAL(stats.needed, 3 * kMiB);
  CHECK_EQUAL(stats.needed_peak, 4 * kMiB);
  CHECK_EQUAL(stats.held, 4 * kMiB);
  CHECK_EQUAL(stats.held_peak, 4 * kMiB);
  CHECK_EQUAL(stats.allocations, 2U);
  CHECK_EQUAL(stats.deallocations, 1U);
  CHECK_EQUAL(stats.needed_total, 4 * kMiB);
  CHECK_EQUAL(stats.live_blocks, 1U);
  CHECK_EQUAL(bench.board->snapshot().slots[0].needed_bytes, 3 * kMiB);
  const auto series = bench.arena->series();
  CHECK_EQUAL(series.size(), 3U);
  CHECK_EQUAL(series[1].needed, 4 * kMiB);
  CHECK_EQUAL(series[2].needed, 3 * kMiB);
  CHECK_EQUAL(series[2].held, 4 * kMiB);
  CHECK(series[0].time_ns <= series[2].time_ns);
  bench.arena->deallocate(b);
  bench.arena->reset_peaks();
  stats = bench.arena->stats();
  CHECK_EQUAL(stats.needed_peak, 0U);
  CHECK_EQUAL(stats.held_peak, 0U);
  const RecentNeeds all = bench.arena->take_recent();
  CHECK_EQUAL(all.peak, 4 * kMiB);
  CHECK_EQUAL(all.allocated, 4 * kMiB);
  const RecentNeeds none = bench.arena->take_recent();
  CHECK_EQUAL(none.peak, 0U);
  CHECK_EQUAL(none.allocated, 0U);
  bench.arena->record_series(0);
  CHECK(bench.arena->series().empty());
}

TEST(the_most_free_bytes_that_were_of_no_use_are_remembered) {
  Bench bench;
  const Address small = bench.arena->allocate(kMiB, 0);
  CHECK_EQUAL(bench.arena->stats().spare_peak, kMiB);  // the rest of the first chunk
  const Address large = bench.arena->allocate(3 * kMiB, 0);
  bench.arena->deallocate(small);
  CHECK_EQUAL(bench.arena->stats().spare_peak, kMiB);  // a gap counts only when an allocation needs another lease
  bench.arena->allocate(2 * kMiB, 0);
  CHECK_EQUAL(bench.arena->stats().spare_peak, kMiB);  // 3 of 4 were needed, now 5 of 6
  bench.arena->deallocate(large);
  bench.arena->allocate(5 * kMiB, 0);
  CHECK_EQUAL(bench.arena->stats().spare_peak, bench.held() - 7 * kMiB);
}

TEST(an_address_that_is_no_block_is_refused) {
  Bench bench;
  const Address block = bench.arena->allocate(kMiB, 0);
  CHECK_THROWS(std::invalid_argument, "no block starts", bench.arena->deallocate(block + 512));
  CHECK_THROWS(std::invalid_argument, "no block starts", bench.arena->record_stream(block + 512, 1));
  bench.arena->deallocate(block);
  CHECK_THROWS(std::invalid_argument, "no block starts", bench.arena->deallocate(block));
  bench.arena->check_integrity();
}

TEST(a_request_for_more_than_the_device_has_fails_at_once_and_says_why) {
  Bench bench(8 * kMiB, 0, std::chrono::hours(1));
  const Address block = bench.arena->allocate(5 * kMiB, 0);
  try {
    bench.arena->allocate(4 * kMiB, 0);
    CHECK(false);
  } catch (const OutOfMemory& error) {
    CHECK_EQUAL(error.need_bytes, 4 * kMiB);
    CHECK_EQUAL(error.held_bytes, 5 * kMiB);
    CHECK_EQUAL(error.capacity_bytes, 8 * kMiB);
    const std::string message = error.what();
    for (const char* part : {"4.0 MiB", "5.0 MiB", "8.0 MiB"}) CHECK(message.find(part) != std::string::npos);
  }
  CHECK_THROWS(OutOfMemory, "out of memory", bench.arena->allocate(~std::size_t{0}, 0));
  CHECK_EQUAL(bench.arena->stats().out_of_memory, 2U);
  bench.arena->check_integrity();
  bench.arena->deallocate(block);
  bench.arena->allocate(8 * kMiB, 0);
}

TEST(a_process_that_gaps_would_keep_from_fitting_gives_them_back) {
  Bench bench(8 * kMiB);
  std::vector<Address> blocks;
  for (int count = 0; count < 16; ++count) blocks.push_back(bench.arena->allocate(kMiB / 2, 0));
  for (std::size_t index = 0; index < 16; ++index)
    if (index % 2 == 1) bench.arena->deallocate(blocks[index]);
  CHECK_EQUAL(bench.held(), 8 * kMiB);  // half of it in gaps that are too small for the next block
  std::vector<Address> wide;
  for (int count = 0; count < 4; ++count) {
    wide.push_back(bench.arena->allocate(kMiB, 0));
    bench.driver.word(wide.back()) = bench.driver.word(wide.back() + kMiB - 512) = 7;
    bench.arena->check_integrity();
  }
  CHECK_EQUAL(bench.held(), 8 * kMiB);
  CHECK_EQUAL(bench.driver.backed_bytes(), 8 * kMiB);
  CHECK_THROWS(OutOfMemory, "out of memory", bench.arena->allocate(512, 0));
  for (const Address block : wide) bench.arena->deallocate(block);
  CHECK_EQUAL(bench.held(), 4 * kMiB + kMiB / 2);  // a gap before the first of them has its pages again
  bench.arena->check_integrity();
  const Address again = bench.arena->allocate(kMiB / 2, 0);  // in a gap, whose pages are taken again
  bench.driver.word(again) = 8;
  CHECK_EQUAL(bench.held(), 5 * kMiB);
  bench.arena->check_integrity();
}

TEST(gaps_that_a_stream_may_still_use_are_not_given_back) {
  Bench bench(4 * kMiB);
  std::vector<Address> blocks;
  for (int count = 0; count < 8; ++count) blocks.push_back(bench.arena->allocate(kMiB / 2, 0));
  bench.driver.streams.launch(0);
  for (std::size_t index = 0; index < 8; index += 2) bench.arena->deallocate(blocks[index]);
  const auto busy = bench.arena->try_allocate(kMiB, 0);
  CHECK(busy.outcome == Allocation::full);
  CHECK_EQUAL(bench.held(), 4 * kMiB);
  bench.driver.streams.complete(0);
  CHECK(bench.arena->try_allocate(kMiB, 0).outcome == Allocation::granted);
  CHECK(bench.arena->try_allocate(kMiB + 512, 0).outcome == Allocation::over_capacity);
  bench.arena->check_integrity();
}

TEST(an_allocation_waits_for_a_capacity_that_was_lowered_to_rise_again) {
  Bench bench(16 * kMiB);
  bench.board->set_patience(std::chrono::milliseconds(10));
  std::atomic<std::uint64_t> told{0};
  ArenaOptions options;
  options.on_too_small = [&](std::uint64_t bytes) { told = bytes; };
  bench.arena.emplace(bench.driver, bench.member, options);
  bench.arena->allocate(10 * kMiB, 0);
  bench.board->set_capacity(8 * kMiB);
  std::atomic<bool> allocated{false};
  std::thread thread([&] {
    bench.arena->allocate(2 * kMiB, 0);
    allocated = true;
  });
  CHECK(eventually([&] { return told == 12 * kMiB; }));
  CHECK(!allocated);
  bench.board->set_capacity(12 * kMiB);
  thread.join();
  bench.board->set_capacity(8 * kMiB);
  CHECK_THROWS(OutOfMemory, "out of memory", bench.arena->allocate(6 * kMiB, 0));  // it never had so much
  bench.arena->check_integrity();
}

TEST(a_capacity_counts_that_rose_and_fell_while_the_process_asked_for_nothing) {
  Bench bench(8 * kMiB);
  bench.board->set_capacity(16 * kMiB);
  bench.board->set_capacity(8 * kMiB);
  CHECK(bench.arena->try_allocate(17 * kMiB, 0).outcome == Allocation::over_capacity);
  CHECK(bench.arena->try_allocate(16 * kMiB, 0).outcome == Allocation::full);
  Member newcomer(bench.board, "newcomer");
  Arena its(bench.driver, newcomer, ArenaOptions{});
  CHECK(its.try_allocate(9 * kMiB, 0).outcome == Allocation::over_capacity);  // it was not there then
  bench.board->set_capacity(16 * kMiB);
  CHECK(bench.arena->try_allocate(16 * kMiB, 0).outcome == Allocation::granted);
}

TEST(an_allocation_waits_until_the_deadline_for_memory_that_others_hold) {
  Bench bench(8 * kMiB, 0, std::chrono::milliseconds(5));
  CHECK(bench.other.try_take(6 * kMiB) == Lease::granted);
  CHECK_THROWS(OutOfMemory, "others hold 6.0 MiB; waited 0.005", bench.arena->allocate(4 * kMiB, 0));
  CHECK_EQUAL(bench.board->snapshot().slots[0].wanted_bytes, 0U);
  bench.board->set_ceiling(bench.member.slot(), kMiB);
  CHECK_THROWS(OutOfMemory, "its ceiling is 1.0 MiB", bench.arena->allocate(kMiB + 512, 0));
  bench.arena->check_integrity();
}

TEST(an_allocation_waits_for_another_process_to_give_back) {
  Bench bench(8 * kMiB);
  bench.board->set_patience(std::chrono::hours(1));
  CHECK(bench.other.try_take(6 * kMiB) == Lease::granted);
  std::thread giver([&] {
    CHECK(eventually([&] { return bench.board->snapshot().slots[0].wanted_bytes == 4 * kMiB; }));
    bench.other.give(2 * kMiB);
  });
  bench.arena->allocate(4 * kMiB, 0);
  giver.join();
  CHECK_EQUAL(bench.arena->stats().lease_waits, 1U);
}

TEST(an_allocation_waits_for_the_streams_of_its_own_process) {
  Bench bench(8 * kMiB);
  bench.board->set_patience(std::chrono::hours(1));
  const Address block = bench.arena->allocate(8 * kMiB, 0);
  bench.driver.streams.launch(0);
  bench.arena->deallocate(block);
  std::thread worker([&] {
    CHECK(eventually([&] { return bench.board->snapshot().slots[0].wanted_bytes > 0; }));
    bench.driver.streams.complete(0);
  });
  bench.arena->allocate(8 * kMiB, 1);  // another stream
  worker.join();
  bench.arena->check_integrity();
}

TEST(a_waiting_allocation_takes_a_block_that_another_thread_frees) {
  Bench bench(8 * kMiB);
  bench.board->set_patience(std::chrono::hours(1));
  const Address block = bench.arena->allocate(kMiB, 0);
  bench.arena->allocate(3 * kMiB, 0);
  CHECK(bench.other.try_take(4 * kMiB) == Lease::granted);
  std::thread thread([&] {
    CHECK(eventually([&] { return bench.board->snapshot().slots[0].wanted_bytes > 0; }));
    bench.arena->deallocate(block);
  });
  CHECK_EQUAL(bench.arena->allocate(kMiB, 0), block);
  thread.join();
}

TEST(a_waiting_allocation_takes_a_block_that_other_streams_have_passed) {
  Bench bench(4 * kMiB);
  bench.board->set_patience(std::chrono::hours(1));
  const Address block = bench.arena->allocate(kMiB, 0);
  bench.arena->allocate(3 * kMiB, 0);
  bench.arena->record_stream(block, 1);
  bench.driver.streams.launch(1);
  bench.arena->deallocate(block);
  std::thread worker([&] {
    CHECK(eventually([&] { return bench.arena->stats().lease_waits == 1; }));
    bench.driver.streams.complete(1);
  });
  CHECK_EQUAL(bench.arena->allocate(kMiB, 0), block);
  worker.join();
}

TEST(a_driver_that_fails_to_back_costs_no_lease) {
  Bench bench;
  bench.driver.fail_next_back = true;
  CHECK_THROWS(DriverError, "told to fail", bench.arena->allocate(kMiB, 0));
  CHECK_EQUAL(bench.board->used_bytes(), 0U);
  bench.arena->allocate(kMiB, 0);
  bench.arena->check_integrity();
}

TEST(the_end_of_an_arena_gives_everything_back) {
  Bench bench;
  bench.arena->allocate(5 * kMiB, 0);
  bench.arena->allocate(5 * kMiB, 1, Hint::persistent);
  bench.arena.reset();
  CHECK_EQUAL(bench.board->used_bytes(), 0U);
  CHECK_EQUAL(bench.driver.reserved, 0U);
}

int main(int count, char** arguments) { return check::main(count, arguments); }
