// What is known of torch's operators: which are views, and which were seen on the device more often than not.
//
// Thread-safe, and without a lock for operators that were seen before. An operator is known by the address of its name,
// which is its own as long as it lives; only operators of torch itself, which live as long as the process, are taken to
// be views. Torch tells of functions that are no operators, too: those by which autograd runs and detaches launch
// nothing themselves, and others, such as a program's own functions with a gradient, are known by their names.
#pragma once

#include <ATen/record_function.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <string>
#include <unordered_map>

namespace neaptide::cuda {

class Operator {
 public:
  /// It gives its argument under another shape, or asks something of it: it launches nothing itself. Ops that it is
  /// made of may.
  bool is_view() const { return is_view_.load(std::memory_order_relaxed); }
  /// Whether its ops are counted as launches while their arguments are not shown.
  bool may_launch() const { return balance_.load(std::memory_order_relaxed) >= 0; }
  /// An op of it was seen with its arguments. A thread may miss what another one has seen.
  void saw(bool on_device) {
    const int balance = balance_.load(std::memory_order_relaxed);
    balance_.store(std::clamp(balance + (on_device ? 1 : -1), -kMost, kMost), std::memory_order_relaxed);
  }

 private:
  friend class Operators;
  std::atomic<const char*> name_{nullptr};
  std::atomic<bool> is_view_{false};
  static constexpr int kMost = 1000;
  std::atomic<int> balance_{0};  // of ops on the device and elsewhere
};

class Operators {
 public:
  Operators() { nothing_.is_view_.store(true); }
  /// The operator of an op that torch has told of.
  Operator& of(const at::RecordFunction& op) {
    const char* const name = op.name();
    Operator* found = &at(name, 0);
    for (std::size_t tried = 1; found->name_.load(std::memory_order_acquire) != name; ++tried) {
      if (found->name_.load(std::memory_order_acquire) == nullptr) return add(op, name);
      if (tried == kPlaces) return unknown_;
      found = &at(name, tried);
    }
    return *found;
  }

 private:
  static constexpr std::size_t kPlaces = 1 << 13;  // torch has some 3,500 operators
  Operator& at(const char* name, std::size_t tried) {
    return places_[((reinterpret_cast<std::uintptr_t>(name) >> 4) * 0x9e3779b97f4a7c15 >> 51) + tried & (kPlaces - 1)];
  }
  Operator& add(const at::RecordFunction& op, const char* name);
  Operator& function(const std::string& name);

  std::array<Operator, kPlaces> places_;
  Operator unknown_;  // for those beyond
  Operator nothing_;
  std::mutex mutex_;  // a leaf; taken to change the places, and guards what follows
  std::unordered_map<std::string, Operator> functions_;
};

}  // namespace neaptide::cuda
