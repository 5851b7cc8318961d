// libcudnn: convolutions (by the graph API, as torch uses it) and batch norm that take time and compute nothing.
#include "cudnn.h"

namespace hollow {
int run_cudnn(void* handle) {
  const auto found = registry<LibraryHandle>().find(handle);
  if (!found) return kCudnnNotInitialized;
  return found->run() ? kCudnnBadParam : kCudnnSuccess;
}
}  // namespace hollow

using namespace hollow;

EXPORT size_t cudnnGetVersion() { return 92000; }  // what torch 2.13 was built with
EXPORT size_t cudnnGetCudartVersion() { return 13000; }
EXPORT int cudnnGetProperty(int which, int* value) {
  *value = which == 0 ? 9 : which == 1 ? 20 : 0;
  return kCudnnSuccess;
}
EXPORT const char* cudnnGetErrorString(int) { return "hollow cuDNN error"; }
EXPORT void cudnnGetLastErrorString(char* out, size_t length) {
  if (length) *out = 0;
}
EXPORT int cudnnCreate(void** out) {
  LIBRARY_CALL;
  auto made = LibraryHandle::create(current_physical());
  if (!made) return kCudnnAllocFailed;
  *out = registry<LibraryHandle>().add(std::move(made));
  return kCudnnSuccess;
}
EXPORT int cudnnDestroy(void* handle) {
  LIBRARY_CALL;
  return registry<LibraryHandle>().remove(handle) ? kCudnnSuccess : kCudnnNotInitialized;
}
EXPORT int cudnnSetStream(void* handle, cudaStream_t stream) {
  LIBRARY_CALL;
  const auto found = registry<LibraryHandle>().find(handle);
  if (!found) return kCudnnNotInitialized;
  found->stream = stream;
  return kCudnnSuccess;
}
EXPORT int cudnnGetStream(void* handle, cudaStream_t* stream) {
  const auto found = registry<LibraryHandle>().find(handle);
  if (!found) return kCudnnNotInitialized;
  *stream = found->stream;
  return kCudnnSuccess;
}

// The graph API: one engine for every graph, without workspace and without notes.
namespace {
struct Backend {};
constexpr int kHeuristicResults = 202, kConfigEngine = 300;  // filled in place
constexpr int kPlanWorkspace = 402, kEngineIndex = 1301;     // a number: 0
}  // namespace

EXPORT int cudnnBackendCreateDescriptor(int, void** out) { return make_descriptor<Backend>(out); }
EXPORT int cudnnBackendDestroyDescriptor(void* handle) { return drop_descriptor<Backend>(handle); }
EXPORT int cudnnBackendSetAttribute(void*, int, int, std::int64_t, const void*) { return kCudnnSuccess; }
EXPORT int cudnnBackendFinalize(void*) { return kCudnnSuccess; }
EXPORT int cudnnBackendGetAttribute(void*, int which, int, std::int64_t wanted, std::int64_t* count, void* out) {
  const bool number = which == kPlanWorkspace || which == kEngineIndex;
  if (number && out && wanted) *static_cast<std::int64_t*>(out) = 0;
  if (count) *count = number || which == kHeuristicResults || which == kConfigEngine ? 1 : 0;
  return kCudnnSuccess;
}
EXPORT int cudnnBackendExecute(void* handle, void*, void*) {
  LIBRARY_CALL;
  return run_cudnn(handle);
}

// Descriptors of the older API.
EXPORT int cudnnCreateTensorDescriptor(void** out) { return make_descriptor<Descriptor>(out); }
EXPORT int cudnnDestroyTensorDescriptor(void* handle) { return drop_descriptor<Descriptor>(handle); }
EXPORT int cudnnCreateFilterDescriptor(void** out) { return make_descriptor<Descriptor>(out); }
EXPORT int cudnnDestroyFilterDescriptor(void* handle) { return drop_descriptor<Descriptor>(handle); }
EXPORT int cudnnCreateActivationDescriptor(void** out) { return make_descriptor<Descriptor>(out); }
EXPORT int cudnnDestroyActivationDescriptor(void* handle) { return drop_descriptor<Descriptor>(handle); }
EXPORT int cudnnSetActivationDescriptor(void*, int, int, double) { return kCudnnSuccess; }
EXPORT int cudnnCreateDropoutDescriptor(void** out) { return make_descriptor<Descriptor>(out); }
EXPORT int cudnnDestroyDropoutDescriptor(void* handle) { return drop_descriptor<Descriptor>(handle); }
EXPORT int cudnnSetTensorNdDescriptor(void* handle, int type, int count, const int* sizes, const int* strides) {
  const auto found = registry<Descriptor>().find(handle);
  if (!found) return kCudnnBadParam;
  *found = {type, {sizes, sizes + count}, {strides, strides + count}};
  return kCudnnSuccess;
}
EXPORT int cudnnSetFilterNdDescriptor(void* handle, int type, int, int count, const int* sizes) {
  const auto found = registry<Descriptor>().find(handle);
  if (!found) return kCudnnBadParam;
  *found = {type, {sizes, sizes + count}, {}};
  return kCudnnSuccess;
}
EXPORT int cudnnGetTensorNdDescriptor(void* handle, int wanted, int* type, int* count, int* sizes, int* strides) {
  const auto found = registry<Descriptor>().find(handle);
  if (!found) return kCudnnBadParam;
  *type = found->type;
  *count = static_cast<int>(found->sizes.size());
  for (std::size_t i = 0; i < found->sizes.size() && i < static_cast<std::size_t>(wanted); ++i) {
    sizes[i] = found->sizes[i];
    if (i < found->strides.size()) strides[i] = found->strides[i];
  }
  return kCudnnSuccess;
}

// Batch norm.
namespace {
int none(std::size_t* bytes) {
  *bytes = 0;
  return kCudnnSuccess;
}
}  // namespace
EXPORT int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(void*, int, int, void*, void*, void*, void*, void*,
                                                                    size_t* bytes) {
  return none(bytes);
}
EXPORT int cudnnGetBatchNormalizationBackwardExWorkspaceSize(void*, int, int, void*, void*, void*, void*, void*, void*,
                                                             void*, size_t* bytes) {
  return none(bytes);
}
EXPORT int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void*, int, int, void*, void*, size_t* bytes) {
  return none(bytes);
}
EXPORT int cudnnBatchNormalizationForwardTrainingEx(void* handle) {
  LIBRARY_CALL;
  return run_cudnn(handle);
}
EXPORT int cudnnBatchNormalizationBackwardEx(void* handle) {
  LIBRARY_CALL;
  return run_cudnn(handle);
}
EXPORT int cudnnBatchNormalizationForwardInference(void* handle) {
  LIBRARY_CALL;
  return run_cudnn(handle);
}

EXPORT int ncclGetVersion(int* version) {
  *version = 22907;
  return 0;
}
