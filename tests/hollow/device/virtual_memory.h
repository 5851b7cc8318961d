// Virtual memory management: reserved addresses, physical memory by handle, and mappings of one onto the other.
#pragma once

#include <cuda.h>

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "calls.h"
#include "pages.h"

namespace hollow {

/// Physical memory of one device. Its bytes go back to the device when the last handle or mapping of it is gone.
class Physical {
 public:
  virtual ~Physical() = default;
  virtual int device() const = 0;
  virtual std::size_t bytes() const = 0;
  /// Maps it at an address, without access. False if the host refuses.
  virtual bool map(std::uintptr_t at, std::size_t bytes) const = 0;
  /// A descriptor for another process, or -1 if it was not made to be exported.
  virtual int export_file() const = 0;
};

class Virtual {
 public:
  CUresult reserve(CUdeviceptr* out, std::size_t bytes, std::size_t alignment);
  CUresult unreserve(CUdeviceptr address, std::size_t bytes);
  CUresult create(CUmemGenericAllocationHandle* out, int device, std::size_t bytes, bool exportable);
  CUresult release(CUmemGenericAllocationHandle handle);
  CUresult map(CUdeviceptr address, std::size_t bytes, CUmemGenericAllocationHandle handle);
  CUresult set_access(CUdeviceptr address, std::size_t bytes, CUmemAccess_flags flags, const Call& call);
  CUresult unmap(CUdeviceptr address, std::size_t bytes, const Call& call);
  CUresult export_file(int* out, CUmemGenericAllocationHandle handle);
  CUresult import_file(CUmemGenericAllocationHandle* out, int descriptor);
  /// A further handle of what is mapped at an address.
  CUresult retain(CUmemGenericAllocationHandle* out, CUdeviceptr address);
  CUresult access(CUmemAccess_flags* out, CUdeviceptr address);
  std::shared_ptr<Physical> physical(CUmemGenericAllocationHandle handle);

 private:
  struct Mapping {
    std::size_t bytes;
    std::shared_ptr<Physical> physical;
    CUmemAccess_flags access;
  };
  using Mappings = std::map<std::uintptr_t, Mapping>;
  CUmemGenericAllocationHandle add(std::shared_ptr<Physical> physical);
  /// The mappings that cover the range to the byte; empty if there are gaps or a mapping is covered in part.
  std::vector<Mappings::iterator> covering(std::uintptr_t base, std::size_t bytes);
  Mappings::iterator mapping_at(std::uintptr_t address);

  std::mutex mutex_;
  std::map<std::uintptr_t, std::size_t> reservations_;
  std::map<CUmemGenericAllocationHandle, std::shared_ptr<Physical>> handles_;
  Mappings mappings_;
  CUmemGenericAllocationHandle next_ = 1;
};

Virtual& virtual_memory();

}  // namespace hollow
