// Names and texts of errors, as CUDA words them.
#include <map>

#include "calls.h"

namespace {

struct Error {
  const char *name, *text;
};

const Error& error_of(int code) {
  static const std::map<int, Error> errors = {
      {0, {"cudaSuccess", "no error"}},
      {1, {"cudaErrorInvalidValue", "invalid argument"}},
      {2, {"cudaErrorMemoryAllocation", "out of memory"}},
      {3, {"cudaErrorInitializationError", "initialization error"}},
      {35, {"cudaErrorInsufficientDriver", "CUDA driver version is insufficient for CUDA runtime version"}},
      {52, {"cudaErrorMissingConfiguration", "__global__ function call is not configured"}},
      {13, {"cudaErrorInvalidSymbol", "invalid device symbol"}},
      {100, {"cudaErrorNoDevice", "no CUDA-capable device is detected"}},
      {101, {"cudaErrorInvalidDevice", "invalid device ordinal"}},
      {201, {"cudaErrorDeviceUninitialized", "invalid device context"}},
      {400, {"cudaErrorInvalidResourceHandle", "invalid resource handle"}},
      {500, {"cudaErrorSymbolNotFound", "named symbol not found"}},
      {600, {"cudaErrorNotReady", "device not ready"}},
      {700, {"cudaErrorIllegalAddress", "an illegal memory access was encountered"}},
      {712, {"cudaErrorHostMemoryAlreadyRegistered", "part or all of the requested memory range is already mapped"}},
      {713, {"cudaErrorHostMemoryNotRegistered", "pointer does not correspond to a registered memory region"}},
      {801, {"cudaErrorNotSupported", "operation not supported"}},
      {900, {"cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"}},
      {901, {"cudaErrorStreamCaptureInvalidated", "operation failed due to a previous error during capture"}},
      {902, {"cudaErrorStreamCaptureMerge", "operation would result in a merge of separate capture sequences"}},
      {903, {"cudaErrorStreamCaptureUnmatched", "capture was not ended in the same stream as it began"}},
      {905, {"cudaErrorStreamCaptureIsolation", "dependency created on uncaptured work in another stream"}},
      {907, {"cudaErrorCapturedEvent", "operation not permitted on an event last recorded in a capturing stream"}},
  };
  static const Error unknown = {"cudaErrorUnknown", "unknown error"};
  const auto found = errors.find(code);
  return found == errors.end() ? unknown : found->second;
}

}  // namespace

EXPORT const char* cudaGetErrorName(cudaError_t error) { return error_of(error).name; }
EXPORT const char* cudaGetErrorString(cudaError_t error) { return error_of(error).text; }
EXPORT CUresult cuGetErrorName(CUresult error, const char** out) {
  *out = error_of(error).name;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGetErrorString(CUresult error, const char** out) {
  *out = error_of(error).text;
  return CUDA_SUCCESS;
}
