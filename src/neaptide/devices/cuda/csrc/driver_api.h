// The functions of CUDA's driver library that are used here. They are asked of the runtime library, which torch has
// loaded, so that nothing has to be linked or found.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <string>

#include "../../native/driver.h"

namespace neaptide::cuda {

/// The device has no memory left, although there was a lease: memory outside the budget takes it, or a process that
/// was killed has not been cleaned up yet.
class DeviceFull : public DriverError {
 public:
  using DriverError::DriverError;
};

#define NEAPTIDE_DRIVER_FUNCTIONS(FUNCTION) \
  FUNCTION(cuDeviceGetUuid)                 \
  FUNCTION(cuGetErrorString)                \
  FUNCTION(cuMemAddressFree)                \
  FUNCTION(cuMemAddressReserve)             \
  FUNCTION(cuMemGetAllocationGranularity)   \
  FUNCTION(cuMemImportFromShareableHandle)  \
  FUNCTION(cuMemMap)                        \
  FUNCTION(cuMemRelease)                    \
  FUNCTION(cuMemSetAccess)                  \
  FUNCTION(cuMemUnmap)

struct DriverApi {
#define NEAPTIDE_DRIVER_MEMBER(name) decltype(&::name) name;
  NEAPTIDE_DRIVER_FUNCTIONS(NEAPTIDE_DRIVER_MEMBER)
#undef NEAPTIDE_DRIVER_MEMBER
};

/// Finds them once. Throws DriverError when the installed driver lacks one.
const DriverApi& driver_api();

/// Throws DriverError, or DeviceFull, that says what could not be done, unless the result is success.
void check(CUresult result, const std::string& what);
void check(cudaError_t result, const std::string& what);

/// Whether the process can do nothing on the device any more, after an error of its own kernels or at its end: all that
/// was launched is over.
bool is_over(cudaError_t result);

/// The calling thread's current device while it lives: events and pinned memory are made for that device, and it tells
/// which default stream is meant. Does nothing where CUDA does nothing any more.
class OnDevice {
 public:
  explicit OnDevice(int ordinal);
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice();

 private:
  int before_ = 0;
  bool changed_ = false;
};

}  // namespace neaptide::cuda
