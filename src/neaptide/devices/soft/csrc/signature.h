// A kernel's signature: operator, types, sizes, strides and whole numbers. What was learnt about one launch holds for
// every launch with the same signature.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "operators.h"

namespace neaptide::soft {

/// The type and geometry of one tensor.
struct Layout {
  bool defined = false;
  at::ScalarType type = at::ScalarType::Undefined;
  c10::SmallVector<std::int64_t, 5> sizes;
  c10::SmallVector<std::int64_t, 5> strides;

  static Layout of(const at::Tensor& tensor);
  bool operator==(const Layout& other) const;
  /// A device tensor like this, with memory and no contents.
  at::Tensor make() const;
};

/// One new return: a tensor, or a list of them.
struct NewReturn {
  bool list = false;
  std::vector<Layout> layouts;
  bool operator==(const NewReturn&) const = default;
};

struct Signature {
  std::uint64_t hash = 0;
  std::vector<NewReturn> returns;
  std::uint32_t width = 1;
  /// Host bytes the kernel took beyond its results, as measured; 0 before it has run.
  std::atomic<std::size_t> scratch_bytes{0};

  /// How long the kernel takes, as measured; 0 before it has run. An estimate that is too low delays a deadline job,
  /// so it rises faster than it falls.
  std::uint64_t expected_ns() const { return expected_ns_.load(std::memory_order_relaxed); }
  void took(std::uint64_t ns) {
    const std::uint64_t before = expected_ns();
    expected_ns_.store(ns >= before ? (before == 0 ? ns : before + (ns - before) / 2) : before - (before - ns) / 8,
                       std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint64_t> expected_ns_{0};
};

/// The bytes that tell signatures apart. Reuses one buffer per thread: one lives at a time.
class SignatureKey {
 public:
  SignatureKey(const Operator& op, at::ArrayRef<c10::IValue> arguments);
  /// False when an argument is of a kind that cannot be compared.
  bool usable() const { return usable_; }
  std::string_view bytes() const { return buffer_; }

 private:
  void raw(const void* data, std::size_t bytes) { buffer_.append(static_cast<const char*>(data), bytes); }
  template <typename T>
  void put(T value) {
    raw(&value, sizeof value);
  }
  void tensor(const at::Tensor& tensor);
  void value(const c10::IValue& value, bool number_matters);

  std::string& buffer_;
  bool usable_ = true;
};

/// Null when the signature has not been seen.
std::shared_ptr<Signature> find_signature(const SignatureKey& key);
/// Keeps a signature under its key's bytes; an equal one that is there already wins and is returned.
std::shared_ptr<Signature> keep_signature(std::string key, std::unique_ptr<Signature> signature);

/// Meta kernels are Python code, and the first call of one imports torch's compiler, which takes a second. So they are
/// asked once the program has imported it, as one that makes an optimizer has.
void set_meta_is_cheap(bool (*is_cheap)());
bool meta_is_cheap();

/// What the Meta kernel says.
struct Inference {
  std::unique_ptr<Signature> signature;  // null when there is no Meta kernel or it failed
  /// Out arguments that must be given another size first, by index.
  std::vector<std::pair<std::size_t, std::vector<std::int64_t>>> resizes;
};
/// Asks the Meta kernel what the new returns will look like. Throws nothing, changes nothing.
Inference infer(const c10::OperatorHandle& handle, const Operator& op, at::ArrayRef<c10::IValue> arguments);
/// What the real results look like.
std::unique_ptr<Signature> observe(const Operator& op, at::ArrayRef<c10::IValue> results);

/// The width of a kernel: by the work its arguments mean, never by load.
std::uint32_t width_of(const Operator& op, at::ArrayRef<c10::IValue> arguments, std::uint32_t most);

}  // namespace neaptide::soft
