#include "op_kinds.h"

#include <functional>
#include <mutex>
#include <string_view>
#include <unordered_set>

namespace neaptide::cuda {
namespace {

using Kinds = std::unordered_set<std::uint64_t>;

bool new_in_process(std::uint64_t kind) {
  static std::mutex mutex;
  static auto& kinds = *new Kinds;  // threads may launch until the process ends
  const std::lock_guard lock(mutex);
  return kinds.insert(kind).second;
}

}  // namespace

bool first_of_its_kind(const char* name, std::uint64_t arguments) {
  thread_local Kinds names, kinds;
  const std::uint64_t name_hash = std::hash<std::string_view>{}(name);
  const std::uint64_t kind = (name_hash ^ arguments) * 0x9e3779b97f4a7c15;
  if (!kinds.insert(kind).second) return false;  // most ops end here, without the lock
  const bool new_name = names.insert(name_hash).second;
  return new_in_process(kind) || new_name;
}

}  // namespace neaptide::cuda
