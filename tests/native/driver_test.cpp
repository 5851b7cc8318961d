// The host driver: memory that is there only while it is backed, and streams that are two counters.
#include <csignal>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "host_driver.h"
#include "support.h"

using namespace support;

namespace {

constexpr std::size_t kRange = 16 * kChunkBytes;

/// Whether a byte can be read, tried in a child.
bool readable(Address address) {
  Child child([=] {
    std::signal(SIGSEGV, SIG_DFL);
    volatile const char* byte = reinterpret_cast<const char*>(address);
    static_cast<void>(*byte);
  });
  return child.wait() == 0;
}

/// Whether a byte can be read, tried in this process: a child does not have the driver's range.
bool readable_here(Address address) {
  int pipe_ends[2];
  CHECK(pipe(pipe_ends) == 0);
  const bool good = write(pipe_ends[1], reinterpret_cast<const void*>(address), 1) == 1;
  close(pipe_ends[0]);
  close(pipe_ends[1]);
  return good;
}

/// Bytes of this process that the system may take back whenever it needs memory.
std::uint64_t bytes_free_to_take() {
  std::ifstream file("/proc/self/smaps_rollup");
  std::uint64_t kib = 0;
  for (std::string word; file >> word;)
    if (word == "LazyFree:") file >> kib;
  return kib << 10;
}

}  // namespace

TEST(memory_is_there_only_while_it_is_backed) {
  HostDriver driver;
  const Address range = driver.reserve(kRange, kChunkBytes);
  CHECK_EQUAL(range % kChunkBytes, 0U);
  const Address chunk = range + 3 * kChunkBytes;
  CHECK(!readable_here(chunk));
  driver.back(chunk, 2 * kChunkBytes);
  std::memset(reinterpret_cast<void*>(chunk), 7, 2 * kChunkBytes);
  CHECK(readable_here(chunk) && readable_here(chunk + 2 * kChunkBytes - 1));
  CHECK(!readable_here(chunk - 1) && !readable_here(chunk + 2 * kChunkBytes));
  const std::uint64_t before = bytes_free_to_take();
  driver.unback(chunk, kChunkBytes);
  CHECK_EQUAL(bytes_free_to_take() - before, kChunkBytes);
  CHECK(!readable_here(chunk) && readable_here(chunk + kChunkBytes));
  driver.back(chunk, kChunkBytes);
  CHECK(readable_here(chunk));
  CHECK_EQUAL(*reinterpret_cast<const char*>(chunk + kChunkBytes), 7);
  CHECK(!readable(chunk));  // a forked child does not have the memory
  driver.release(range, kRange);
  CHECK(!readable_here(chunk));
}

TEST(copies_arrive) {
  HostDriver driver;
  const Address range = driver.reserve(kRange, kChunkBytes);
  driver.back(range, kChunkBytes);
  std::vector<unsigned char> out(1000, 3), in(1000);
  driver.copy_to_device(range + 17, out.data(), out.size());
  driver.copy_to_host(in.data(), range + 17, in.size());
  CHECK(in == out);
  driver.release(range, kRange);
}

TEST(a_failed_call_says_what_failed) {
  HostDriver driver;
  CHECK_THROWS(DriverError, "cannot reserve", driver.reserve(std::size_t{1} << 60, kChunkBytes));
  CHECK_THROWS(DriverError, "cannot back", driver.back(kChunkBytes, kChunkBytes));
  CHECK_THROWS(std::out_of_range, "", driver.record(HostDriver::kStreams));
}

TEST(an_event_passes_when_the_work_before_it_is_done) {
  HostDriver driver;
  CHECK(driver.passed(driver.record(5)));
  CHECK_EQUAL(driver.launch(5), 1U);
  CHECK_EQUAL(driver.launch(5), 2U);
  const Event event = driver.record(5);
  driver.launch(5);
  CHECK_EQUAL(driver.in_flight(5), 3U);
  driver.complete(5);
  CHECK(!driver.passed(event));
  CHECK(!driver.wait(event, in(std::chrono::milliseconds(1))));
  driver.complete(5);
  CHECK(driver.passed(event));
  CHECK(driver.wait(event, kNever));
  CHECK_EQUAL(driver.in_flight(5), 1U);
}

TEST(a_waiter_for_an_event_is_woken) {
  HostDriver driver;
  for (int round = 0; round < 500; ++round) {
    driver.launch(0);
    const Event event = driver.record(0);
    std::thread worker([&] { driver.complete(0); });
    CHECK(driver.wait(event, kNever));
    worker.join();
  }
}

TEST(the_listener_is_called_once_for_the_earliest_armed_event) {
  HostDriver driver;
  int calls = 0;
  driver.set_listener([&] { ++calls; });
  driver.launch(0);
  const Event first = driver.record(0);
  driver.launch(0);
  const Event second = driver.record(0);
  CHECK(!driver.arm(second));
  CHECK(!driver.arm(first));
  driver.complete(0);
  CHECK_EQUAL(calls, 1);
  driver.complete(0);
  CHECK_EQUAL(calls, 1);  // the second event would have to be armed again, but has passed by now
  CHECK(driver.arm(second));
  CHECK_EQUAL(calls, 1);
  driver.launch(0);
  CHECK(!driver.arm(driver.record(0)));
  driver.set_listener({});
  driver.complete(0);
  CHECK_EQUAL(calls, 1);
}

TEST(an_armed_event_is_never_forgotten) {
  HostDriver driver;
  std::atomic<int> calls{0};
  driver.set_listener([&] { ++calls; });
  std::atomic<bool> stop{false};
  std::thread worker([&] {
    while (!stop || driver.in_flight(0) > 0) {
      if (driver.in_flight(0) > 0)
        driver.complete(0);
      else
        std::this_thread::yield();
    }
  });
  for (int round = 0; round < 5'000; ++round) {
    driver.launch(0);
    const int before = calls;
    // Either the event has passed already, or the listener is called.
    if (!driver.arm(driver.record(0))) CHECK(eventually([&] { return calls > before; }));
  }
  stop = true;
  worker.join();
}

int main(int count, char** arguments) { return check::main(count, arguments); }
