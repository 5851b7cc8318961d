// What the native layer costs per call, in nanoseconds: arena, leases, SM tokens. Medians of several rounds.
//
// Build and run: make -C tests/native bench
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "arena.h"
#include "host_driver.h"
#include "sm_lane.h"

using namespace neaptide;
using namespace neaptide::soft;

namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

void measure(const char* what, int operations, const std::function<void()>& round) {
  std::vector<double> rounds;
  for (int repeat = 0; repeat < 9; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    round();
    const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start;
    rounds.push_back(elapsed.count() / operations);
  }
  std::sort(rounds.begin(), rounds.end());
  std::printf("%-52s %9.1f ns\n", what, rounds[rounds.size() / 2]);
}

/// Blocks of mixed sizes coming and going over a standing population, as a training step does it.
void churn(Arena& arena, HostDriver& driver, std::vector<Address>& live, int operations) {
  static std::mt19937_64 random(1);
  for (int operation = 0; operation < operations; ++operation) {
    Address& place = live[random() % live.size()];
    driver.launch(0);
    arena.deallocate(place);
    place = arena.allocate(std::size_t{512} << random() % 11, 0);
    driver.complete(0);
  }
}

}  // namespace

int main() {
  const std::string path = "/tmp/neaptide-native-bench-" + std::to_string(getpid());
  {
    auto board = Board::open_or_create(path, soft_board(4096 * kMiB, 2));
    Member member(board, "bench");
    HostDriver driver;
    constexpr int kOperations = 100'000;

    {
      Arena arena(driver, member);
      const Address anchor = arena.allocate(512, 0);
      measure("allocate + free, 64 KiB, nothing else live", kOperations, [&] {
        for (int i = 0; i < kOperations; ++i) arena.deallocate(arena.allocate(64 << 10, 0));
      });
      arena.deallocate(anchor);
      measure("allocate + free, 64 KiB, empty arena, one kept chunk", kOperations, [&] {
        for (int i = 0; i < kOperations; ++i) arena.deallocate(arena.allocate(64 << 10, 0));
      });
      std::vector<Address> live(2000);
      for (Address& place : live) place = arena.allocate(64 << 10, 0);
      measure("allocate + free, mixed sizes, 2000 live blocks", kOperations,
              [&] { churn(arena, driver, live, kOperations); });
      const ArenaStats stats = arena.stats();
      std::printf("%-52s %9.3f\n", "  held / needed after it", double(stats.held) / double(stats.needed));
      for (const Address place : live) arena.deallocate(place);
      arena.empty_cache();
      measure("allocate + free, 64 MiB, chunks taken and handed back", 100, [&] {
        for (int i = 0; i < 100; ++i) arena.deallocate(arena.allocate(64 * kMiB, 0));
      });
    }
    measure("lease take + give, 2 MiB", kOperations, [&] {
      for (int i = 0; i < kOperations; ++i)
        if (member.try_take(2 * kMiB) == Lease::granted) member.give(2 * kMiB);
    });
    {
      SmLane lane(member);
      measure("SM acquire + release, one lane open", kOperations, [&] {
        for (int i = 0; i < kOperations; ++i) {
          lane.acquire(1);
          lane.release();
        }
      });
      measure("SM renew, nobody waits", kOperations, [&] {
        lane.acquire(1);
        for (int i = 0; i < kOperations; ++i) lane.renew(1, 200'000);
        lane.release();
      });
      std::vector<std::unique_ptr<SmLane>> others;
      for (int i = 0; i < 15; ++i) others.push_back(std::make_unique<SmLane>(member));
      measure("SM acquire + release, 16 lanes open", kOperations, [&] {
        for (int i = 0; i < kOperations; ++i) {
          lane.acquire(1);
          lane.release();
        }
      });
    }
    measure("stream launch + complete", kOperations, [&] {
      for (int i = 0; i < kOperations; ++i) {
        driver.launch(1);
        driver.complete(1);
      }
    });
  }
  unlink(path.c_str());
}
