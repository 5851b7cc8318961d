// What a hollow device says of itself: an A100's limits.
#include <cstring>

#include "board.h"
#include "devices.h"

namespace hollow {

int attribute(int which, int device) {  // CUdevice_attribute and cudaDeviceAttr have the same numbers
  switch (which) {
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY:
      return 1024;
    case cudaDevAttrMaxBlockDimZ:
      return 64;
    case cudaDevAttrMaxGridDimX:
      return 2147483647;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
      return 65535;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return 48 << 10;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return 163 << 10;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return 164 << 10;
    case cudaDevAttrTotalConstantMemory:
      return 64 << 10;
    case cudaDevAttrWarpSize:
      return 32;
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      return 65536;
    case cudaDevAttrMultiProcessorCount:
      return 108;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return 2048;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      return 32;
    case cudaDevAttrComputeCapabilityMajor:
      return 8;
    case cudaDevAttrComputeCapabilityMinor:
      return 0;
    case cudaDevAttrAsyncEngineCount:
      return 3;
    case cudaDevAttrL2CacheSize:
      return 40 << 20;
    case cudaDevAttrClockRate:
      return 1410000;
    case cudaDevAttrMemoryClockRate:
      return 1215000;
    case cudaDevAttrGlobalMemoryBusWidth:
      return 5120;
    case cudaDevAttrTextureAlignment:
      return 512;
    case cudaDevAttrPciBusId:
      return device + 1;
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrStreamPrioritiesSupported:
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrHostRegisterSupported:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
      return 1;
    default:
      return 0;
  }
}

void describe(cudaDeviceProp* out, int device) {
  const auto value = [device](cudaDeviceAttr which) { return attribute(which, device); };
  const auto size = [&](cudaDeviceAttr which) { return static_cast<std::size_t>(value(which)); };
  *out = {};
  std::strcpy(out->name, "Hollow GPU");
  const CUuuid uuid = uuid_of(device);
  std::memcpy(out->uuid.bytes, uuid.bytes, sizeof uuid.bytes);
  out->totalGlobalMem = board().layout().device[device].capacity;
  out->sharedMemPerBlock = size(cudaDevAttrMaxSharedMemoryPerBlock);
  out->sharedMemPerBlockOptin = size(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  out->sharedMemPerMultiprocessor = size(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  out->regsPerBlock = out->regsPerMultiprocessor = value(cudaDevAttrMaxRegistersPerBlock);
  out->warpSize = value(cudaDevAttrWarpSize);
  out->memPitch = 2147483647;
  out->maxThreadsPerBlock = value(cudaDevAttrMaxThreadsPerBlock);
  out->maxThreadsDim[0] = out->maxThreadsDim[1] = value(cudaDevAttrMaxBlockDimX);
  out->maxThreadsDim[2] = value(cudaDevAttrMaxBlockDimZ);
  out->maxGridSize[0] = value(cudaDevAttrMaxGridDimX);
  out->maxGridSize[1] = out->maxGridSize[2] = value(cudaDevAttrMaxGridDimY);
  out->totalConstMem = size(cudaDevAttrTotalConstantMemory);
  out->major = value(cudaDevAttrComputeCapabilityMajor);
  out->minor = value(cudaDevAttrComputeCapabilityMinor);
  out->textureAlignment = out->surfaceAlignment = size(cudaDevAttrTextureAlignment);
  out->texturePitchAlignment = 32;
  out->multiProcessorCount = value(cudaDevAttrMultiProcessorCount);
  out->maxThreadsPerMultiProcessor = value(cudaDevAttrMaxThreadsPerMultiProcessor);
  out->maxBlocksPerMultiProcessor = value(cudaDevAttrMaxBlocksPerMultiprocessor);
  out->concurrentKernels = out->unifiedAddressing = out->canMapHostMemory = out->streamPrioritiesSupported = 1;
  out->cooperativeLaunch = out->hostRegisterSupported = 1;
  out->globalL1CacheSupported = out->localL1CacheSupported = 1;
  out->asyncEngineCount = value(cudaDevAttrAsyncEngineCount);
  out->memoryBusWidth = value(cudaDevAttrGlobalMemoryBusWidth);
  out->l2CacheSize = value(cudaDevAttrL2CacheSize);
  out->pciBusID = value(cudaDevAttrPciBusId);
}

}  // namespace hollow
