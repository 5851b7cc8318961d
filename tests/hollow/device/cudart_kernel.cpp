// libcudart: kernels that the program's own code registers and launches.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "access.h"
#include "calls.h"
#include "devices.h"
#include "kernels.h"
#include "memory.h"

namespace hollow {
namespace {

struct Variable {
  std::size_t size;
  std::vector<char> storage;  // made at first use
};

/// What was registered while the program's libraries were loaded.
struct Program {
  std::mutex mutex;  // guards the maps; entries stay where they are
  std::unordered_map<const void*, std::unique_ptr<Kernel>> kernels;
  std::unordered_map<const void*, Variable> variables;
};
Program& program() {
  static auto* instance = new Program;  // never destroyed: torch calls us from static destructors
  return *instance;
}

Kernel& kernel_of(const void* host) {
  const std::lock_guard<std::mutex> lock(program().mutex);
  std::unique_ptr<Kernel>& found = program().kernels[host];
  if (!found) found = std::make_unique<Kernel>(describe_kernel("?"));
  return *found;
}

void* storage_of(const void* symbol) {
  const std::lock_guard<std::mutex> lock(program().mutex);
  const auto found = program().variables.find(symbol);
  if (found == program().variables.end()) return nullptr;
  found->second.storage.resize(found->second.size);
  return found->second.storage.data();
}

struct Configuration {
  dim3 grid, block;
  std::size_t shared;
  cudaStream_t stream;
};
thread_local std::vector<Configuration> configurations;

cudaError_t start(const Kernel& kernel, void** arguments, cudaStream_t stream) {
  if (const cudaError_t error = require_context(current_physical())) return error;
  return enqueue(stream_of(stream), launch_of(kernel, arguments));
}

}  // namespace
}  // namespace hollow

using namespace hollow;

// Runs while libraries are loaded, before there is a process on the board: not counted.
EXPORT void** __cudaRegisterFatBinary(void*) {
  static void* handle;
  return &handle;
}
EXPORT void __cudaRegisterFatBinaryEnd(void**) {}
EXPORT void __cudaUnregisterFatBinary(void**) {}
EXPORT char __cudaInitModule(void**) { return 1; }
EXPORT void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                                   int*) {
  const std::lock_guard<std::mutex> lock(program().mutex);
  program().kernels[host] = std::make_unique<Kernel>(describe_kernel(name));
}
EXPORT void __cudaRegisterVar(void**, char* host, char*, const char*, int, size_t size, int, int) {
  const std::lock_guard<std::mutex> lock(program().mutex);
  program().variables[host] = {size, {}};
}
EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}
EXPORT cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  if (configurations.empty()) return fail(cudaErrorMissingConfiguration);
  const Configuration& top = configurations.back();
  *grid = top.grid;
  *block = top.block;
  *shared = top.shared;
  *static_cast<cudaStream_t*>(stream) = top.stream;
  configurations.pop_back();
  return cudaSuccess;
}
EXPORT cudaError_t __cudaGetKernel(cudaKernel_t* out, const void* host) {
  *out = reinterpret_cast<cudaKernel_t>(&kernel_of(host));
  return cudaSuccess;
}

EXPORT cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3, dim3, void** arguments, size_t, cudaStream_t stream) {
  RUNTIME_CALL;
  return start(*reinterpret_cast<Kernel*>(kernel), arguments, stream);
}
EXPORT cudaError_t cudaLaunchKernel(const void* host, dim3, dim3, void** arguments, size_t, cudaStream_t stream) {
  RUNTIME_CALL;
  return start(kernel_of(host), arguments, stream);
}
EXPORT cudaError_t cudaLaunchCooperativeKernel(const void* host, dim3, dim3, void** arguments, size_t,
                                               cudaStream_t stream) {
  RUNTIME_CALL;
  return start(kernel_of(host), arguments, stream);
}
EXPORT cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* launch, const void* host, void** arguments) {
  RUNTIME_CALL;
  return start(kernel_of(host), arguments, launch->stream);
}

EXPORT cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* out, const void*) {
  RUNTIME_CALL;
  *out = {};
  out->maxThreadsPerBlock = 1024;
  out->numRegs = 32;
  out->ptxVersion = out->binaryVersion = 80;
  out->maxDynamicSharedSizeBytes = 48 << 10;
  return cudaSuccess;
}
EXPORT cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) {
  RUNTIME_CALL;
  return cudaSuccess;
}
EXPORT cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t, cudaFuncAttribute, int, int) {
  RUNTIME_CALL;
  return cudaSuccess;
}
EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int threads, size_t,
                                                                          unsigned) {
  RUNTIME_CALL;
  *blocks = std::max(1, 2048 / std::max(threads, 64));
  return cudaSuccess;
}
EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* host, int threads,
                                                                 size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, host, threads, shared, 0);
}
EXPORT cudaError_t cudaGetSymbolAddress(void** out, const void* symbol) {
  RUNTIME_CALL;
  *out = storage_of(symbol);
  return *out ? cudaSuccess : fail(cudaErrorInvalidSymbol);
}
EXPORT cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset,
                                      cudaMemcpyKind) {
  RUNTIME_CALL;
  void* to = storage_of(symbol);
  if (!to) return fail(cudaErrorInvalidSymbol);
  return copy_bytes(static_cast<char*>(to) + offset, from, bytes) ? cudaSuccess : fail(cudaErrorInvalidValue);
}
