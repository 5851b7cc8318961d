#include "devices.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <sstream>
#include <vector>

#include "board.h"
#include "calls.h"

namespace hollow {
namespace {

thread_local int current_device = 0;

int parse(const std::string& word) {
  if (word.compare(0, 4, "GPU-") == 0) {
    for (int i = 0; i < board().layout().devices; ++i)
      if (uuid_text(i).compare(0, word.size(), word) == 0) return i;
    return -1;
  }
  char* end = nullptr;
  const long number = std::strtol(word.c_str(), &end, 10);
  return end != word.c_str() && number >= 0 && number < board().layout().devices ? static_cast<int>(number) : -1;
}

// As CUDA reads it: the list ends at the first entry that names no device.
std::vector<int> read_visible() {
  std::vector<int> result;
  const char* list = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!list) {
    for (int i = 0; i < board().layout().devices; ++i) result.push_back(i);
    return result;
  }
  std::istringstream in(list);
  for (std::string word; std::getline(in, word, ',');) {
    const int device = parse(word);
    if (device < 0) break;
    result.push_back(device);
  }
  return result;
}
const std::vector<int>& visible() {
  static const auto* instance = new std::vector<int>(read_visible());
  return *instance;
}

char contexts[kDevices];  // their addresses are the handles
std::atomic<bool> made[kDevices];

}  // namespace

int visible_devices() { return static_cast<int>(visible().size()); }
int physical(int device) { return visible()[static_cast<std::size_t>(device)]; }
bool is_visible(int device) { return device >= 0 && device < visible_devices(); }

int current() { return current_device; }
void set_current(int device) { current_device = device; }
int current_physical() { return is_visible(current_device) ? physical(current_device) : -1; }

bool has_context(int device) { return made[device]; }
cudaError_t require_context(int device) {
  if (device < 0) return fail(cudaErrorNoDevice);
  if (made[device].load(std::memory_order_acquire)) return cudaSuccess;
  static std::mutex making;
  const std::lock_guard<std::mutex> alone(making);
  if (made[device]) return cudaSuccess;
  if (!board().take(device, config().context, true)) return fail(cudaErrorMemoryAllocation);
  made[device].store(true, std::memory_order_release);
  return cudaSuccess;
}

CUcontext context_of(int device) { return reinterpret_cast<CUcontext>(&contexts[device]); }
int device_of(CUcontext context) {
  const auto index = reinterpret_cast<char*>(context) - contexts;
  return context && index >= 0 && index < kDevices ? static_cast<int>(index) : -1;
}

CUuuid uuid_of(int device) {
  CUuuid uuid;
  char text[17];
  std::snprintf(text, sizeof text, "hollow-gpu-%05d", device);
  std::memcpy(uuid.bytes, text, 16);
  return uuid;
}
std::string uuid_text(int device) {
  const CUuuid uuid = uuid_of(device);
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    text += two;
    if (i == 3 || i == 5 || i == 7 || i == 9) text += '-';
  }
  return text;
}
std::string pci_text(int device) {
  char text[16];
  std::snprintf(text, sizeof text, "0000:%02x:00.0", device + 1);
  return text;
}

}  // namespace hollow
