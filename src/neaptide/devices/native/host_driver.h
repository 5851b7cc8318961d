// The host implementation of the driver table: device memory is anonymous memory of this process.
//
// A stream is two counters, launched and done. The device calls launch() when work enters a stream's
// queue and complete() when it has run; an event is then just a number, and recording one costs a load.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <shared_mutex>

#include "driver.h"

namespace neaptide {

class HostDriver : public Driver {
 public:
  /// Stream ids are 0 .. kStreams - 1; an id outside throws std::out_of_range.
  static constexpr std::size_t kStreams = 256;

  HostDriver() = default;

  Address reserve(std::size_t bytes, std::size_t chunk_bytes) override;
  void release(Address address, std::size_t bytes) noexcept override;
  void back(Address address, std::size_t bytes) override;
  void unback(Address address, std::size_t bytes) override;
  std::size_t page_bytes() const override;
  void unback_pages(Address address, std::size_t bytes) override;
  /// Its memory is the host's: kernels reach all of it, and nothing has to be moved.
  bool maps_host() const override { return true; }
  void back_with_host(Address address, std::size_t bytes) override { back(address, bytes); }
  void copy_to_host(void* host, Address device, std::size_t bytes) override;
  void copy_to_device(Address device, const void* host, std::size_t bytes) override;
  Event record(StreamId stream) override;
  bool passed(const Event& event) override;
  bool wait(const Event& event, Deadline deadline) override;
  void drop(const Event& event) noexcept override;
  bool arm(const Event& event) override;
  void set_listener(std::function<void()> listener) override;
  StreamId current_stream() override { return current(); }
  void call_after(StreamId stream, std::function<void()> function) override;

  /// The calling thread's current stream, 0 until it is exchanged. exchange_current() returns the one before.
  static StreamId current();
  static StreamId exchange_current(StreamId stream);
  /// Work enters the stream's queue: call it before the work can run. Returns its number, 1 for the first.
  std::uint64_t launch(StreamId stream);
  /// The oldest work of the stream that is not done is done: call it once per launch(), in order, by the thread that
  /// ran it, which must not hold what others wait for (the listener may hand memory back on this thread). Functions of
  /// call_after() run here before the work counts as done, so that a thread that waits for the work finds them called.
  void complete(StreamId stream);
  /// Work launched and not yet done. Changes nothing.
  std::uint64_t in_flight(StreamId stream) const;
  /// Work launched and done so far. Change nothing.
  std::uint64_t launched(StreamId stream) const;
  std::uint64_t done(StreamId stream) const;

 private:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  struct Call {
    std::uint64_t at;  // done count
    std::function<void()> function;
  };
  struct alignas(64) Stream {
    std::atomic<std::uint64_t> launched{0};
    std::atomic<std::uint64_t> done{0};
    std::atomic<std::uint64_t> armed{kNever};  // done count at which to call the listener
    std::atomic<std::uint32_t> wake{0};        // futex of wait()
    std::atomic<std::uint32_t> waiters{0};
    std::atomic<std::uint64_t> call_at{kNever};  // done count at which the first of `calls` is due
    std::mutex calls_mutex;                      // held while a function runs, so that functions come in order
    std::deque<Call> calls;
  };

  Stream& at(StreamId stream);
  const Stream& at(StreamId stream) const;
  void notify();
  static void run_calls(Stream& stream, std::uint64_t done);
  static void run_calls_locked(Stream& stream, std::uint64_t done);

  std::array<Stream, kStreams> streams_;
  std::shared_mutex listener_mutex_;  // taken alone, but held while the listener runs: before the arena's mutex
  std::function<void()> listener_;
};

}  // namespace neaptide
