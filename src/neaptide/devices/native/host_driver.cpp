#include "host_driver.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "futex.h"

namespace neaptide {
namespace {

thread_local StreamId current_id = 0;

void* pointer(Address address) { return reinterpret_cast<void*>(address); }

[[noreturn]] void fail(const char* what, std::size_t bytes) {
  throw DriverError(std::string("host driver: cannot ") + what + ' ' + std::to_string(bytes) +
                    " bytes: " + std::strerror(errno));
}

}  // namespace

Address HostDriver::reserve(std::size_t bytes, std::size_t chunk_bytes) {
  // One chunk more than asked, so that the range can start on a chunk's boundary; the rest is cut off.
  const std::size_t mapped = bytes + chunk_bytes;
  void* memory = mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) fail("reserve", bytes);
  const Address start = reinterpret_cast<Address>(memory);
  const Address aligned = (start + chunk_bytes - 1) / chunk_bytes * chunk_bytes;
  if (aligned > start) munmap(memory, aligned - start);
  munmap(pointer(aligned + bytes), start + mapped - (aligned + bytes));
  // A chunk is one huge page where the kernel allows it: a 2 MiB chunk then costs one fault instead of 512.
  madvise(pointer(aligned), bytes, MADV_HUGEPAGE);
  madvise(pointer(aligned), bytes, MADV_DONTFORK);
  return aligned;
}

void HostDriver::release(Address address, std::size_t bytes) noexcept { munmap(pointer(address), bytes); }

void HostDriver::back(Address address, std::size_t bytes) {
  if (mprotect(pointer(address), bytes, PROT_READ | PROT_WRITE) != 0) fail("back", bytes);
}

void HostDriver::unback(Address address, std::size_t bytes) {
  if (madvise(pointer(address), bytes, MADV_FREE) != 0) unback_pages(address, bytes);
  // The system may take the pages from now on, and clears new ones only if it did: clearing all that a training step
  // takes and gives would be a tenth of the step. Protection only makes a stray access fault, and may be refused when
  // there are too many ranges.
  static_cast<void>(mprotect(pointer(address), bytes, PROT_NONE));
}

std::size_t HostDriver::page_bytes() const { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

void HostDriver::unback_pages(Address address, std::size_t bytes) {
  if (madvise(pointer(address), bytes, MADV_DONTNEED) == 0) return;
  // The system refuses for pages that the program has locked into memory (mlockall).
  munlock(pointer(address), bytes);
  if (madvise(pointer(address), bytes, MADV_DONTNEED) != 0) fail("unback", bytes);
}

void HostDriver::copy_to_host(void* host, Address device, std::size_t bytes) {
  std::memcpy(host, pointer(device), bytes);
}

void HostDriver::copy_to_device(Address device, const void* host, std::size_t bytes) {
  std::memcpy(pointer(device), host, bytes);
}

HostDriver::Stream& HostDriver::at(StreamId stream) { return streams_.at(stream); }
const HostDriver::Stream& HostDriver::at(StreamId stream) const { return streams_.at(stream); }

Event HostDriver::record(StreamId stream) { return {stream, at(stream).launched.load()}; }

bool HostDriver::passed(const Event& event) { return at(event.stream).done.load() >= event.value; }

bool HostDriver::wait(const Event& event, Deadline deadline) {
  Stream& stream = at(event.stream);
  stream.waiters.fetch_add(1);
  bool there = false;
  for (;;) {
    const std::uint32_t epoch = stream.wake.load();
    there = passed(event);
    if (there || std::chrono::steady_clock::now() >= deadline) break;
    futex_wait(stream.wake, epoch, deadline, Reach::one_process);
  }
  stream.waiters.fetch_sub(1);
  return there;
}

void HostDriver::drop(const Event&) noexcept {}

bool HostDriver::arm(const Event& event) {
  Stream& stream = at(event.stream);
  std::uint64_t armed = stream.armed.load();
  while (event.value < armed && !stream.armed.compare_exchange_weak(armed, event.value)) {
  }
  if (!passed(event)) return false;
  // The event passed before it was armed, or meanwhile: the thread that disarms it has to act.
  std::uint64_t mine = event.value;
  return stream.armed.compare_exchange_strong(mine, kNever);
}

void HostDriver::set_listener(std::function<void()> listener) {
  const std::unique_lock lock(listener_mutex_);
  listener_ = std::move(listener);
}

void HostDriver::notify() {
  const std::shared_lock lock(listener_mutex_);
  if (listener_) listener_();
}

StreamId HostDriver::current() { return current_id; }
StreamId HostDriver::exchange_current(StreamId stream) { return std::exchange(current_id, stream); }

void HostDriver::call_after(StreamId id, std::function<void()> function) {
  Stream& stream = at(id);
  const std::lock_guard lock(stream.calls_mutex);
  stream.calls.push_back({stream.launched.load(), std::move(function)});
  stream.call_at.store(stream.calls.front().at);
  // complete() stores `done` before it reads `call_at`: one of the two sees that this call is due.
  run_calls_locked(stream, stream.done.load());
}

void HostDriver::run_calls(Stream& stream, std::uint64_t done) {
  const std::lock_guard lock(stream.calls_mutex);
  run_calls_locked(stream, done);
}

void HostDriver::run_calls_locked(Stream& stream, std::uint64_t done) {
  while (!stream.calls.empty() && stream.calls.front().at <= done) {
    const auto function = std::move(stream.calls.front().function);
    stream.calls.pop_front();
    function();
  }
  stream.call_at.store(stream.calls.empty() ? kNever : stream.calls.front().at);
}

std::uint64_t HostDriver::launch(StreamId stream) { return at(stream).launched.fetch_add(1) + 1; }

void HostDriver::complete(StreamId id) {
  Stream& stream = at(id);
  const std::uint64_t done = stream.done.load(std::memory_order_relaxed) + 1;
  if (stream.call_at.load() <= done) run_calls(stream, done);
  stream.done.store(done);
  if (stream.call_at.load() <= done) run_calls(stream, done);  // asked for meanwhile
  if (stream.waiters.load() > 0) futex_wake(stream.wake, Reach::one_process);
  std::uint64_t armed = stream.armed.load();
  if (armed <= done && stream.armed.compare_exchange_strong(armed, kNever)) notify();
}

std::uint64_t HostDriver::launched(StreamId stream) const { return at(stream).launched.load(); }
std::uint64_t HostDriver::done(StreamId stream) const { return at(stream).done.load(); }

std::uint64_t HostDriver::in_flight(StreamId stream) const {
  const std::uint64_t done_first = done(stream);
  return launched(stream) - done_first;
}

}  // namespace neaptide
