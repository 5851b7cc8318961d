// libcuda: streams, events, and values that streams write and wait for.
#include "access.h"
#include "calls.h"
#include "stream.h"

using namespace hollow;

namespace {

template <class Value>
CUresult write_value(CUstream stream, CUdeviceptr address, Value value) {
  Op op;
  op.work = [=] { return copy_bytes(reinterpret_cast<void*>(address), &value, sizeof value); };
  return as_driver(enqueue(stream_of(stream), std::move(op)));
}

template <class Value>
bool holds(Value seen, Value wanted, unsigned flags) {
  using Signed = std::make_signed_t<Value>;
  switch (flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ:
      return static_cast<Signed>(seen - wanted) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
      return seen == wanted;
    case CU_STREAM_WAIT_VALUE_AND:
      return (seen & wanted) != 0;
    default:  // CU_STREAM_WAIT_VALUE_NOR
      return ~(seen | wanted) != 0;
  }
}

template <class Value>
CUresult wait_value(CUstream stream, CUdeviceptr address, Value wanted, unsigned flags) {
  Op op;
  op.ready = [=] {
    Value seen = 0;
    if (!copy_bytes(&seen, reinterpret_cast<void*>(address), sizeof seen)) {
      break_context();
      return true;
    }
    return holds(seen, wanted, flags);
  };
  return as_driver(enqueue(stream_of(stream), std::move(op)));
}

}  // namespace

EXPORT CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned) {
  DRIVER_CALL;
  return write_value(stream, address, value);
}
EXPORT CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned) {
  DRIVER_CALL;
  return write_value(stream, address, value);
}
EXPORT CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  DRIVER_CALL;
  return wait_value(stream, address, value, flags);
}
EXPORT CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
  DRIVER_CALL;
  return wait_value(stream, address, value, flags);
}

EXPORT CUresult cuStreamCreate(CUstream* out, unsigned flags) {
  return as_driver(cudaStreamCreateWithFlags(out, flags));
}
EXPORT CUresult cuStreamCreateWithPriority(CUstream* out, unsigned flags, int priority) {
  return as_driver(cudaStreamCreateWithPriority(out, flags, priority));
}
EXPORT CUresult cuStreamDestroy(CUstream stream) { return as_driver(cudaStreamDestroy(stream)); }
EXPORT CUresult cuStreamSynchronize(CUstream stream) { return as_driver(cudaStreamSynchronize(stream)); }
EXPORT CUresult cuStreamQuery(CUstream stream) { return as_driver(cudaStreamQuery(stream)); }
EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  return as_driver(cudaStreamWaitEvent(stream, event, flags));
}
EXPORT CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  return as_driver(cudaLaunchHostFunc(stream, function, data));
}
EXPORT CUresult cuEventCreate(CUevent* out, unsigned flags) { return as_driver(cudaEventCreateWithFlags(out, flags)); }
EXPORT CUresult cuEventDestroy(CUevent event) { return as_driver(cudaEventDestroy(event)); }
EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) { return as_driver(cudaEventRecord(event, stream)); }
EXPORT CUresult cuEventQuery(CUevent event) { return as_driver(cudaEventQuery(event)); }
EXPORT CUresult cuEventSynchronize(CUevent event) { return as_driver(cudaEventSynchronize(event)); }
EXPORT CUresult cuEventElapsedTime(float* milliseconds, CUevent from, CUevent to) {
  return as_driver(cudaEventElapsedTime(milliseconds, from, to));
}
