#include "streams.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "driver_api.h"

namespace neaptide::cuda {
namespace {

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

}  // namespace

class Streams::Clock {
 public:
  Clock(Streams& streams, StreamId id) : streams_(streams), id_(id), watcher_([this] { watch(); }) {}
  ~Clock() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    watcher_.join();
    for (auto& kind : spare_)
      for (cudaEvent_t event : kind) cudaEventDestroy(event);
  }

  /// Marks what was counted, too, unless one op's own times are wanted.
  std::uint64_t record(PassedOps ops) {
    const OnDevice on_device(streams_.options_.ordinal);
    const std::lock_guard lock(mutex_);
    const bool timed = ops.record.has_value();
    if (!timed) {
      ops.count = counted_.exchange(0);
      overdue_.store(false, std::memory_order_relaxed);
    }
    cudaEvent_t event = nullptr;  // of a device that does nothing any more: it passes after those before it
    cudaError_t result = take_event(timed, event);
    if (result == cudaSuccess) result = cudaEventRecord(event, reinterpret_cast<cudaStream_t>(id_));
    if (result != cudaSuccess) {
      if (event != nullptr) spare_[timed].push_back(std::exchange(event, nullptr));
      if (!is_over(result)) {
        if (!timed) counted_.fetch_add(ops.count);
        check(result, "record an event");
      }
    }
    if (ops.count > 0) streams_.options_.on_marked(ops.count);
    pending_.push_back({++recorded_, event, std::move(ops)});
    if (pending_.size() == 1) changed_.notify_all();
    return recorded_;
  }

  void count_op(std::uint32_t batch) {
    if (counted_.fetch_add(1) + 1 >= batch || overdue_.load(std::memory_order_relaxed)) record({});
  }
  void flush() {
    if (counted_.load() > 0) record({});
  }
  void mark_soon() { overdue_.store(counted_.load() > 0, std::memory_order_relaxed); }

  bool passed(std::uint64_t value) const { return done_.load() >= value; }

  bool wait(std::uint64_t value, Deadline deadline) {
    std::unique_lock lock(mutex_);
    const auto there = [&] { return done_.load() >= value; };
    if (deadline == Deadline::max()) {
      changed_.wait(lock, there);
      return true;
    }
    return changed_.wait_until(lock, deadline, there);
  }

  bool arm(std::uint64_t value) {
    std::uint64_t armed = armed_.load();
    while (value < armed && !armed_.compare_exchange_weak(armed, value)) {
    }
    if (!passed(value)) return false;
    std::uint64_t mine = value;
    return armed_.compare_exchange_strong(mine, kNever);
  }

  void call_after(std::function<void()> function) {
    const std::lock_guard lock(calls_mutex_);  // first, so that calls are in the order of their events
    calls_.push_back({record({}), std::move(function)});
    run_calls_locked(done_.load());
  }

 private:
  struct Pending {
    std::uint64_t value;
    cudaEvent_t event;
    PassedOps ops;
  };
  struct Call {
    std::uint64_t at;
    std::function<void()> function;
  };

  cudaError_t take_event(bool timed, cudaEvent_t& event) {
    auto& spare = spare_[timed];
    if (!spare.empty()) {
      event = spare.back();
      spare.pop_back();
      return cudaSuccess;
    }
    const unsigned flags = cudaEventBlockingSync | (timed ? 0U : unsigned{cudaEventDisableTiming});
    return cudaEventCreateWithFlags(&event, flags);
  }

