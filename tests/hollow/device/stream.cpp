#include "stream.h"

#include <signal.h>
#include <sys/prctl.h>

#include <algorithm>
#include <thread>

#include "calls.h"
#include "graph.h"

namespace hollow {
namespace {

constexpr std::size_t kBatch = 16;      // kernels that one sleep may cover
constexpr std::size_t kLazy = 64;       // kernels without a duration that may wait for a sleeping thread
constexpr Nanos kPollInterval = 20000;  // of cuStreamWaitValue

// Signals are for the program's threads.
void start_thread(std::function<void()> body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread(std::move(body)).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

void Completion::complete(Nanos when) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    when_ = when;
  }
  changed_.notify_all();
}
Nanos Completion::await() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return when_.has_value(); });
  return *when_;
}
std::optional<Nanos> Completion::when() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return when_;
}

void Stream::push(Op op) {
  op.enqueued = now();
  std::unique_lock<std::mutex> lock(mutex_);
  if (capture_) return capture_->add(std::move(op));
  if (!started_) {
    started_ = true;
    start_thread([self = shared_from_this()] { self->run(); });
  }
  const auto has_room = [this] { return pushed_ - done_ < config().depth; };
  if (!has_room()) {
    wake();
    ++waiters_;
    drained_.wait(lock, has_room);
    --waiters_;
  }
  const bool can_wait = op.silent() && !op.duration;
  queue_.push_back(std::move(op));
  ++pushed_;
  if (!can_wait || queue_.size() > kLazy) wake();
}

bool Stream::idle() {
  const std::lock_guard<std::mutex> lock(mutex_);
  wake();
  return done_ == pushed_;
}

void Stream::synchronize() {
  std::unique_lock<std::mutex> lock(mutex_);
  wake();
  const std::uint64_t until = pushed_;
  ++waiters_;
  drained_.wait(lock, [&] { return done_ >= until; });
  --waiters_;
}

void Stream::close() {
  const std::lock_guard<std::mutex> lock(mutex_);
  closed_ = true;
  wake();
}

std::shared_ptr<Capture> Stream::capture() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return capture_;
}
bool Stream::start_capture(std::shared_ptr<Capture> capture) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (capture_ && capture_ != capture) return false;
  capture_ = std::move(capture);
  return true;
}
void Stream::stop_capture() {
  const std::lock_guard<std::mutex> lock(mutex_);
  capture_ = nullptr;
}

void Stream::wake() {
  if (!asleep_) return;
  asleep_ = false;
  arrived_.notify_one();
}

void Stream::run() {
  prctl(PR_SET_TIMERSLACK, 1);
  prctl(PR_SET_NAME, "hollow-stream");
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    while (queue_.empty()) {
      if (closed_) return;
      asleep_ = true;
      arrived_.wait(lock);
    }
    run_batch(lock);
  }
}

// Kernels that nobody watches are slept through together; the operation after them is done by itself.
void Stream::run_batch(std::unique_lock<std::mutex>& lock) {
  std::deque<Op> batch;
  while (!queue_.empty() && batch.size() < kBatch) {
    batch.push_back(std::move(queue_.front()));
    queue_.pop_front();
    if (!batch.back().silent()) break;
  }
  lock.unlock();
  for (Op& op : batch) execute(op);
  sleep_until(clock_);
  if (batch.back().completes) batch.back().completes->complete(clock_);
  const std::size_t finished = batch.size();
  batch.clear();  // what an operation holds is given up before anybody learns that it is done
  lock.lock();
  done_ += finished;
  if (waiters_) drained_.notify_all();
}

void Stream::execute(Op& op) {
  clock_ = std::max(clock_, op.enqueued);
  if (op.work || op.ready || op.awaits) sleep_until(clock_);
  if (op.awaits) clock_ = std::max(clock_, op.awaits->await());
  if (op.ready) {
    while (!context_is_broken() && !op.ready()) sleep_until(now() + kPollInterval);
    clock_ = std::max(clock_, now());
  }
  if (op.duration) clock_ = board().claim(device, op.engine, clock_, op.duration);
  if (!op.work) return;
  if (!context_is_broken() && !op.work()) break_context();
  clock_ = std::max(clock_, now());
}

}  // namespace hollow
