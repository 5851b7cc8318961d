#include "cuda_driver.h"

#include <c10/cuda/CUDAStream.h>

#include <new>
#include <string>
#include <utility>

namespace neaptide::cuda {
namespace {

CUmemAllocationProp properties(int ordinal) {
  CUmemAllocationProp found{};
  found.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  found.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  found.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  found.location.id = ordinal;
  return found;
}

std::string mebibytes(std::size_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

/// The device, with its context in this process and as the calling thread's own while the driver is made.
int use_device(int ordinal) {
  check(cudaSetDevice(ordinal), "use device " + std::to_string(ordinal));
  return ordinal;
}

}  // namespace

CudaDriver::CudaDriver(Member& member, KeeperLine& keeper, StreamOptions options)
    : ordinal_(use_device(options.ordinal)), streams_(std::move(options)), pages_(member, keeper, ordinal_) {
  check(cudaStreamCreateWithFlags(&copy_stream_, cudaStreamNonBlocking), "make a stream");
}

CudaDriver::~CudaDriver() { cudaStreamDestroy(copy_stream_); }

Address CudaDriver::reserve(std::size_t bytes, std::size_t chunk_bytes) {
  const CUmemAllocationProp page = properties(ordinal_);
  std::size_t unit = 0;
  check(driver_api().cuMemGetAllocationGranularity(&unit, &page, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
        "tell the size of a page");
  if (unit == 0 || chunk_bytes % unit != 0)
    throw DriverError("chunks of " + mebibytes(chunk_bytes) + " are not whole pages of this device, which have " +
                      std::to_string(unit) + " bytes");
  CUdeviceptr start = 0;
  check(driver_api().cuMemAddressReserve(&start, bytes, chunk_bytes, 0, 0), "reserve addresses");
  return start;
}

void CudaDriver::release(Address address, std::size_t bytes) noexcept {
  pages_.clear();
  driver_api().cuMemAddressFree(address, bytes);
}

void* CudaDriver::allocate_host(std::size_t bytes) {
  const OnDevice on_device(ordinal_);
  void* memory = nullptr;
  if (cudaHostAlloc(&memory, bytes, cudaHostAllocDefault) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    throw std::bad_alloc();
  }
  return memory;
}

void CudaDriver::free_host(void* memory, std::size_t /*bytes*/) noexcept { cudaFreeHost(memory); }

void CudaDriver::copy_to_host(void* host, Address device, std::size_t bytes) {
  const OnDevice on_device(ordinal_);
  check(cudaMemcpyAsync(host, reinterpret_cast<const void*>(device), bytes, cudaMemcpyDeviceToHost, copy_stream_),
        "copy memory to the host");
}

void CudaDriver::copy_to_device(Address device, const void* host, std::size_t bytes) {
  const OnDevice on_device(ordinal_);
  check(cudaMemcpyAsync(reinterpret_cast<void*>(device), host, bytes, cudaMemcpyHostToDevice, copy_stream_),
        "copy memory from the host");
}

void CudaDriver::finish_copies() { check(cudaStreamSynchronize(copy_stream_), "copy memory"); }

StreamId CudaDriver::current_stream() {
  return reinterpret_cast<StreamId>(c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(ordinal_)).stream());
}

}  // namespace neaptide::cuda
