// The host implementation of the driver table: device memory is anonymous memory of this process.
//
// A stream is two counters, launched and done. Whoever runs the streams calls launch() when work enters a stream's
// queue and complete() when it has run; an event is then just a number, and recording one costs a load.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <mutex>
#include <shared_mutex>

#include "driver.h"

namespace neaptide {

class HostDriver final : public Driver {
 public:
  /// Stream ids are 0 .. kStreams - 1; an id outside throws std::out_of_range.
  static constexpr std::size_t kStreams = 256;

  HostDriver() = default;

  Address reserve(std::size_t bytes) override;
  void release(Address address, std::size_t bytes) noexcept override;
  void back(Address address, std::size_t bytes) override;
  void unback(Address address, std::size_t bytes) override;
  void copy_to_host(void* host, Address device, std::size_t bytes) override;
  void copy_to_device(Address device, const void* host, std::size_t bytes) override;
  Event record(StreamId stream) override;
  bool passed(const Event& event) override;
  bool wait(const Event& event, Deadline deadline) override;
  void drop(const Event& event) noexcept override;
  bool arm(const Event& event) override;
  void set_listener(std::function<void()> listener) override;

  /// Work enters the stream's queue: call it before the work can run. Returns its number, 1 for the first.
  std::uint64_t launch(StreamId stream);
  /// The oldest work of the stream that is not done is done: call it once per launch(), in order, by the thread that
  /// ran it, after it has let go of its SM tokens (the listener may hand memory back on this thread).
  void complete(StreamId stream);
  /// Work launched and not yet done. Changes nothing.
  std::uint64_t in_flight(StreamId stream) const;
  /// Work launched and done so far. Change nothing.
  std::uint64_t launched(StreamId stream) const;
  std::uint64_t done(StreamId stream) const;

 private:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  struct alignas(64) Stream {
    std::atomic<std::uint64_t> launched{0};
    std::atomic<std::uint64_t> done{0};
    std::atomic<std::uint64_t> armed{kNever};  // done count at which to call the listener
    std::atomic<std::uint32_t> wake{0};        // futex of wait()
    std::atomic<std::uint32_t> waiters{0};
  };

  Stream& at(StreamId stream);
  const Stream& at(StreamId stream) const;
  void notify();

  std::array<Stream, kStreams> streams_;
  std::shared_mutex listener_mutex_;  // taken alone, but held while the listener runs: before the arena's mutex
  std::function<void()> listener_;
};

}  // namespace neaptide
