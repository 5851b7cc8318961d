// What a handle of cuBLAS or cuDNN is: a stream, and some device memory that torch's allocator does not know.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "board.h"
#include "calls.h"
#include "devices.h"
#include "kernels.h"
#include "registry.h"
#include "stream.h"

namespace hollow {

class LibraryHandle {
 public:
  /// Nothing if the device has too few bytes.
  static std::shared_ptr<LibraryHandle> create(int device) {
    if (require_context(device) || !board().take(device, config().library)) return nullptr;
    return std::make_shared<LibraryHandle>(device);
  }
  explicit LibraryHandle(int device) : device_(device) {}
  LibraryHandle(const LibraryHandle&) = delete;
  LibraryHandle& operator=(const LibraryHandle&) = delete;
  ~LibraryHandle() { board().give(device_, config().library); }

  cudaStream_t stream = nullptr;
  int math_mode = 0, pointer_mode = 0;

  cudaError_t run(double flops = 0) const { return enqueue(stream_of(stream), library_kernel(flops)); }

 private:
  int device_;
};

}  // namespace hollow
