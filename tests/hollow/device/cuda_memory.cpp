// libcuda: memory, virtual memory management and copies.
#include "calls.h"
#include "devices.h"
#include "memory.h"
#include "transfer.h"
#include "virtual_memory.h"

using namespace hollow;

namespace {
void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }
}  // namespace

EXPORT CUresult cuMemGetInfo(size_t* free, size_t* total) { return as_driver(cudaMemGetInfo(free, total)); }
EXPORT CUresult cuMemAlloc(CUdeviceptr* out, size_t bytes) {
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  return as_driver(cudaMalloc(reinterpret_cast<void**>(out), bytes));
}
EXPORT CUresult cuMemFree(CUdeviceptr address) { return as_driver(cudaFree(pointer(address))); }
EXPORT CUresult cuMemGetAddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  DRIVER_CALL;
  const std::optional<Range> range = memory().find(pointer(address));
  if (!range || range->kind != Kind::kDevice) return CUDA_ERROR_NOT_FOUND;
  if (base) *base = range->base;
  if (bytes) *bytes = range->size;
  return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetAllocationGranularity(size_t* out, const CUmemAllocationProp*,
                                              CUmemAllocationGranularity_flags) {
  DRIVER_CALL;
  *out = config().granularity;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemAddressReserve(CUdeviceptr* out, size_t bytes, size_t alignment, CUdeviceptr,
                                    unsigned long long flags) {
  DRIVER_CALL;
  return flags ? CUDA_ERROR_INVALID_VALUE : virtual_memory().reserve(out, bytes, alignment);
}
EXPORT CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  DRIVER_CALL;
  return virtual_memory().unreserve(address, bytes);
}
EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle* out, size_t bytes, const CUmemAllocationProp* wanted,
                            unsigned long long flags) {
  DRIVER_CALL;
  if (flags || wanted->type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  if (wanted->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  if (!is_visible(wanted->location.id)) return CUDA_ERROR_INVALID_DEVICE;
  if (wanted->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  const bool exportable = wanted->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE;
  return virtual_memory().create(out, physical(wanted->location.id), bytes, exportable);
}
EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  DRIVER_CALL;
  return virtual_memory().release(handle);
}
EXPORT CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                         unsigned long long flags) {
  DRIVER_CALL;
  if (offset || flags) return CUDA_ERROR_INVALID_VALUE;  // CUDA takes nothing else either
  return virtual_memory().map(address, bytes, handle);
}
EXPORT CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* wanted, size_t count) {
  DRIVER_CALL;
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) result = virtual_memory().set_access(address, bytes, wanted[i].flags, call);
  return result;
}
EXPORT CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation*, CUdeviceptr address) {
  DRIVER_CALL;
  CUmemAccess_flags found = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  const CUresult result = virtual_memory().access(&found, address);
  *flags = found;
  return result;
}
EXPORT CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  DRIVER_CALL;
  return virtual_memory().unmap(address, bytes, call);
}
EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out, void* address) {
  DRIVER_CALL;
  return virtual_memory().retain(out, reinterpret_cast<CUdeviceptr>(address));
}
EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* out, CUmemGenericAllocationHandle handle) {
  DRIVER_CALL;
  const auto found = virtual_memory().physical(handle);
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  *out = {};
  out->type = CU_MEM_ALLOCATION_TYPE_PINNED;
  out->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  for (int i = 0; i < visible_devices(); ++i)
    if (physical(i) == found->device()) out->location.id = i;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle,
                                             CUmemAllocationHandleType type, unsigned long long) {
  DRIVER_CALL;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  return virtual_memory().export_file(static_cast<int*>(out), handle);
}
EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* out, void* descriptor,
                                               CUmemAllocationHandleType type) {
  DRIVER_CALL;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  return virtual_memory().import_file(out, static_cast<int>(reinterpret_cast<std::intptr_t>(descriptor)));
}

EXPORT CUresult cuMemHostAlloc(void** out, size_t bytes, unsigned flags) {
  return as_driver(cudaHostAlloc(out, bytes, flags));
}
EXPORT CUresult cuMemFreeHost(void* address) { return as_driver(cudaFreeHost(address)); }
EXPORT CUresult cuMemHostRegister(void* address, size_t bytes, unsigned flags) {
  return as_driver(cudaHostRegister(address, bytes, flags));
}
EXPORT CUresult cuMemHostUnregister(void* address) { return as_driver(cudaHostUnregister(address)); }

EXPORT CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  DRIVER_CALL;
  return as_driver(transfer(pointer(to), from, bytes, stream, false));
}
EXPORT CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  DRIVER_CALL;
  return as_driver(transfer(to, pointer(from), bytes, stream, false));
}
EXPORT CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  DRIVER_CALL;
  return as_driver(transfer(pointer(to), pointer(from), bytes, stream, false));
}
EXPORT CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) {
  DRIVER_CALL;
  return as_driver(transfer(pointer(to), from, bytes, nullptr, true));
}
EXPORT CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) {
  DRIVER_CALL;
  return as_driver(transfer(to, pointer(from), bytes, nullptr, true));
}
EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  DRIVER_CALL;
  return as_driver(set(pointer(to), value, 1, count, stream, false));
}
EXPORT CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  DRIVER_CALL;
  return as_driver(set(pointer(to), value, 4, count, stream, false));
}
EXPORT CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t count) {
  DRIVER_CALL;
  return as_driver(set(pointer(to), value, 1, count, nullptr, true));
}
