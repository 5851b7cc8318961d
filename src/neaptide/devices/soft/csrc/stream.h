// A stream: a queue of tasks that one worker thread runs in order.
//
// Lock order: while the queue mutex is held, only the driver's counters are touched; the error box's mutex is a leaf.
// No lock is held while a task runs.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "../../native/host_driver.h"
#include "../../native/launch/blocking.h"
#include "../../native/launch/launch_port.h"
#include "../../native/member.h"
#include "sm_queue/sm_pace.h"
#include "sm_queue/sm_queue.h"

namespace neaptide::soft {

/// Work of a stream. A kernel has a width of at least one SM; other tasks have none and take no SM tokens.
class Task {
 public:
  explicit Task(std::uint32_t width) : width_(width) {}
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  virtual ~Task() = default;
  virtual void run() = 0;
  /// Whether run() may sleep: SM tokens are given back before it.
  virtual bool waits() const { return false; }
  /// How long run() is expected to take; 0: not known.
  virtual std::uint64_t expected_ns() const { return 0; }
  /// How many bytes run() reads and writes, as far as that is known. Called before run().
  virtual std::uint64_t moved_bytes() const { return 0; }
  /// run() took this long.
  virtual void took(std::uint64_t /*ns*/) {}
  std::uint32_t width() const { return width_; }
  bool kernel() const { return width_ > 0; }

 private:
  std::uint32_t width_;
};

/// The first exception of any kernel since the last time one was reported.
class ErrorBox {
 public:
  void put(std::exception_ptr error);
  /// Throws what is in the box and empties it.
  void rethrow() {
    if (full_.load(std::memory_order_acquire)) take_and_throw();
  }

 private:
  void take_and_throw();
  std::atomic<bool> full_{false};
  std::mutex mutex_;
  std::exception_ptr error_;
};

/// What the streams of one process share.
struct StreamContext {
  HostDriver& driver;
  Member& member;
  SmRegion& sms;
  SmPace& pace;
  LaunchPort& port;
  ErrorBox& errors;
  double link_bandwidth;  // to host memory, bytes per second
  /// Prepares a new worker thread.
  void (*prepare_worker)();
  /// Sets how many threads the calling worker's next kernel may use.
  void (*set_width)(std::uint32_t);
};

class Stream {
 public:
  Stream(StreamContext context, StreamId id);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  /// Runs what is queued, then ends the worker.
  ~Stream();

  StreamId id() const { return id_; }
  /// Queues a task. A kernel waits here while too many are in flight.
  void push(std::unique_ptr<Task> task);
  /// The point after everything pushed so far.
  Event record() { return context_.driver.record(id_); }
  bool idle() { return context_.driver.passed(record()); }
  /// Makes what is pushed from now on wait for a point in another stream.
  void wait_for(const Event& event);
  /// Waits for everything pushed so far, without the interpreter lock. Does not throw what kernels threw.
  void drain();

 private:
  class Tokens;
  void work();
  void sleep();
  bool next_batch(std::vector<std::unique_ptr<Task>>& batch);
  bool more() const { return context_.driver.launched(id_) > taken_; }
  void run(std::unique_ptr<Task> task, Tokens& tokens, bool last_in_sight);
  void prepare_kernel(const Task& task, Tokens& tokens);
  void keep_to_share(Tokens& tokens);
  void run_kernel(Task& task);
  void await_link(Tokens& tokens, bool last_in_sight);

  StreamContext context_;
  StreamId id_;
  const std::uint32_t sms_;  // of the device
  std::mutex mutex_;
  std::condition_variable work_;
  std::vector<std::unique_ptr<Task>> queue_;
  std::uint64_t taken_ = 0;         // tasks that the worker has taken from the queue; only the worker uses it
  std::uint64_t link_done_ns_ = 0;  // when the link has carried the bytes of the kernels so far; the worker's
  bool sleeping_ = false;
  std::atomic<bool> stopping_{false};
  AdaptiveSpin idle_spin_;
  std::thread worker_;
};

/// Waits for a point in a stream: spins a little, then sleeps without the interpreter lock.
/// It spins only while an SM is free: a core is better used by a kernel.
void await(const SmRegion& sms, HostDriver& driver, const Event& event);

}  // namespace neaptide::soft
