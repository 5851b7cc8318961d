// libcuda: devices, contexts, modules and pointers.
#include <cstring>
#include <memory>
#include <string>

#include "board.h"
#include "calls.h"
#include "devices.h"
#include "entry_points.h"
#include "kernels.h"
#include "memory.h"
#include "registry.h"
#include "stream.h"

using namespace hollow;

EXPORT CUresult cuInit(unsigned) {
  DRIVER_CALL;
  return visible_devices() ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}
EXPORT CUresult cuDriverGetVersion(int* version) {
  *version = config().driver_version;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetCount(int* count) {
  DRIVER_CALL;
  *count = visible_devices();
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGet(CUdevice* out, int ordinal) {
  DRIVER_CALL;
  *out = ordinal;
  return is_visible(ordinal) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
EXPORT CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice device) {
  DRIVER_CALL;
  if (!is_visible(device)) return CUDA_ERROR_INVALID_DEVICE;
  *value = attribute(which, physical(device));
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetName(char* out, int length, CUdevice device) {
  DRIVER_CALL;
  if (!is_visible(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::strncpy(out, "Hollow GPU", static_cast<std::size_t>(length));
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceTotalMem(size_t* bytes, CUdevice device) {
  DRIVER_CALL;
  if (!is_visible(device)) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = board().layout().device[physical(device)].capacity;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetUuid(CUuuid* out, CUdevice device) {
  DRIVER_CALL;
  if (!is_visible(device)) return CUDA_ERROR_INVALID_DEVICE;
  *out = uuid_of(physical(device));
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetPCIBusId(char* out, int length, CUdevice device) {
  return as_driver(cudaDeviceGetPCIBusId(out, length, device));
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
  DRIVER_CALL;
  if (!is_visible(device)) return CUDA_ERROR_INVALID_DEVICE;
  *out = context_of(device);
  return as_driver(require_context(physical(device)));
}
EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  DRIVER_CALL;
  return is_visible(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  DRIVER_CALL;
  if (!is_visible(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (flags) *flags = 0;
  if (active) *active = has_context(physical(device));
  return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxGetCurrent(CUcontext* out) {
  DRIVER_CALL;
  *out = current_physical() >= 0 && has_context(current_physical()) ? context_of(current()) : nullptr;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
  DRIVER_CALL;
  if (context && device_of(context) < 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (context) set_current(device_of(context));
  return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxPushCurrent(CUcontext context) { return cuCtxSetCurrent(context); }
EXPORT CUresult cuCtxPopCurrent(CUcontext* out) { return out ? cuCtxGetCurrent(out) : CUDA_SUCCESS; }
EXPORT CUresult cuCtxGetDevice(CUdevice* out) {
  DRIVER_CALL;
  if (current_physical() < 0 || !has_context(current_physical())) return CUDA_ERROR_INVALID_CONTEXT;
  *out = current();
  return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxSynchronize() { return as_driver(cudaDeviceSynchronize()); }

EXPORT CUresult cuModuleLoadData(CUmodule* out, const void*) {
  DRIVER_CALL;
  static char module;
  *out = reinterpret_cast<CUmodule>(&module);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned, CUjit_option*, void**) {
  return cuModuleLoadData(out, image);
}
EXPORT CUresult cuModuleUnload(CUmodule) {
  DRIVER_CALL;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuModuleGetFunction(CUfunction* out, CUmodule, const char* name) {
  DRIVER_CALL;
  auto kernel = std::make_shared<Kernel>(describe_kernel(name));
  *out = reinterpret_cast<CUfunction>(registry<Kernel>().add(std::move(kernel)));
  return CUDA_SUCCESS;
}
EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                               unsigned, CUstream stream, void** arguments, void**) {
  DRIVER_CALL;
  const auto kernel = registry<Kernel>().find(function);
  if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
  return as_driver(enqueue(stream_of(stream), launch_of(*kernel, arguments)));
}

EXPORT CUresult cuPointerGetAttribute(void* out, CUpointer_attribute which, CUdeviceptr address) {
  DRIVER_CALL;
  const std::optional<Range> range = memory().find(reinterpret_cast<void*>(address));
  if (!range) return CUDA_ERROR_INVALID_VALUE;
  int device = 0;
  for (int i = 0; i < visible_devices(); ++i)
    if (physical(i) == range->device) device = i;
  switch (which) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<CUcontext*>(out) = context_of(device);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(out) = range->kind == Kind::kDevice ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *static_cast<CUdeviceptr*>(out) = address;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(out) = device;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<CUdeviceptr*>(out) = range->base;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<std::size_t*>(out) = range->size;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      *static_cast<unsigned long long*>(out) = range->base;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}
EXPORT CUresult cuGetProcAddress(const char* symbol, void** out, int, cuuint64_t,
                                 CUdriverProcAddressQueryResult* status) {
  *out = entry_point(symbol);
  if (status) *status = *out ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return *out ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
