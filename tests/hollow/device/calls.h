// What every exported call does first: it is counted, it costs its caller time, and it fails if the context is broken.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "config.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace hollow {

class Call {
 public:
  explicit Call(const char* name);
  /// Counts the call and charges its cost. Gives the error with which all calls of a broken process fail, or success.
  cudaError_t enter() const;
  /// Charges the cost again for each handle beyond the first.
  void concerns(std::size_t handles) const;

 private:
  void charge(std::size_t times) const;
  int index_;
  Nanos cost_;
};

/// An access to a bad address breaks the process's context: this and all later calls give 700 (illegal address).
void break_context();
bool context_is_broken();

/// Remembers an error for cudaGetLastError and returns it.
cudaError_t fail(cudaError_t error);
cudaError_t last_error(bool forget);

inline CUresult as_driver(cudaError_t error) { return static_cast<CUresult>(error); }  // the numbers agree where used

}  // namespace hollow

#define RUNTIME_CALL                          \
  static const ::hollow::Call call(__func__); \
  if (const cudaError_t broken = call.enter()) return broken
#define DRIVER_CALL                           \
  static const ::hollow::Call call(__func__); \
  if (const cudaError_t broken = call.enter()) return ::hollow::as_driver(broken)
/// In cuBLAS and cuDNN, which have codes of their own; the caller learns the cause from the next runtime call.
#define LIBRARY_CALL                          \
  static const ::hollow::Call call(__func__); \
  if (call.enter()) return 14
