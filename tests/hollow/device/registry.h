// Handles: addresses of objects that live until they are destroyed and nobody uses them any more.
#pragma once

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

namespace hollow {

template <class Object>
class Registry {
 public:
  Object* add(std::shared_ptr<Object> object) {
    Object* handle = object.get();
    const std::unique_lock<std::shared_mutex> lock(mutex_);
    objects_[handle] = std::move(object);
    return handle;
  }
  /// Nothing if the handle is not, or no longer, one of ours.
  std::shared_ptr<Object> find(const void* handle) const {
    const std::shared_lock<std::shared_mutex> lock(mutex_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }
  std::shared_ptr<Object> remove(const void* handle) {
    const std::unique_lock<std::shared_mutex> lock(mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return nullptr;
    std::shared_ptr<Object> object = std::move(found->second);
    objects_.erase(found);
    return object;
  }
  std::vector<std::shared_ptr<Object>> all() const {
    const std::shared_lock<std::shared_mutex> lock(mutex_);
    std::vector<std::shared_ptr<Object>> result;
    for (const auto& [handle, object] : objects_) result.push_back(object);
    return result;
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<const void*, std::shared_ptr<Object>> objects_;
};

/// The one registry of a kind. Never destroyed: torch calls us from static destructors.
template <class Object>
Registry<Object>& registry() {
  static auto* instance = new Registry<Object>;
  return *instance;
}

}  // namespace hollow
