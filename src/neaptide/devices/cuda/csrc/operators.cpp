#include "operators.h"

#include <ATen/core/function_schema.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace neaptide::cuda {
namespace {

/// Whether all that the operator returns is an argument under another shape. An operator that may copy instead is made
/// of others, of which torch tells, too.
bool returns_views(const c10::FunctionSchema& schema) {
  const auto& returns = schema.returns();
  return !returns.empty() && std::all_of(returns.begin(), returns.end(), [](const c10::Argument& each) {
    return each.alias_info() != nullptr && !each.alias_info()->isWrite();
  });
}

}  // namespace

Operator& Operators::add(const at::RecordFunction& op, const char* name) {
  constexpr std::string_view kAutograd = "autograd::engine::";
  if (std::string_view(name).substr(0, kAutograd.size()) == kAutograd) return nothing_;
  const auto schema = op.operator_schema();
  if (!schema) return function(name);
  const std::lock_guard lock(mutex_);
  for (std::size_t tried = 0; tried < kPlaces; ++tried) {
    Operator& place = at(name, tried);
    const char* const there = place.name_.load();
    if (there == name) return place;  // another thread was faster
    if (there != nullptr) continue;
    place.is_view_.store(std::string(name).rfind("aten::", 0) == 0 && returns_views(*schema));
    place.name_.store(name, std::memory_order_release);
    return place;
  }
  return unknown_;
}

Operator& Operators::function(const std::string& name) {
  if (name == "detach") return nothing_;
  const std::lock_guard lock(mutex_);
  return functions_[name];
}

}  // namespace neaptide::cuda