  void watch() {
    static_cast<void>(cudaSetDevice(streams_.options_.ordinal));
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stopping_ || !pending_.empty(); });
      if (pending_.empty()) return;
      const cudaEvent_t event = pending_.front().event;
      lock.unlock();
      if (event != nullptr) static_cast<void>(cudaEventSynchronize(event));  // a fault is torch's to report
      lock.lock();
      const Pending passed = std::move(pending_.front());
      pending_.pop_front();
      lock.unlock();
      finish(passed);
      run_calls(passed.value);  // before the work counts as done: a thread that waits for it finds them called
      lock.lock();
      if (event != nullptr) spare_[passed.ops.record.has_value()].push_back(event);
      done_.store(passed.value);
      changed_.notify_all();
      lock.unlock();
      react(passed.value);
      lock.lock();
    }
  }

  void finish(const Pending& passed) {
    PassedOps ops = passed.ops;
    if (ops.record) {
      float milliseconds = 0;
      const std::uint64_t base_ns = streams_.timing_base_ns_.load();
      if (passed.event != nullptr &&
          cudaEventElapsedTime(&milliseconds, streams_.timing_base_, passed.event) == cudaSuccess)
        ops.record->end_ns = base_ns + static_cast<std::uint64_t>(static_cast<double>(milliseconds) * 1e6);
      else
        ops.record->end_ns = now_ns();
      // An op's kernels follow one another, and the stream's ops too: it began when the one before it ended, or when it
      // was launched.
      ops.record->start_ns = std::min(std::max(last_end_ns_, ops.record->launch_ns), ops.record->end_ns);
      last_end_ns_ = ops.record->end_ns;
    }
    if (ops.count > 0) streams_.options_.on_passed(ops);
  }

  void react(std::uint64_t done) {
    run_calls(done);  // asked for meanwhile
    std::uint64_t armed = armed_.load();
    if (armed <= done && armed_.compare_exchange_strong(armed, kNever)) streams_.notify();
  }

  void run_calls(std::uint64_t done) {
    const std::lock_guard lock(calls_mutex_);
    run_calls_locked(done);
  }
  void run_calls_locked(std::uint64_t done) {
    while (!calls_.empty() && calls_.front().at <= done) {
      const auto function = std::move(calls_.front().function);
      calls_.pop_front();
      function();
    }
  }

  Streams& streams_;
  const StreamId id_;
  std::atomic<std::uint64_t> counted_{0};  // not marked yet
  std::atomic<bool> overdue_{false};       // the next op marks them
  std::atomic<std::uint64_t> done_{0};
  std::atomic<std::uint64_t> armed_{kNever};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t recorded_ = 0;
  std::deque<Pending> pending_;
  std::vector<cudaEvent_t> spare_[2];  // without and with timing
  bool stopping_ = false;
  std::mutex calls_mutex_;
  std::deque<Call> calls_;
  std::uint64_t last_end_ns_ = 0;  // only the watcher uses it
  std::thread watcher_;            // last: it uses everything above
};

Streams::Streams(StreamOptions options) : options_(std::move(options)) {
  check(cudaEventCreateWithFlags(&timing_base_, cudaEventDefault), "make an event");
}

Streams::~Streams() {
  clocks_.clear();
  cudaEventDestroy(timing_base_);
}

Streams::Clock& Streams::at(StreamId stream) {
  {
    const std::shared_lock lock(clocks_mutex_);
    if (const auto found = clocks_.find(stream); found != clocks_.end()) return *found->second;
  }
  const std::unique_lock lock(clocks_mutex_);
  auto& clock = clocks_[stream];
  if (!clock) clock = std::make_unique<Clock>(*this, stream);
  return *clock;
}

std::vector<Streams::Clock*> Streams::all() {
  const std::shared_lock lock(clocks_mutex_);
  std::vector<Clock*> found;
  for (const auto& [id, clock] : clocks_) found.push_back(clock.get());
  return found;
}

Event Streams::record(StreamId stream) { return {stream, at(stream).record({})}; }
bool Streams::passed(const Event& event) { return at(event.stream).passed(event.value); }
bool Streams::wait(const Event& event, Deadline deadline) { return at(event.stream).wait(event.value, deadline); }
bool Streams::arm(const Event& event) { return at(event.stream).arm(event.value); }
void Streams::call_after(StreamId stream, std::function<void()> function) {
  at(stream).call_after(std::move(function));
}

void Streams::set_listener(std::function<void()> listener) {
  const std::unique_lock lock(listener_mutex_);
  listener_ = std::move(listener);
}

void Streams::notify() {
  const std::shared_lock lock(listener_mutex_);
  if (listener_) listener_();
}

void Streams::count_op(Clock& clock, std::uint32_t cap) {
  clock.count_op(std::min(std::max(cap / 4, 1U), batch_.load(std::memory_order_relaxed)));
}
void Streams::log_op(Clock& clock, const KernelRecord& record) {
  clock.flush();
  clock.record({1, record});
}

void Streams::set_batch(std::uint32_t ops) {
  batch_.store(ops, std::memory_order_relaxed);
  for (Clock* const clock : all()) clock->mark_soon();
}

void Streams::flush() {
  for (Clock* const clock : all()) clock->flush();
}

void Streams::wait_for_all() {
  for (Clock* const clock : all()) clock->wait(clock->record({}), Deadline::max());
}

void Streams::start_timing() {
  check(cudaEventRecord(timing_base_, nullptr), "record an event");
  check(cudaEventSynchronize(timing_base_), "wait for an event");
  timing_base_ns_.store(now_ns());
}

}  // namespace neaptide::cuda
