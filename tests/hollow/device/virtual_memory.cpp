#include "virtual_memory.h"

#include <sys/mman.h>

#include "addresses.h"
#include "memory.h"
#include "physical.h"

namespace hollow {
namespace {

void* pointer(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

}  // namespace

CUresult Virtual::reserve(CUdeviceptr* out, std::size_t bytes, std::size_t alignment) {
  const std::size_t unit = config().granularity;
  if (!bytes || bytes % unit || alignment % unit) return CUDA_ERROR_INVALID_VALUE;
  const std::uintptr_t base = addresses().take(bytes, alignment ? alignment : unit);
  if (!base) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::lock_guard<std::mutex> lock(mutex_);
  reservations_[base] = bytes;
  *out = base;
  return CUDA_SUCCESS;
}

CUresult Virtual::unreserve(CUdeviceptr address, std::size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = reservations_.find(address);
  if (found == reservations_.end() || found->second != bytes) return CUDA_ERROR_INVALID_VALUE;
  const auto mapped = mappings_.lower_bound(address);
  if (mapped != mappings_.end() && mapped->first < address + bytes) return CUDA_ERROR_INVALID_VALUE;
  addresses().give(address, bytes);
  reservations_.erase(found);
  return CUDA_SUCCESS;
}

CUmemGenericAllocationHandle Virtual::add(std::shared_ptr<Physical> physical) {
  const std::lock_guard<std::mutex> lock(mutex_);
  handles_[next_] = std::move(physical);
  return next_++;
}

CUresult Virtual::create(CUmemGenericAllocationHandle* out, int device, std::size_t bytes, bool exportable) {
  if (!bytes || bytes % config().granularity) return CUDA_ERROR_INVALID_VALUE;
  auto physical = create_physical(device, bytes, exportable);
  if (!physical) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = add(std::move(physical));
  return CUDA_SUCCESS;
}

CUresult Virtual::release(CUmemGenericAllocationHandle handle) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return handles_.erase(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult Virtual::map(CUdeviceptr address, std::size_t bytes, CUmemGenericAllocationHandle handle) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = handles_.find(handle);
  if (found == handles_.end() || bytes > found->second->bytes()) return CUDA_ERROR_INVALID_VALUE;
  if (!bytes || address % config().granularity || bytes % config().granularity) return CUDA_ERROR_INVALID_VALUE;
  auto reservation = reservations_.upper_bound(address);
  if (reservation == reservations_.begin()) return CUDA_ERROR_INVALID_VALUE;
  --reservation;
  if (address + bytes > reservation->first + reservation->second) return CUDA_ERROR_INVALID_VALUE;
  auto next = mappings_.lower_bound(address);
  if (next != mappings_.end() && next->first < address + bytes) return CUDA_ERROR_INVALID_VALUE;
  if (next != mappings_.begin() && (--next)->first + next->second.bytes > address) return CUDA_ERROR_INVALID_VALUE;
  if (!found->second->map(address, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  mappings_[address] = {bytes, found->second, CU_MEM_ACCESS_FLAGS_PROT_NONE};
  memory().add({address, bytes, Kind::kDevice, found->second->device()});
  return CUDA_SUCCESS;
}

std::vector<Virtual::Mappings::iterator> Virtual::covering(std::uintptr_t base, std::size_t bytes) {
  std::vector<Mappings::iterator> result;
  std::uintptr_t at = base;
  for (auto next = mappings_.find(base); at < base + bytes; ++next) {
    if (next == mappings_.end() || next->first != at) return {};
    at += next->second.bytes;
    result.push_back(next);
  }
  return at == base + bytes ? result : std::vector<Mappings::iterator>{};
}

CUresult Virtual::set_access(CUdeviceptr address, std::size_t bytes, CUmemAccess_flags flags, const Call& call) {
  const int protection = flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? PROT_READ | PROT_WRITE
                         : flags == CU_MEM_ACCESS_FLAGS_PROT_READ    ? PROT_READ
                                                                     : PROT_NONE;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto covered = covering(address, bytes);
  if (covered.empty() || mprotect(pointer(address), bytes, protection)) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& mapping : covered) mapping->second.access = flags;
  call.concerns(covered.size());
  return CUDA_SUCCESS;
}

CUresult Virtual::unmap(CUdeviceptr address, std::size_t bytes, const Call& call) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto covered = covering(address, bytes);
  if (covered.empty()) return CUDA_ERROR_INVALID_VALUE;
  if (!map_nothing(address, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  call.concerns(covered.size());
  for (const auto& mapping : covered) {
    memory().remove(mapping->first);
    mappings_.erase(mapping);
  }
  return CUDA_SUCCESS;
}

CUresult Virtual::export_file(int* out, CUmemGenericAllocationHandle handle) {
  const auto found = physical(handle);
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  *out = found->export_file();
  return *out >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult Virtual::import_file(CUmemGenericAllocationHandle* out, int descriptor) {
  auto physical = import_physical(descriptor);
  if (!physical) return CUDA_ERROR_INVALID_VALUE;
  *out = add(std::move(physical));
  return CUDA_SUCCESS;
}

Virtual::Mappings::iterator Virtual::mapping_at(std::uintptr_t address) {
  auto next = mappings_.upper_bound(address);
  if (next == mappings_.begin()) return mappings_.end();
  --next;
  return address < next->first + next->second.bytes ? next : mappings_.end();
}

CUresult Virtual::retain(CUmemGenericAllocationHandle* out, CUdeviceptr address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = mapping_at(address);
  if (found == mappings_.end()) return CUDA_ERROR_INVALID_VALUE;
  handles_[*out = next_++] = found->second.physical;
  return CUDA_SUCCESS;
}

CUresult Virtual::access(CUmemAccess_flags* out, CUdeviceptr address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = mapping_at(address);
  if (found == mappings_.end()) return CUDA_ERROR_INVALID_VALUE;
  *out = found->second.access;
  return CUDA_SUCCESS;
}

std::shared_ptr<Physical> Virtual::physical(CUmemGenericAllocationHandle handle) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = handles_.find(handle);
  return found == handles_.end() ? nullptr : found->second;
}

Virtual& virtual_memory() {
  static auto* instance = new Virtual;  // never destroyed: torch calls us from static destructors
  return *instance;
}

}  // namespace hollow
