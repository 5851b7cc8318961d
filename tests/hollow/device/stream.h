// Streams: queues of work that a thread per stream does in order.
//
// Time is nominal. An operation starts when it was enqueued, when its predecessor ended or when the device's engine is
// free, whichever is last, and ends `duration` later; a thread that woke up late catches up. So times between events
// are exact and a slow host does not slow the device. The engines' times are on the board, so that processes wait for
// each other: a device runs one kernel at a time, in the order in which streams ask for it.
#pragma once

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "board.h"

namespace hollow {

class Capture;

/// The end of one recording of an event.
class Completion {
 public:
  explicit Completion(std::shared_ptr<Capture> capture = nullptr) : capture_(std::move(capture)) {}
  void complete(Nanos when);
  Nanos await();
  std::optional<Nanos> when();
  /// Set if the event was recorded into a graph, so that it never completes.
  const std::shared_ptr<Capture>& capture() const { return capture_; }

 private:
  const std::shared_ptr<Capture> capture_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Nanos> when_;
};

struct Op {
  Nanos duration = 0;
  Engine engine = Engine::kCompute;
  std::function<bool()> work;   // false: an address was bad
  std::function<bool()> ready;  // polled before the operation starts
  std::shared_ptr<Completion> awaits, completes;
  Nanos enqueued = 0;
  bool silent() const { return !work && !ready && !awaits && !completes; }  // a kernel: nobody sees it start or end
};

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(int device, int priority, bool blocking) : device(device), priority(priority), blocking(blocking) {}
  const int device;  // the board's number
  const int priority;
  const bool blocking;  // it keeps order with the default stream

  /// Blocks while the queue is full. Into a graph instead if the stream is being captured.
  void push(Op op);
  bool idle();
  void synchronize();
  /// The thread ends after what is queued.
  void close();

  std::shared_ptr<Capture> capture();
  /// False if another capture is under way.
  bool start_capture(std::shared_ptr<Capture> capture);
  void stop_capture();

 private:
  void run();
  void run_batch(std::unique_lock<std::mutex>& lock);
  void execute(Op& op);
  void wake();

  std::mutex mutex_;  // never held while another lock is taken, but for a capture's
  std::condition_variable arrived_, drained_;
  std::deque<Op> queue_;
  std::uint64_t pushed_ = 0, done_ = 0;
  int waiters_ = 0;
  bool started_ = false, asleep_ = false, closed_ = false;
  std::shared_ptr<Capture> capture_;
  Nanos clock_ = 0;  // the end of the last operation; the thread's own
};

/// The stream of a handle; 0, legacy and per-thread name the default stream of the current device.
std::shared_ptr<Stream> stream_of(cudaStream_t handle);
cudaStream_t create_stream(int device, int priority, bool blocking);
bool destroy_stream(cudaStream_t handle);
/// Waits for all streams of a device.
void synchronize_device(int device);

/// Enqueues in order with the default stream, if the stream is a blocking one.
cudaError_t enqueue(const std::shared_ptr<Stream>& stream, Op op);

}  // namespace hollow
