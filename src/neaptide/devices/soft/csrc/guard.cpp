// Devices, streams and events as torch sees them.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "allocator.h"
#include "runtime.h"

namespace neaptide::soft {

namespace {

/// One recording of an event. The worker writes the time before the stream passes the point.
struct Recording {
  Event point;
  std::atomic<std::uint64_t> time_ns{0};
};

/// What torch holds for an event: its latest recording.
using Handle = std::shared_ptr<Recording>;

class Stamp final : public Task {
 public:
  explicit Stamp(Handle recording) : Task(0), recording_(std::move(recording)) {}
  void run() override { recording_->time_ns.store(now_ns()); }

 private:
  Handle recording_;
};

const Recording& recording_of(void* event) { return **static_cast<Handle*>(event); }

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  static constexpr c10::DeviceType static_type = kSoft;
  Guard() = default;
  explicit Guard(c10::DeviceType /*type*/) {}

  c10::DeviceType type() const override { return kSoft; }
  c10::Device exchangeDevice(c10::Device device) const override {
    setDevice(device);
    return soft_device();
  }
  c10::Device getDevice() const override { return soft_device(); }
  void setDevice(c10::Device device) const override { check_ordinal(device); }
  void uncheckedSetDevice(c10::Device /*device*/) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }

  c10::Stream getStream(c10::Device /*device*/) const override { return stream(HostDriver::current()); }
  c10::Stream getDefaultStream(c10::Device /*device*/) const override { return stream(0); }
  c10::Stream getNewStream(c10::Device device, int /*priority*/) const override {
    check_ordinal(device);
    return stream(Runtime::get().new_stream());
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool /*high*/) const override {
    return getNewStream(device, 0);
  }
  c10::Stream exchangeStream(c10::Stream to) const override {
    return stream(HostDriver::exchange_current(static_cast<StreamId>(to.id())));
  }
  bool queryStream(const c10::Stream& which) const override { return at(which).idle(); }
  void synchronizeStream(const c10::Stream& which) const override {
    at(which).drain();
    Runtime::get().errors().rethrow();
  }
  void synchronizeDevice(const c10::DeviceIndex /*device*/) const override { synchronize(); }

  void destroyEvent(void* event, const c10::DeviceIndex /*device*/) const noexcept override {
    delete static_cast<Handle*>(event);  // NOLINT: torch owns it as a raw pointer
  }
  void record(void** event, const c10::Stream& which, const c10::DeviceIndex /*device*/,
              const c10::EventFlag /*flag*/) const override {
    auto recording = std::make_shared<Recording>();
    auto& queue = at(which);
    queue.push(std::make_unique<Stamp>(recording));
    recording->point = queue.record();
    if (*event == nullptr) *event = new Handle;  // NOLINT: torch owns it as a raw pointer
    *static_cast<Handle*>(*event) = std::move(recording);
  }
  void block(void* event, const c10::Stream& which) const override {
    if (event != nullptr) at(which).wait_for(recording_of(event).point);
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || Runtime::get().driver().passed(recording_of(event).point);
  }
  void synchronizeEvent(void* event) const override {
    if (event == nullptr) return;
    auto& runtime = Runtime::get();
    await(runtime.sms(), runtime.driver(), recording_of(event).point);
    runtime.errors().rethrow();
  }
  double elapsedTime(void* from, void* to, const c10::DeviceIndex /*device*/) const override {
    TORCH_CHECK(from != nullptr && to != nullptr, "Both events must be recorded before calculating elapsed time.");
    TORCH_CHECK(queryEvent(from) && queryEvent(to), "Both events must be completed before calculating elapsed time.");
    const auto begin = recording_of(from).time_ns.load();
    const auto end = recording_of(to).time_ns.load();
    return (static_cast<double>(end) - static_cast<double>(begin)) / 1e6;
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& which) const override {
    soft_allocator()->recordStream(data, which);
  }

 private:
  static c10::Stream stream(StreamId id) {
    return c10::Stream(c10::Stream::UNSAFE, soft_device(), static_cast<c10::StreamId>(id));
  }
  static Stream& at(const c10::Stream& which) { return Runtime::get().stream(static_cast<StreamId>(which.id())); }
};

}  // namespace

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

}  // namespace neaptide::soft
