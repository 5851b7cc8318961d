// libnvidia-ml: the devices and their processes as the board has them. NVML sees all devices, whatever
// CUDA_VISIBLE_DEVICES says, and needs no context. Structures and numbers are NVML's; its header is not needed.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "board.h"
#include "calls.h"
#include "devices.h"

using namespace hollow;

namespace {

enum Return { kSuccess = 0, kInvalidArgument = 2, kNotFound = 6, kInsufficientSize = 7 };
constexpr unsigned long long kNotAvailable = ~0ull;

struct Memory1 {
  unsigned long long total, free, used;
};
struct Memory2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
struct Process1 {
  unsigned pid;
  unsigned long long used;
};
struct Process3 {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};
struct Utilization {
  unsigned gpu, memory;
};
struct PciInfo {
  char legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};
struct FabricInfo {
  unsigned version;
  unsigned char cluster[16];
  int status;
  unsigned clique;
  unsigned char state;
};

char handles[kDevices];  // their addresses are the handles
int device_of_handle(void* handle) {
  const auto index = static_cast<char*>(handle) - handles;
  return index >= 0 && index < board().layout().devices ? static_cast<int>(index) : -1;
}
int handle_of(int device, void** out) {
  if (device < 0 || device >= board().layout().devices) return kInvalidArgument;
  *out = &handles[device];
  return kSuccess;
}
int put(const std::string& text, char* out, unsigned length) {
  if (text.size() >= length) return kInsufficientSize;
  std::strcpy(out, text.c_str());
  return kSuccess;
}

template <class Entry>
int running(void* handle, unsigned* count, Entry* out) {
  const int device = device_of_handle(handle);
  if (device < 0) return kInvalidArgument;
  std::vector<Entry> found;
  {
    Board::Lock lock(board());
    board().reap(true);
    for (const Process& process : board().layout().process) {
      const std::uint64_t used = process.pid ? board().used_by(process, device) : 0;
      if (!used) continue;
      Entry entry{};
      entry.pid = static_cast<unsigned>(process.pid.load());
      entry.used = config().nvml_is_silent ? kNotAvailable : used;
      found.push_back(entry);
    }
  }
  const unsigned room = *count;
  *count = static_cast<unsigned>(found.size());
  if (found.size() > room) return kInsufficientSize;
  std::copy(found.begin(), found.end(), out);
  return kSuccess;
}

}  // namespace

EXPORT int nvmlInit_v2() { return kSuccess; }
EXPORT int nvmlInitWithFlags(unsigned) { return kSuccess; }
EXPORT int nvmlShutdown() { return kSuccess; }
EXPORT const char* nvmlErrorString(int code) {
  return code == kSuccess ? "Success" : code == kNotFound ? "Not Found" : "Invalid Argument";
}
EXPORT int nvmlSystemGetDriverVersion(char* out, unsigned length) { return put("580.00.00", out, length); }
EXPORT int nvmlSystemGetNVMLVersion(char* out, unsigned length) { return put("13.580.00", out, length); }
EXPORT int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = config().driver_version;
  return kSuccess;
}
EXPORT int nvmlSystemGetCudaDriverVersion(int* version) { return nvmlSystemGetCudaDriverVersion_v2(version); }

EXPORT int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(board().layout().devices);
  return kSuccess;
}
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** out) { return handle_of(static_cast<int>(index), out); }
EXPORT int nvmlDeviceGetHandleByUUID(const char* uuid, void** out) {
  for (int i = 0; i < board().layout().devices; ++i)
    if (uuid_text(i) == uuid) return handle_of(i, out);
  return kNotFound;
}
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char* text, void** out) {
  unsigned domain = 0, bus = 0, slot = 0;  // the domain is written with four digits or with eight
  if (std::sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3 || domain || slot) return kNotFound;
  return handle_of(static_cast<int>(bus) - 1, out) == kSuccess ? kSuccess : kNotFound;
}
EXPORT int nvmlDeviceGetIndex(void* handle, unsigned* index) {
  *index = static_cast<unsigned>(device_of_handle(handle));
  return device_of_handle(handle) < 0 ? kInvalidArgument : kSuccess;
}
EXPORT int nvmlDeviceGetName(void*, char* out, unsigned length) { return put("Hollow GPU", out, length); }
EXPORT int nvmlDeviceGetUUID(void* handle, char* out, unsigned length) {
  return put(uuid_text(device_of_handle(handle)), out, length);
}
EXPORT int nvmlDeviceGetPciInfo_v3(void* handle, PciInfo* out) {
  const int device = device_of_handle(handle);
  if (device < 0) return kInvalidArgument;
  *out = {};
  std::strcpy(out->legacy, pci_text(device).c_str());
  std::strcpy(out->bus_id, ("0000" + pci_text(device)).c_str());
  out->bus = static_cast<unsigned>(device + 1);
  return kSuccess;
}
EXPORT int nvmlDeviceGetCudaComputeCapability(void*, int* major, int* minor) {
  *major = 8;
  *minor = 0;
  return kSuccess;
}
EXPORT int nvmlDeviceGetGpuFabricInfoV(void*, FabricInfo* out) {  // there is none
  *out = {out->version, {}, 0, 0, 0};
  return kSuccess;
}

EXPORT int nvmlDeviceGetMemoryInfo(void* handle, Memory1* out) {
  const int device = device_of_handle(handle);
  if (device < 0) return kInvalidArgument;
  const unsigned long long total = board().layout().device[device].capacity, used = board().used(device);
  *out = {total, used < total ? total - used : 0, used};
  return kSuccess;
}
EXPORT int nvmlDeviceGetMemoryInfo_v2(void* handle, Memory2* out) {
  Memory1 seen{};
  const int result = nvmlDeviceGetMemoryInfo(handle, &seen);
  *out = {out->version, seen.total, 0, seen.free, seen.used};
  return result;
}
/// Busy if a kernel's time is still under way.
EXPORT int nvmlDeviceGetUtilizationRates(void* handle, Utilization* out) {
  const int device = device_of_handle(handle);
  if (device < 0) return kInvalidArgument;
  out->gpu = board().layout().device[device].free_at[0] > now() ? 100 : 0;
  out->memory = 0;
  return kSuccess;
}
EXPORT int nvmlDeviceGetComputeRunningProcesses(void* handle, unsigned* count, Process1* out) {
  return running(handle, count, out);
}
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void* handle, unsigned* count, Process3* out) {
  return running(handle, count, out);
}
