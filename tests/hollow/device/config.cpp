#include "config.h"

#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace hollow {
namespace {

std::string text(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value && *value ? value : otherwise;
}
double number(const char* name, double otherwise) {
  const std::string value = text(name, "");
  return value.empty() ? otherwise : std::atof(value.c_str());
}
std::size_t bytes(const char* name, std::size_t otherwise) {
  const std::string value = text(name, "");
  if (value.empty()) return otherwise;
  char* unit = nullptr;
  const double count = std::strtod(value.c_str(), &unit);
  const std::size_t scale = *unit == 'G' ? std::size_t{1} << 30 : *unit == 'M' ? 1 << 20 : *unit == 'K' ? 1 << 10 : 1;
  return static_cast<std::size_t>(count * static_cast<double>(scale));
}

// Averages that kvcached measured on an A100 with pages of 2 MiB, in microseconds.
constexpr const char* kMeasured = "cuMemCreate=193,cuMemMap=1.5,cuMemSetAccess=36,cuMemUnmap=26";

Costs costs(const std::string& table) {
  Costs result;
  std::istringstream in(table);
  for (std::string entry; std::getline(in, entry, ',');) {
    const std::size_t equals = entry.find('=');
    if (equals == std::string::npos) continue;  // "0": no costs at all
    result[entry.substr(0, equals)] = static_cast<Nanos>(std::atof(entry.c_str() + equals + 1) * 1e3);
  }
  return result;
}

Config read() {
  Config c;
  c.board = text("HOLLOW_BOARD", "/dev/shm/hollow-" + std::to_string(getuid()));
  c.devices = static_cast<int>(number("HOLLOW_DEVICES", 1));
  c.capacity = bytes("HOLLOW_MEMORY", std::size_t{16} << 30);
  c.context = bytes("HOLLOW_CONTEXT", std::size_t{256} << 20);
  c.library = bytes("HOLLOW_LIBRARY", std::size_t{8} << 20);
  c.granularity = bytes("HOLLOW_GRANULARITY", std::size_t{2} << 20);
  c.kernel = static_cast<Nanos>(number("HOLLOW_KERNEL_US", 0) * 1e3);
  c.flops_per_nano = number("HOLLOW_TFLOPS", 0) * 1e3;
  c.bytes_per_nano = number("HOLLOW_GBPS", 0);
  c.depth = static_cast<std::uint64_t>(number("HOLLOW_DEPTH", 1024));
  c.costs = costs(text("HOLLOW_COSTS", kMeasured));
  c.teardown = static_cast<Nanos>(number("HOLLOW_TEARDOWN_MS", 0) * 1e6);
  c.driver_version = static_cast<int>(number("HOLLOW_DRIVER", 13000));
  c.nvml_is_silent = text("HOLLOW_NVML", "") == "silent";
  c.holders_are_charged = text("HOLLOW_CHARGE", "") == "holders";
  return c;
}

}  // namespace

const Config& config() {
  static const Config* instance = new Config(read());  // never destroyed: torch calls us from static destructors
  return *instance;
}

Nanos now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * Nanos{1000000000} + t.tv_nsec;
}

void sleep_until(Nanos when) {
  if (when <= now()) return;
  const timespec t{when / 1000000000, when % 1000000000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, nullptr) == EINTR) {
  }
}

}  // namespace hollow
