// The arena against a simple oracle, under random programs of allocations, kernels, frees, pressure and evictions.
//
// The oracle knows, for every kernel launched and not yet done, which bytes it uses. So it detects what must never
// happen: two live blocks that overlap, bytes handed to another stream while a kernel still uses them, memory unbacked
// under a kernel or a live block, a lease too many or too few, an allocation refused though there was room.
#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "arena.h"
#include "fake_driver.h"
#include "support.h"

using namespace support;

namespace {

struct Setting {
  std::uint64_t capacity;
  std::uint64_t keep;
  StreamId streams;
  bool reuse_at_launch = true;
};

class Model {
 public:
  Model(unsigned seed, const Setting& setting)
      : setting_(setting),
        random_(seed),
        board_(Board::open_or_create(path_, soft_board(setting.capacity, 2))),
        member_(board_, "model"),
        other_(board_, "other") {
    ArenaOptions options;
    options.keep_bytes = setting.keep;
    options.wait = std::chrono::nanoseconds(0);
    options.range_bytes = 1024 * kMiB;
    arena_.emplace(driver_, member_, options);
    arena_->set_reuse_at_launch(setting.reuse_at_launch);
    driver_.on_unback = [this](Address start, std::size_t bytes) {
      if (evicting_) return;
      CHECK(!in_use(start, start + bytes, std::nullopt));
      CHECK(!overlaps_live(start, start + bytes));
    };
  }

  void run(int steps) {
    for (int step = 0; step < steps; ++step) {
      const unsigned dice = pick(100);
      if (dice < 34)
        allocate();
      else if (dice < 64)
        deallocate();
      else if (dice < 78)
        launch();
      else if (dice < 94)
        complete(pick(static_cast<unsigned>(setting_.streams)));
      else if (dice < 98)
        press();
      else if (dice < 99)
        empty_cache();
      else if (pick(5) == 0)
        evict();
      if (step % 7 == 0) check();
    }
    finish();
  }

 private:
  struct Live {
    std::uint64_t bytes;
    StreamId stream;
    std::uint64_t tag;
  };
  struct Use {
    Address start, end;
    StreamId stream;
    std::uint64_t ticket;
  };

  unsigned pick(unsigned below) { return static_cast<unsigned>(random_() % below); }

