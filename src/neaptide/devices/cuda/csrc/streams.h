// The order of work on CUDA's streams: events, and what is to happen when the device has passed one.
//
// Each stream in use has a watcher: a thread that waits for the stream's events in order. An event of the Driver is a
// number on its stream, so asking whether it has passed costs a load. The ops of the program are counted on their
// stream. The next event that is recorded there for whatever reason marks them; if none is, one is recorded for them
// when they are many or have waited long. An event for each op would cost a microsecond per op.
//
// Lock order: calls mutex -> a clock's mutex; clocks mutex and clock's mutex are leaves. Functions of call_after() run
// with the calls mutex held, the listener with the listener mutex held; both are taken without any other lock.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "../../native/driver.h"
#include "../../native/launch/kernel_log.h"

namespace neaptide::cuda {

/// Ops that the device has done.
struct PassedOps {
  std::uint64_t count = 0;
  std::optional<KernelRecord> record;  // of the op, when it was logged; then the count is 1
};

struct StreamOptions {
  int ordinal = 0;
  std::function<void(std::uint64_t ops)> on_marked;  // an event will tell of them; called with a clock's mutex held
  std::function<void(const PassedOps&)> on_passed;   // called by the watchers, without locks
};

class Streams {
 public:
  /// One stream's. It lives as long as the Streams.
  class Clock;

  explicit Streams(StreamOptions options);
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;
  /// Waits for what was recorded and ends the watchers.
  ~Streams();

  // As Driver has them.
  Event record(StreamId stream);
  bool passed(const Event& event);
  bool wait(const Event& event, Deadline deadline);
  bool arm(const Event& event);
  void set_listener(std::function<void()> listener);
  void call_after(StreamId stream, std::function<void()> function);

  Clock& at(StreamId stream);
  /// An op was launched on the stream. It is marked when as many as set_batch() says are not, or a quarter of those
  /// that may be in flight.
  void count_op(Clock& clock, std::uint32_t cap);
  /// An op was launched on the stream, and its times are wanted: `record` gets them.
  void log_op(Clock& clock, const KernelRecord& record);
  /// How many ops wait for an event at most, from now on. Ops that wait already are marked with the next one.
  void set_batch(std::uint32_t ops);
  /// Marks the ops that were counted and not yet marked.
  void flush();
  /// Waits until everything that was recorded has passed, and what was to happen then has happened.
  void wait_for_all();
  /// Times of logged ops are told from now on; the device is idle.
  void start_timing();

 private:
  std::vector<Clock*> all();
  void notify();

  const StreamOptions options_;
  std::shared_mutex clocks_mutex_;
  std::map<StreamId, std::unique_ptr<Clock>> clocks_;
  std::shared_mutex listener_mutex_;
  std::function<void()> listener_;
  cudaEvent_t timing_base_ = nullptr;
  std::atomic<std::uint64_t> timing_base_ns_{0};
  std::atomic<std::uint32_t> batch_{1};
};

}  // namespace neaptide::cuda
