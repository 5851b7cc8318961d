// cuDNN's descriptors, as far as anybody asks for what was put in.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "library.h"

namespace hollow {

/// Of tensors and filters: data type and sizes. Of others: nothing.
struct Descriptor {
  int type = 0;
  std::vector<int> sizes, strides;
};

struct Recurrent {
  int cell = 0, bias = 0, type = 0;
  int input = 0, hidden = 0, projection = 0, layers = 0, directions = 1;
};

struct RecurrentData {
  std::int64_t steps = 0, batch = 0;
};

enum CudnnStatus { kCudnnSuccess = 0, kCudnnNotInitialized = 1001, kCudnnBadParam = 2000, kCudnnAllocFailed = 1003 };

template <class Object>
int make_descriptor(void** out) {
  *out = registry<Object>().add(std::make_shared<Object>());
  return kCudnnSuccess;
}
template <class Object>
int drop_descriptor(void* handle) {
  return registry<Object>().remove(handle) ? kCudnnSuccess : kCudnnBadParam;
}

/// One kernel of the library on the handle's stream.
int run_cudnn(void* handle);

}  // namespace hollow
