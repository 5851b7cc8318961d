#include "runtime.h"

#include <c10/cuda/CUDAStream.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "../../native/launch/blocking.h"
#include "gate.h"
#include "region/nvml.h"

namespace neaptide::cuda {
namespace {

std::atomic<Runtime*> instance{nullptr};
std::atomic<bool> in_forked_child{false};
std::atomic<bool> stopped{false};
std::atomic<void (*)()> on_first_use{nullptr};

constexpr auto kCountTime = std::chrono::milliseconds(100);  // between two counts of memory outside the arena

// Ops that one event marks: as many as of a part of an iteration, within these, and the most while no other job is
// there. Whatever they are, ops wait for an event no longer than kCountTime and the launch of another op.
constexpr std::uint64_t kPartsOfIteration = 32;
constexpr std::uint64_t kFewOps = 8, kMostOps = 64;

std::uint32_t multiprocessors(int ordinal) {
  int count = 0;
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, ordinal), "count the device's SMs");
  return static_cast<std::uint32_t>(count > 0 ? count : 1);
}

/// The board's device among those that this process sees. Makes no context.
int ordinal_of(std::uint64_t bus_id) {
  int count = 0;
  check(cudaGetDeviceCount(&count), "count the devices");
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    std::array<char, 32> text{};
    check(cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), ordinal), "tell a device's address");
    if (packed_bus_id(text.data()) == bus_id) return ordinal;
  }
  throw DriverError("this process does not see the GPU that is shared, at PCI address " + bus_id_of(bus_id) +
                    "; CUDA_VISIBLE_DEVICES must leave it");
}

}  // namespace

void Runtime::start_on_first_use(void (*begin)()) { on_first_use.store(begin); }

void Runtime::first_use() {
  if (find() != nullptr || forked() || stopped.load()) return;
  if (auto* const begin = on_first_use.load()) begin();
}

void Runtime::start(const RuntimeOptions& options) {
  if (instance.load() != nullptr) throw std::runtime_error("cuda: the device is already started");
  instance.store(new Runtime(options));
  pthread_atfork(nullptr, nullptr, [] { in_forked_child.store(true); });
}

Runtime* Runtime::find() noexcept {
  return in_forked_child.load(std::memory_order_relaxed) ? nullptr : instance.load(std::memory_order_acquire);
}

Runtime& Runtime::get() {
  if (auto* const runtime = find()) return *runtime;
  if (forked())
    throw std::runtime_error(
        "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' "
        "start method");
  throw std::runtime_error(stopped.load() ? "cuda: the device has been stopped" : "cuda: the device has not started");
}

bool Runtime::forked() noexcept { return in_forked_child.load(); }

void Runtime::stop() {
  Runtime* const runtime = find();
  if (runtime == nullptr) return;
  runtime->port_->stop();
  try {
    runtime->drain();
  } catch (const DriverError&) {  // the program has been told that its kernels failed
  }
  stopped.store(true);
  instance.store(nullptr);
  {
    const std::lock_guard lock(runtime->counting_mutex_);
    runtime->counting_ = false;
  }
  runtime->counting_changed_.notify_all();
  blocking([&] {
    runtime->counter_.join();
    runtime->port_.reset();
    runtime->driver_.reset();
    runtime->keeper_.reset();
  });
}

Runtime::Runtime(const RuntimeOptions& options)
    : member_(join([&] { return Board::open(options.board_path); }, options.job)),
      ordinal_(ordinal_of(member_->board().region_setting())),
      outside_(*member_, options.program) {
  blocking([&] {
    keeper_ = std::make_unique<KeeperLine>(board(), options.keeper_command);
    outside_.expect_context();
  });
  StreamOptions streams{ordinal_, [this](std::uint64_t ops) { port_->in_flight().publish(ops); },
                        [this](const PassedOps& ops) { passed(ops); }};
  driver_ = std::make_unique<CudaDriver>(*member_, *keeper_, std::move(streams));
  blocking([&] { outside_.expect_libraries([this] { return driver_->pages().charged_bytes(); }); });
  sms_ = multiprocessors(ordinal_);
  LaunchOptions launch;
  launch.memory_wait =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(options.wait_seconds));
  launch.drain = [this] { drain(); };
  launch.before_waiting_for_room = [this] { driver_->streams().flush(); };
  launch.look_closely = &look_at_arguments;
  launch.give_allowance = [this] { return outside_.give_allowance(); };
  port_ = std::make_unique<LaunchPort>(*driver_, *member_, launch);
  driver_->streams().set_batch(ops_for_an_event());
  if (options.held) port_->hold_launches();
  counter_ = std::thread([this] { count_again_and_again(); });
}

/// Also outside iterations, and while the program computes on the host for long.
void Runtime::count_again_and_again() {
  std::unique_lock lock(counting_mutex_);
  while (!counting_changed_.wait_for(lock, kCountTime, [this] { return !counting_; })) {
    lock.unlock();
    count_outside();
    driver_->streams().set_batch(ops_for_an_event());
    lock.lock();
  }
}

/// An event costs time, and whether the device has passed it is for other jobs to know.
std::uint32_t Runtime::ops_for_an_event() {
  if (member_->alone()) return kMostOps;
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(port_->kernels() / kPartsOfIteration, kFewOps, kMostOps));
}

Streams::Clock& Runtime::current_clock() {
  thread_local c10::StreamId last = 0;
  thread_local Streams::Clock* clock = nullptr;
  const auto current = c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(ordinal_));
  if (clock == nullptr || current.id() != last) {
    clock = &driver_->streams().at(reinterpret_cast<StreamId>(current.stream()));
    last = current.id();
  }
  return *clock;
}

void Runtime::passed(const PassedOps& ops) {
  if (ops.record) port_->log(*ops.record);
  port_->passed(ops.count);
}

void Runtime::drain() {
  blocking([this] {
    const OnDevice on_device(ordinal_);
    driver_->streams().flush();
    check(cudaDeviceSynchronize(), "wait for the device");
    driver_->streams().wait_for_all();
  });
}

}  // namespace neaptide::cuda
