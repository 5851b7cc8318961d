// libcudart: streams, events, host functions and graphs.
#include "calls.h"
#include "devices.h"
#include "event.h"
#include "graph.h"
#include "registry.h"
#include "stream.h"
#include "transfer.h"

using namespace hollow;

EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t* out, unsigned flags, int priority) {
  RUNTIME_CALL;
  if (const cudaError_t error = require_context(current_physical())) return error;
  *out = create_stream(current_physical(), priority, !(flags & cudaStreamNonBlocking));
  return cudaSuccess;
}
EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned flags) {
  return cudaStreamCreateWithPriority(out, flags, 0);
}
EXPORT cudaError_t cudaStreamCreate(cudaStream_t* out) { return cudaStreamCreateWithPriority(out, 0, 0); }
EXPORT cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  RUNTIME_CALL;
  return destroy_stream(stream) ? cudaSuccess : fail(cudaErrorInvalidResourceHandle);
}
EXPORT cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  RUNTIME_CALL;
  const auto found = stream_of(stream);
  if (!found) return fail(cudaErrorInvalidResourceHandle);
  *priority = found->priority;
  return cudaSuccess;
}
EXPORT cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  RUNTIME_CALL;
  const auto found = stream_of(stream);
  if (!found) return fail(cudaErrorInvalidResourceHandle);
  *flags = found->blocking || stream <= cudaStreamPerThread ? cudaStreamDefault : cudaStreamNonBlocking;
  return cudaSuccess;
}
EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  RUNTIME_CALL;
  return finish(stream);
}
EXPORT cudaError_t cudaStreamQuery(cudaStream_t stream) {
  RUNTIME_CALL;
  const auto found = stream_of(stream);
  if (!found) return fail(cudaErrorInvalidResourceHandle);
  if (found->capture()) return fail(cudaErrorStreamCaptureUnsupported);
  return found->idle() ? cudaSuccess : cudaErrorNotReady;
}
EXPORT cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  RUNTIME_CALL;
  Op op;
  op.work = [=] {
    function(data);
    return true;
  };
  return enqueue(stream_of(stream), std::move(op));
}
EXPORT cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function, void* data, unsigned) {
  RUNTIME_CALL;
  Op op;
  op.work = [=] {
    function(stream, cudaSuccess, data);
    return true;
  };
  return enqueue(stream_of(stream), std::move(op));
}

EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned flags) {
  RUNTIME_CALL;
  auto event = std::make_shared<Event>(!(flags & cudaEventDisableTiming));
  *out = reinterpret_cast<cudaEvent_t>(registry<Event>().add(std::move(event)));
  return cudaSuccess;
}
EXPORT cudaError_t cudaEventCreate(cudaEvent_t* out) { return cudaEventCreateWithFlags(out, 0); }
EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event) {
  RUNTIME_CALL;
  return registry<Event>().remove(event) ? cudaSuccess : fail(cudaErrorInvalidResourceHandle);
}
EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  RUNTIME_CALL;
  const auto found = registry<Event>().find(event);
  const auto target = stream_of(stream);
  return found && target ? record(*found, target) : fail(cudaErrorInvalidResourceHandle);
}
EXPORT cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  return cudaEventRecord(event, stream);
}
EXPORT cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  RUNTIME_CALL;
  const auto found = registry<Event>().find(event);
  const auto target = stream_of(stream);
  return found && target ? wait(target, *found) : fail(cudaErrorInvalidResourceHandle);
}
EXPORT cudaError_t cudaEventQuery(cudaEvent_t event) {
  RUNTIME_CALL;
  const auto found = registry<Event>().find(event);
  return found ? query(*found) : fail(cudaErrorInvalidResourceHandle);
}
EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  RUNTIME_CALL;
  const auto found = registry<Event>().find(event);
  return found ? synchronize(*found) : fail(cudaErrorInvalidResourceHandle);
}
EXPORT cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  RUNTIME_CALL;
  const auto first = registry<Event>().find(from), second = registry<Event>().find(to);
  return first && second ? elapsed(milliseconds, *first, *second) : fail(cudaErrorInvalidResourceHandle);
}
