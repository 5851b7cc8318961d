#include "runtime.h"

#include <pthread.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace neaptide::soft {

namespace {

std::atomic<Runtime*> instance{nullptr};
std::atomic<bool> in_forked_child{false};
thread_local StreamId current_stream = 0;

Deadline after(double seconds) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
}

constexpr double kServeSeconds = 60;
constexpr double kLookSeconds = 1;  // between looks whether the process is about to end

}  // namespace

void Runtime::start(const RuntimeOptions& options, void (*prepare_worker)(), void (*set_width)(std::uint32_t)) {
  if (instance.load() != nullptr) throw std::runtime_error("soft: the device is already started");
  instance.store(new Runtime(options, prepare_worker, set_width));
  pthread_atfork(nullptr, nullptr, [] { in_forked_child.store(true); });
}

Runtime* Runtime::find() noexcept {
  return in_forked_child.load(std::memory_order_relaxed) ? nullptr : instance.load(std::memory_order_acquire);
}

Runtime& Runtime::get() {
  if (auto* runtime = find()) return *runtime;
  throw std::runtime_error(forked() ? "soft: the device cannot be used in a forked process; start it with 'spawn'"
                                    : "soft: the device has been stopped");
}

bool Runtime::forked() noexcept { return in_forked_child.load(); }

void Runtime::stop() {
  auto* runtime = find();
  if (runtime == nullptr) return;
  runtime->stopping_.store(true);
  runtime->attendant_.reset();
  runtime->drain();
  instance.store(nullptr);  // blocks that are freed from now on are the arena's to forget
  delete runtime;
}

Runtime::Runtime(const RuntimeOptions& options, void (*prepare_worker)(), void (*set_width)(std::uint32_t))
    : board_(Board::open_or_create(options.board_path, {options.capacity_bytes, options.sms})),
      member_(board_, options.job),
      gates_(
          member_, [this](Request request) { serve(request); }, [this] { in_flight_.begin_iteration(); }),
      in_flight_(member_),
      width_(options.width == 0 ? board_->sms() : std::min(options.width, board_->sms())),
      arena_(std::make_unique<Arena>(driver_, member_, arena_options(options))),
      context_{driver_, member_, gates_, in_flight_, errors_, prepare_worker, set_width} {
  stream(0);
  attendant_ = std::make_unique<Attendant>(member_, [this](Request request) { serve(request); });
}

Runtime::~Runtime() {
  gates_.open_execution();
  for (auto& stream : streams_) stream.reset();
}

StreamId Runtime::current_id() { return current_stream; }

StreamId Runtime::exchange_current(StreamId id) { return std::exchange(current_stream, id); }

Stream& Runtime::stream(StreamId id) {
  if (auto* found = by_id_.at(id).load(std::memory_order_acquire)) return *found;
  std::lock_guard lock(streams_mutex_);
  if (!streams_[id]) {
    streams_[id] = std::make_unique<Stream>(context_, id);
    by_id_[id].store(streams_[id].get(), std::memory_order_release);
  }
  return *streams_[id];
}

StreamId Runtime::new_stream() {
  // As torch.cuda does: a pool that is handed out in turn, so that a loop that makes streams does not run out.
  constexpr std::size_t kPool = 32;
  StreamId id;
  {
    std::lock_guard lock(streams_mutex_);
    id = next_stream_;
    next_stream_ = next_stream_ % kPool + 1;
  }
  stream(id);
  return id;
}

void Runtime::drain() {
  for (auto& slot : by_id_) {
    if (auto* stream = slot.load(std::memory_order_acquire)) stream->drain();
  }
}

void Runtime::synchronize() {
  drain();
  errors_.rethrow();
}

ArenaOptions Runtime::arena_options(const RuntimeOptions& options) {
  ArenaOptions result;
  result.wait =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(options.wait_seconds));
  result.blocking = [this](const std::function<void()>& wait) {
    OutsideLaunch outside(gates_);
    blocking(wait);
  };
  result.on_request = [this](Request request) {
    OutsideLaunch outside(gates_);
    serve(request);
  };
  return result;
}

void Runtime::serve(Request request) {
  std::unique_lock lock(request_mutex_, std::defer_lock);
  blocking([&] { lock.lock(); });
  if (member_.request() != request) return;  // another thread has done it
  switch (request) {
    case Request::none:
      return;
    case Request::evict:
    case Request::suspend:
      return make_room(request);
    case Request::restore:
    case Request::resume:
      come_back();
      member_.finish_request(request);
  }
}

void Runtime::make_room(Request request) {
  try {
    evict(kServeSeconds);
  } catch (...) {  // the process goes on as it was; a controller sees that it still holds its memory
    member_.finish_request(request);
    throw;
  }
  in_flight_.tide().leave();
  member_.demote_claim();  // a thread that waits for memory may be at the gate with its claim
  member_.set_state(request == Request::evict ? JobState::evicted : JobState::suspended);
  member_.finish_request(request);
  auto answer = Request::none;
  const auto may_return = [&] {
    answer = member_.request();
    return answer == Request::restore || answer == Request::resume || stopping_.load();
  };
  blocking([&] { member_.wait_control(may_return, Deadline::max()); });
  come_back();
  member_.set_state(JobState::running);
  member_.finish_request(answer);
}

void Runtime::come_back() {
  // Those that went on meanwhile counted on nothing that is held here: they come first, whoever began earlier.
  member_.renew_age();
  in_flight_.tide().come_back();
  while (!stopping_.load() && !restore(kLookSeconds)) {
  }
}

std::size_t Runtime::evict(double seconds) {
  const auto deadline = after(seconds);
  gates_.close_launch();
  try {
    bool quiet = false;
    blocking([&] { quiet = gates_.quiesce(deadline); });
    if (!quiet) throw std::runtime_error("soft: a launch did not end in time, nothing was evicted");
    drain();
    std::size_t bytes = 0;
    blocking([&] { bytes = arena_->evict(deadline); });
    return bytes;
  } catch (...) {
    gates_.open_launch();
    throw;
  }
}

bool Runtime::restore(double seconds) {
  bool back = false;
  blocking([&] { back = arena_->restore(after(seconds)); });
  if (back) gates_.open_launch();
  return back;
}

}  // namespace neaptide::soft
