// libcudart: devices, versions, errors and the way to driver calls.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "board.h"
#include "calls.h"
#include "devices.h"
#include "entry_points.h"
#include "stream.h"

using namespace hollow;

namespace {
constexpr int kRuntimeVersion = 13000;
constexpr int kOldestDriver = 13000;  // that a CUDA 13 runtime takes

cudaError_t device_error() {
  if (config().driver_version < kOldestDriver) return fail(cudaErrorInsufficientDriver);
  return visible_devices() ? cudaSuccess : fail(cudaErrorNoDevice);
}
}  // namespace

EXPORT cudaError_t cudaGetDeviceCount(int* count) {
  RUNTIME_CALL;
  *count = 0;
  if (const cudaError_t error = device_error()) return error;
  *count = visible_devices();
  return cudaSuccess;
}
EXPORT cudaError_t cudaGetDevice(int* device) {
  RUNTIME_CALL;
  if (const cudaError_t error = device_error()) return error;
  *device = current();
  return cudaSuccess;
}
EXPORT cudaError_t cudaSetDevice(int device) {
  RUNTIME_CALL;
  if (const cudaError_t error = device_error()) return error;
  if (!is_visible(device)) return fail(cudaErrorInvalidDevice);
  set_current(device);
  return require_context(physical(device));
}
EXPORT cudaError_t cudaDriverGetVersion(int* version) {
  RUNTIME_CALL;
  *version = config().driver_version;
  return cudaSuccess;
}
EXPORT cudaError_t cudaRuntimeGetVersion(int* version) {
  RUNTIME_CALL;
  *version = kRuntimeVersion;
  return cudaSuccess;
}
EXPORT cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
  RUNTIME_CALL;
  if (!is_visible(device)) return fail(cudaErrorInvalidDevice);
  *value = attribute(which, physical(device));
  return cudaSuccess;
}
EXPORT cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
  RUNTIME_CALL;
  if (!is_visible(device)) return fail(cudaErrorInvalidDevice);
  describe(out, physical(device));
  return cudaSuccess;
}
EXPORT cudaError_t cudaDeviceGetPCIBusId(char* out, int length, int device) {
  RUNTIME_CALL;
  if (!is_visible(device)) return fail(cudaErrorInvalidDevice);
  std::snprintf(out, static_cast<std::size_t>(length), "%s", pci_text(physical(device)).c_str());
  return cudaSuccess;
}
EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  RUNTIME_CALL;
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return cudaSuccess;
}
EXPORT cudaError_t cudaDeviceCanAccessPeer(int* yes, int device, int peer) {
  RUNTIME_CALL;
  if (!is_visible(device) || !is_visible(peer)) return fail(cudaErrorInvalidDevice);
  *yes = device != peer;
  return cudaSuccess;
}
EXPORT cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  RUNTIME_CALL;
  return is_visible(peer) ? cudaSuccess : fail(cudaErrorInvalidDevice);
}
EXPORT cudaError_t cudaDeviceSynchronize() {
  RUNTIME_CALL;
  if (const cudaError_t error = require_context(current_physical())) return error;
  synchronize_device(current_physical());
  return context_is_broken() ? fail(cudaErrorIllegalAddress) : cudaSuccess;
}
EXPORT cudaError_t cudaProfilerStart() { return cudaSuccess; }
EXPORT cudaError_t cudaProfilerStop() { return cudaSuccess; }

EXPORT cudaError_t cudaGetLastError() { return last_error(true); }
EXPORT cudaError_t cudaPeekAtLastError() { return last_error(false); }

EXPORT cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** out, unsigned, unsigned long long,
                                                    cudaDriverEntryPointQueryResult* status) {
  *out = entry_point(symbol);
  if (status) *status = *out ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
