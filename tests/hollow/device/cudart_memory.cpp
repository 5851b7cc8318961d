// libcudart: memory and copies.
#include "board.h"
#include "calls.h"
#include "devices.h"
#include "memory.h"
#include "stream.h"
#include "transfer.h"

using namespace hollow;

EXPORT cudaError_t cudaMalloc(void** out, size_t bytes) {
  RUNTIME_CALL;
  *out = nullptr;
  if (const cudaError_t error = require_context(current_physical())) return error;
  if (!bytes) return cudaSuccess;
  *out = memory().allocate(current_physical(), bytes);
  return *out ? cudaSuccess : fail(cudaErrorMemoryAllocation);
}
EXPORT cudaError_t cudaFree(void* address) {
  RUNTIME_CALL;
  if (const cudaError_t error = require_context(current_physical())) return error;  // cudaFree(0) makes the context
  if (!address) return cudaSuccess;
  const std::optional<Range> range = memory().find(address);
  if (range) synchronize_device(range->device);  // as CUDA does
  return memory().release(address) ? cudaSuccess : fail(cudaErrorInvalidValue);
}
EXPORT cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  RUNTIME_CALL;
  const int device = current_physical();
  if (const cudaError_t error = require_context(device)) return error;
  *total = board().layout().device[device].capacity;
  const std::size_t used = board().used(device);
  *free = used < *total ? *total - used : 0;
  return cudaSuccess;
}

EXPORT cudaError_t cudaHostAlloc(void** out, size_t bytes, unsigned) {
  RUNTIME_CALL;
  *out = memory().allocate_pinned(bytes);
  return *out ? cudaSuccess : fail(cudaErrorMemoryAllocation);
}
EXPORT cudaError_t cudaMallocHost(void** out, size_t bytes) { return cudaHostAlloc(out, bytes, 0); }
EXPORT cudaError_t cudaFreeHost(void* address) {
  RUNTIME_CALL;
  return !address || memory().release_pinned(address) ? cudaSuccess : fail(cudaErrorInvalidValue);
}
EXPORT cudaError_t cudaHostRegister(void* address, size_t bytes, unsigned) {
  RUNTIME_CALL;
  return memory().register_pinned(address, bytes) ? cudaSuccess : fail(cudaErrorHostMemoryAlreadyRegistered);
}
EXPORT cudaError_t cudaHostUnregister(void* address) {
  RUNTIME_CALL;
  return memory().unregister_pinned(address) ? cudaSuccess : fail(cudaErrorHostMemoryNotRegistered);
}
EXPORT cudaError_t cudaHostGetDevicePointer(void** out, void* address, unsigned) {
  RUNTIME_CALL;
  *out = address;
  return cudaSuccess;
}
EXPORT cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, const void* address) {
  RUNTIME_CALL;
  *out = {};
  const std::optional<Range> range = memory().find(address);
  if (!range) {
    out->type = cudaMemoryTypeUnregistered;
    out->device = -1;
    return cudaSuccess;
  }
  const bool on_device = range->kind == Kind::kDevice;
  out->type = on_device ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
  for (int i = 0; i < visible_devices(); ++i)
    if (on_device && physical(i) == range->device) out->device = i;
  out->devicePointer = const_cast<void*>(address);
  out->hostPointer = on_device ? nullptr : const_cast<void*>(address);
  return cudaSuccess;
}

EXPORT cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  RUNTIME_CALL;
  return transfer(to, from, bytes, nullptr, true);
}
EXPORT cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  RUNTIME_CALL;
  return transfer(to, from, bytes, stream, false);
}
EXPORT cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, cudaStream_t stream) {
  RUNTIME_CALL;
  return transfer(to, from, bytes, stream, false);
}
EXPORT cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                                     size_t height, cudaMemcpyKind, cudaStream_t stream) {
  RUNTIME_CALL;
  return transfer_rows(to, to_pitch, from, from_pitch, width, height, stream);
}
EXPORT cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  RUNTIME_CALL;
  return set(to, static_cast<unsigned char>(value), 1, bytes, stream, false);
}
EXPORT cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  RUNTIME_CALL;
  return set(to, static_cast<unsigned char>(value), 1, bytes, nullptr, true);
}
