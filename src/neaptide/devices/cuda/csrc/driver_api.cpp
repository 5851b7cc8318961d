#include "driver_api.h"

namespace neaptide::cuda {
namespace {

constexpr unsigned kVersion = 12000;  // whose variants of the functions the headers declare

void* find(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t result = cudaGetDriverEntryPointByVersion(name, &function, kVersion, cudaEnableDefault, &found);
  if (result != cudaSuccess || found != cudaDriverEntryPointSuccess || function == nullptr)
    throw DriverError(std::string("the CUDA driver has no ") + name +
                      "; neaptide needs a driver for CUDA 12 or newer with virtual memory management");
  return function;
}

}  // namespace

const DriverApi& driver_api() {
  static const DriverApi api = [] {
    DriverApi found;
#define NEAPTIDE_DRIVER_FIND(name) found.name = reinterpret_cast<decltype(found.name)>(find(#name));
    NEAPTIDE_DRIVER_FUNCTIONS(NEAPTIDE_DRIVER_FIND)
#undef NEAPTIDE_DRIVER_FIND
    return found;
  }();
  return api;
}

void check(CUresult result, const std::string& what) {
  if (result == CUDA_SUCCESS) return;
  const char* text = nullptr;
  driver_api().cuGetErrorString(result, &text);
  const std::string line = "CUDA cannot " + what + ": " + (text != nullptr ? text : "unknown error");
  if (result == CUDA_ERROR_OUT_OF_MEMORY) throw DeviceFull(line);
  throw DriverError(line);
}

void check(cudaError_t result, const std::string& what) {
  if (result == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // the runtime keeps it for the next caller otherwise
  throw DriverError("CUDA cannot " + what + ": " + cudaGetErrorString(result));
}

bool is_over(cudaError_t result) {
  switch (result) {
    case cudaErrorCudartUnloading:
    case cudaErrorECCUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorContextIsDestroyed:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
      return true;
    default:
      return false;
  }
}

OnDevice::OnDevice(int ordinal) {
  if (cudaGetDevice(&before_) == cudaSuccess && before_ != ordinal) changed_ = cudaSetDevice(ordinal) == cudaSuccess;
}

OnDevice::~OnDevice() {
  if (changed_) static_cast<void>(cudaSetDevice(before_));
}

}  // namespace neaptide::cuda
