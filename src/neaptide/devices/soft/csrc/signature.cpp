#include "signature.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "alias.h"
#include "allocator.h"

namespace neaptide::soft {

namespace {

// A program whose shapes never repeat must not fill the memory: forget everything and learn again.
constexpr std::size_t kMostSignatures = 1 << 16;

struct Hash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};

struct Cache {
  std::mutex mutex;  // a leaf
  std::unordered_map<std::string, std::shared_ptr<Signature>, Hash, std::equal_to<>> map;
};

Cache& cache() {
  static auto* cache = new Cache;
  return *cache;
}

std::string& buffer() {
  static thread_local std::string text;
  return text;
}

}  // namespace

Layout Layout::of(const at::Tensor& tensor) {
  Layout layout;
  layout.defined = tensor.defined();
  if (!layout.defined) return layout;
  layout.type = tensor.scalar_type();
  layout.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  if (tensor.is_non_overlapping_and_dense()) {
    layout.strides.assign(tensor.strides().begin(), tensor.strides().end());
  } else {
    layout.strides.resize(layout.sizes.size());
    std::int64_t stride = 1;
    for (auto i = layout.sizes.size(); i-- > 0;) {
      layout.strides[i] = stride;
      stride *= std::max<std::int64_t>(layout.sizes[i], 1);
    }
  }
  return layout;
}

bool Layout::operator==(const Layout& other) const {
  if (defined != other.defined) return false;
  if (!defined) return true;
  if (type != other.type || sizes != other.sizes) return false;
  std::int64_t elements = 1;
  for (auto size : sizes) elements *= size;
  if (elements == 0) return true;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] > 1 && strides[i] != other.strides[i]) return false;
  }
  return true;
}

at::Tensor Layout::make() const {
  if (!defined) return {};
  return at::detail::empty_strided_generic(sizes, strides, soft_allocator(),
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), type);
}

SignatureKey::SignatureKey(const Operator& op, at::ArrayRef<c10::IValue> arguments) : buffer_(buffer()) {
  buffer_.clear();
  put(&op);
  if (op.grad_matters) put(c10::GradMode::is_enabled());
  for (std::size_t i = 0; i < arguments.size(); ++i) value(arguments[i], op.number_matters[i]);
}

void SignatureKey::tensor(const at::Tensor& tensor) {
  if (!tensor.defined()) return put('u');
  const auto* impl = tensor.unsafeGetTensorImpl();
  const auto dimensions = static_cast<std::int8_t>(tensor.dim());
  const auto flags = static_cast<std::int8_t>(is_soft(tensor) | (impl->is_wrapped_number() << 1) |
                                              (tensor.is_conj() << 2) | (tensor.is_neg() << 3));
  put('T');
  put(static_cast<std::int8_t>(tensor.scalar_type()));
  put(flags);
  put(dimensions);
  raw(tensor.sizes().data(), dimensions * sizeof(std::int64_t));
  raw(tensor.strides().data(), dimensions * sizeof(std::int64_t));
}

void SignatureKey::value(const c10::IValue& value, bool number_matters) {
  if (value.isTensor()) {
    tensor(value.toTensor());
  } else if (value.isNone()) {
    put('n');
  } else if (value.isInt()) {
    put('i');
    if (number_matters) put(value.toInt());
  } else if (value.isBool()) {
    put('b');
    if (number_matters) put(value.toBool());
  } else if (value.isDouble()) {
    put('d');
    if (number_matters) put(value.toDouble());
  } else if (value.isTensorList()) {
    const auto list = value.toTensorList();
    put('L');
    put(list.size());
    for (std::size_t i = 0; i < list.size(); ++i) tensor(list.get(i));
  } else if (value.isIntList()) {
    const auto list = value.toIntVector();
    put('I');
    put(list.size());
    raw(list.data(), list.size() * sizeof(std::int64_t));
  } else if (value.isString()) {
    put('s');
    put(value.toStringRef().size());
    buffer_ += value.toStringRef();
  } else if (value.isOptionalTensorList()) {
    put('O');
    put(value.toOptionalTensorList().size());
    for (const std::optional<at::Tensor>& item : value.toOptionalTensorList()) tensor(item.value_or(at::Tensor()));
  } else if (value.isList()) {
    const auto list = value.toListRef();
    put('G');
    put(list.size());
    for (const auto& item : list) this->value(item, number_matters);
  } else if (value.isGenerator()) {
    put('g');
  } else if (value.isDevice()) {
    put('v');
  } else if (value.isComplexDouble()) {
    put('c');
    if (number_matters) put(value.toComplexDouble());
  } else {
    usable_ = false;
  }
}

std::shared_ptr<Signature> find_signature(const SignatureKey& key) {
  auto& all = cache();
  std::lock_guard lock(all.mutex);
  const auto found = all.map.find(key.bytes());
  return found == all.map.end() ? nullptr : found->second;
}

std::shared_ptr<Signature> keep_signature(std::string key, std::unique_ptr<Signature> signature) {
  auto& all = cache();
  std::lock_guard lock(all.mutex);
  if (all.map.size() >= kMostSignatures) all.map.clear();
  signature->hash = Hash{}(key);
  return all.map.try_emplace(std::move(key), std::move(signature)).first->second;
}

}  // namespace neaptide::soft
