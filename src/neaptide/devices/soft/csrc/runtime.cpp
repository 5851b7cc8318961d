#include "runtime.h"

#include <c10/util/Exception.h>
#include <pthread.h>

#include <algorithm>
#include <stdexcept>

namespace neaptide::soft {

namespace {

std::atomic<Runtime*> instance{nullptr};
std::atomic<bool> in_forked_child{false};
std::atomic<bool> stopped{false};
std::atomic<void (*)()> on_first_use{nullptr};

std::shared_ptr<Board> open_board(const RuntimeOptions& options) {
  if (!options.makes_board) return Board::open(options.board_path);
  return Board::open_or_create(options.board_path, soft_board(options.capacity_bytes, options.sms));
}

}  // namespace

void Runtime::start_on_first_use(void (*first_use)()) { on_first_use.store(first_use); }

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
  if (forked()) {
    throw std::runtime_error(
        "Cannot re-initialize the device in a forked subprocess: the process that forked it uses the device already. "
        "To use it with multiprocessing, you must use the 'spawn' start method");
  }
  if (stopped.load()) throw std::runtime_error("soft: the device has been stopped");
  if (auto* const begin = on_first_use.load()) begin();
  if (auto* runtime = find()) return *runtime;
  throw std::runtime_error("soft: the device has not been started");
}

bool Runtime::forked() noexcept { return in_forked_child.load(); }

void Runtime::stop() {
  auto* runtime = find();
  if (runtime == nullptr) return;
  runtime->port_.stop();
  runtime->drain();
  stopped.store(true);
  instance.store(nullptr);  // the arena frees what is not freed by now
  delete runtime;
}

Runtime::Runtime(const RuntimeOptions& options, void (*prepare_worker)(), void (*set_width)(std::uint32_t))
    : member_(join([&] { return open_board(options); }, options.job)),
      sms_(sm_region(member_->board())),
      width_(options.width == 0 ? sms_of(sms_) : std::min(options.width, sms_of(sms_))),
      port_(driver_, *member_, launch_options(options)),
      context_{driver_, *member_, sms_, pace_, port_, errors_, options.link_bandwidth, prepare_worker, set_width} {
  if (options.held) port_.gates().close_launch();
  stream(0);
}

Runtime::~Runtime() {
  port_.gates().open_execution();
  for (auto& stream : streams_) stream.reset();
}

LaunchOptions Runtime::launch_options(const RuntimeOptions& options) {
  LaunchOptions result;
  result.memory_wait =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(options.wait_seconds));
  result.may_spin = [this] { return any_sm_free(sms_); };
  result.drain = [this] { drain(); };
  return result;
}

Launch Runtime::begin_launch() {
  try {
    return port_.prepare();
  } catch (const LaunchRefused& refusal) {
    TORCH_CHECK_WITH(OutOfMemoryError, false, refusal.what());
  }
}

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

void synchronize() {
  if (auto* runtime = Runtime::find()) {
    runtime->synchronize();
  } else if (Runtime::forked()) {
    Runtime::get();  // throws
  }
}

}  // namespace neaptide::soft
