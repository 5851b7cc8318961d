#include "transfer.h"

#include <algorithm>

#include "access.h"
#include "calls.h"
#include "devices.h"
#include "memory.h"
#include "stream.h"

namespace hollow {
namespace {

struct Route {
  Engine engine = Engine::kCompute;
  bool pageable = false;
  Nanos duration = 0;
};

Route route(const void* to, const void* from, std::size_t bytes) {
  const std::optional<Range> target = memory().find(to), source = memory().find(from);
  Route result;
  result.pageable = !target || !source;
  if (!target || target->kind == Kind::kPinned) result.engine = Engine::kToHost;
  if (!source || source->kind == Kind::kPinned) result.engine = Engine::kToDevice;
  if (result.engine != Engine::kCompute && config().bytes_per_nano > 0)
    result.duration = static_cast<Nanos>(static_cast<double>(bytes) / config().bytes_per_nano);
  return result;
}

cudaError_t send(const Route& route, std::function<bool()> work, cudaStream_t stream, bool wait) {
  const std::shared_ptr<Stream> target = stream_of(stream);
  if (!target) return fail(cudaErrorInvalidResourceHandle);
  const bool captured = target->capture() != nullptr;
  if (wait && captured) return fail(cudaErrorStreamCaptureUnsupported);
  if (const cudaError_t error = require_context(target->device)) return error;
  Op op;
  op.engine = route.engine;
  op.duration = route.duration;
  op.work = std::move(work);
  if (const cudaError_t error = enqueue(target, std::move(op))) return error;
  return wait || (route.pageable && !captured) ? finish(stream) : cudaSuccess;
}

}  // namespace

cudaError_t finish(cudaStream_t stream) {
  const std::shared_ptr<Stream> target = stream_of(stream);
  if (!target) return fail(cudaErrorInvalidResourceHandle);
  if (target->capture()) return fail(cudaErrorStreamCaptureUnsupported);
  target->synchronize();
  return context_is_broken() ? fail(cudaErrorIllegalAddress) : cudaSuccess;
}

cudaError_t transfer(void* to, const void* from, std::size_t bytes, cudaStream_t stream, bool wait) {
  if (!bytes) return cudaSuccess;
  return send(route(to, from, bytes), [=] { return copy_bytes(to, from, bytes); }, stream, wait);
}

cudaError_t transfer_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
                          std::size_t height, cudaStream_t stream) {
  auto work = [=] { return copy_rows(to, to_pitch, from, from_pitch, width, height); };
  return send(route(to, from, width * height), std::move(work), stream, false);
}

cudaError_t set(void* to, std::uint64_t value, std::size_t width, std::size_t count, cudaStream_t stream, bool wait) {
  if (!count) return cudaSuccess;
  return send({}, [=] { return fill(to, value, width, count); }, stream, wait);
}

}  // namespace hollow