  std::uint64_t random_size() {
    switch (pick(4)) {
      case 0:
        return 1 + pick(4000);
      case 1:
        return 1 + pick(200'000);
      case 2:
        return 1 + pick(3 * kMiB);
      default:
        return pick(4) == 0 ? 1 + pick(9 * kMiB) : kMiB;
    }
  }

  bool done(const Use& use) const { return driver_.streams.done(use.stream) >= use.ticket; }

  /// Whether a kernel that is not done uses these bytes, on any stream but `but`.
  bool in_use(Address start, Address end, std::optional<StreamId> but) const {
    return std::any_of(uses_.begin(), uses_.end(), [&](const Use& use) {
      return use.start < end && start < use.end && !done(use) && (!but || use.stream != *but);
    });
  }

  bool overlaps_live(Address start, Address end) const {
    auto after = live_.lower_bound(end);
    return after != live_.begin() && std::prev(after)->first + std::prev(after)->second.bytes > start;
  }

  void allocate() {
    const std::uint64_t bytes = random_size();
    const StreamId stream = pick(static_cast<unsigned>(setting_.streams));
    const Hint hint = pick(3) == 0 ? Hint::persistent : Hint::ephemeral;
    Address block = 0;
    try {
      block = arena_->allocate(bytes, stream, hint);
    } catch (const OutOfMemory& error) {
      const std::uint64_t chunks = (bytes + kChunkBytes - 1) / kChunkBytes * kChunkBytes;
      CHECK_EQUAL(error.held_bytes, member_.held_bytes());
      constexpr std::uint64_t kPage = 4096;                              // a block may touch one more than it fills
      CHECK(setting_.capacity - board_->used_bytes() < chunks + kPage);  // else there was room
      ++refused_;
      return;
    }
    const std::uint64_t size = arena_->block_bytes(block);
    CHECK(size >= bytes && size < bytes + 512 && block % 512 == 0);
    CHECK(!overlaps_live(block, block + size));
    CHECK(!in_use(block, block + size, stream));
    const std::uint64_t tag = ++tags_;
    driver_.word(block) = driver_.word(block + size - 512) = tag;
    live_[block] = {size, stream, tag};
  }

  std::map<Address, Live>::iterator random_block() {
    auto block = live_.lower_bound(FakeDriver::kBase + random_() % (1024 * kMiB));
    return block == live_.end() ? live_.begin() : block;
  }

  void deallocate() {
    if (live_.empty()) return;
    const auto block = random_block();
    if (!arena_->evicted()) {
      CHECK_EQUAL(driver_.word(block->first), block->second.tag);
      CHECK_EQUAL(driver_.word(block->first + block->second.bytes - 512), block->second.tag);
    }
    const Address address = block->first;
    live_.erase(block);
    arena_->deallocate(address);
  }

  void launch() {
    const StreamId stream = pick(static_cast<unsigned>(setting_.streams));
    const std::uint64_t ticket = driver_.streams.launch(stream);
    for (unsigned count = pick(4); count > 0 && !live_.empty(); --count) {
      const auto block = random_block();
      if (block->second.stream != stream) arena_->record_stream(block->first, stream);
      uses_.push_back({block->first, block->first + block->second.bytes, stream, ticket});
    }
  }

  void complete(StreamId stream) {
    if (driver_.streams.in_flight(stream) > 0) driver_.streams.complete(stream);
    while (!uses_.empty() && done(uses_.front())) uses_.pop_front();
  }

  void complete_all() {
    for (StreamId stream = 0; stream < setting_.streams; ++stream)
      while (driver_.streams.in_flight(stream) > 0) complete(stream);
    uses_.clear();
  }

  void press() {
    if (other_.held_bytes() > 0)
      other_.give(other_.held_bytes());
    else
      other_.try_take(pick(static_cast<unsigned>(setting_.capacity / 2)));
  }

  void empty_cache() {
    complete_all();
    arena_->empty_cache();
    CHECK(arena_->stats().held == 0 || !live_.empty());
  }

  void evict() {
    complete_all();
    evicting_ = true;
    arena_->evict(kNever);
    evicting_ = false;
    CHECK_EQUAL(member_.held_bytes(), 0U);
    CHECK_EQUAL(driver_.backed_bytes(), 0U);
    check();
    for (unsigned count = pick(5); count > 0; --count) deallocate();
    if (!arena_->restore(in(std::chrono::nanoseconds(0)))) {
      if (other_.held_bytes() > 0) other_.give(other_.held_bytes());
      CHECK(arena_->restore(kNever));
    }
    for (const auto& [address, block] : live_) CHECK_EQUAL(driver_.word(address), block.tag);
    ++evictions_;
  }

  void check() {
    arena_->check_integrity();
    const ArenaStats stats = arena_->stats();
    std::uint64_t needed = 0;
    for (const auto& [address, block] : live_) needed += block.bytes;
    CHECK_EQUAL(stats.needed, needed);
    CHECK_EQUAL(stats.live_blocks, live_.size());
    CHECK_EQUAL(stats.held, member_.held_bytes());
    CHECK_EQUAL(stats.held, driver_.backed_bytes());
    CHECK(arena_->evicted() || stats.held >= needed);
    CHECK_EQUAL(board_->used_bytes(), stats.held + other_.held_bytes());
    CHECK(board_->high_water_bytes() <= setting_.capacity);
  }

  void finish() {
    while (!live_.empty()) deallocate();
    complete_all();
    check();
    CHECK(arena_->stats().held <= setting_.keep);
    arena_->empty_cache();
    CHECK_EQUAL(member_.held_bytes(), 0U);
    CHECK_EQUAL(driver_.backed_bytes(), 0U);
    CHECK(refused_ > 0 && evictions_ > 0);  // else the program tested less than it claims
  }

  const Setting setting_;
  std::mt19937_64 random_;
  TemporaryPath path_;
  std::shared_ptr<Board> board_;
  Member member_, other_;
  FakeDriver driver_;
  std::map<Address, Live> live_;
  std::deque<Use> uses_;
  std::uint64_t tags_ = 0;
  int refused_ = 0, evictions_ = 0;
  bool evicting_ = false;
  std::optional<Arena> arena_;
};

}  // namespace

TEST(random_programs_on_one_stream) {
  for (unsigned seed = 0; seed < 4; ++seed) Model(seed, {40 * kMiB, 0, 1}).run(5000);
}

TEST(random_programs_on_three_streams) {
  for (unsigned seed = 10; seed < 14; ++seed) Model(seed, {60 * kMiB, 0, 3}).run(5000);
}

TEST(random_programs_with_kept_chunks) {
  for (unsigned seed = 20; seed < 24; ++seed) Model(seed, {60 * kMiB, 6 * kMiB, 2}).run(5000);
}

TEST(random_programs_in_very_little_memory) {
  for (unsigned seed = 30; seed < 34; ++seed) Model(seed, {8 * kMiB, 2 * kMiB, 2}).run(5000);
}

TEST(random_programs_without_reuse_at_launch) {
  for (unsigned seed = 40; seed < 44; ++seed) Model(seed, {60 * kMiB, 0, 2, false}).run(5000);
}

int main(int count, char** arguments) { return check::main(count, arguments); }
