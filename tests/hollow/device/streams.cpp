// The streams of this process: handles, default streams, and order between them.
#include <array>
#include <atomic>
#include <vector>

#include "calls.h"
#include "devices.h"
#include "registry.h"
#include "stream.h"

namespace hollow {
namespace {

std::atomic<int> blocking_streams[kDevices];

const std::shared_ptr<Stream>& default_stream(int device) {
  static const auto* instances = [] {
    auto* made = new std::array<std::shared_ptr<Stream>, kDevices>;
    for (int i = 0; i < kDevices; ++i) (*made)[static_cast<std::size_t>(i)] = std::make_shared<Stream>(i, 0, false);
    return made;
  }();
  return (*instances)[static_cast<std::size_t>(device)];
}

void wait_for(const std::shared_ptr<Stream>& stream, const std::shared_ptr<Stream>& other) {
  if (other->idle()) return;
  auto completion = std::make_shared<Completion>();
  Op mark, wait;
  mark.completes = completion;
  wait.awaits = completion;
  other->push(std::move(mark));
  stream->push(std::move(wait));
}

}  // namespace

std::shared_ptr<Stream> stream_of(cudaStream_t handle) {
  if (handle <= cudaStreamPerThread) return current_physical() < 0 ? nullptr : default_stream(current_physical());
  return registry<Stream>().find(handle);
}

cudaStream_t create_stream(int device, int priority, bool blocking) {
  if (blocking) ++blocking_streams[device];
  return reinterpret_cast<cudaStream_t>(registry<Stream>().add(std::make_shared<Stream>(device, priority, blocking)));
}

bool destroy_stream(cudaStream_t handle) {
  const std::shared_ptr<Stream> stream = registry<Stream>().remove(handle);
  if (!stream) return false;
  if (stream->blocking) --blocking_streams[stream->device];
  stream->close();
  return true;
}

void synchronize_device(int device) {
  default_stream(device)->synchronize();
  for (const auto& stream : registry<Stream>().all())
    if (stream->device == device) stream->synchronize();
}

cudaError_t enqueue(const std::shared_ptr<Stream>& stream, Op op) {
  if (!stream) return fail(cudaErrorInvalidResourceHandle);
  if (blocking_streams[stream->device] && !stream->capture()) {
    const auto& standard = default_stream(stream->device);
    if (stream->blocking) wait_for(stream, standard);
    if (stream == standard)
      for (const auto& other : registry<Stream>().all())
        if (other->device == stream->device && other->blocking) wait_for(stream, other);
  }
  stream->push(std::move(op));
  return cudaSuccess;
}

}  // namespace hollow
