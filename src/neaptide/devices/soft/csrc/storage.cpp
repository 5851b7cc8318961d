// Operators that make, resize and re-view tensors: metadata and allocation, no kernels.
#include <ATen/EmptyTensor.h>
#include <ATen/NativeFunctions.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>

#include "alias.h"
#include "allocator.h"
#include "runtime.h"

namespace neaptide::soft {

namespace {

using at::Tensor;
using std::optional;

const c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

Tensor empty(c10::IntArrayRef sizes, optional<at::ScalarType> type, optional<at::Layout> layout,
             optional<at::Device> device, optional<bool> pinned, optional<at::MemoryFormat> format) {
  if (device) check_ordinal(*device);
  TORCH_CHECK(!pinned.value_or(false), "Only dense CPU tensors can be pinned");
  TORCH_CHECK_NOT_IMPLEMENTED(c10::layout_or_default(layout) == c10::kStrided, "soft: only strided tensors");
  return at::detail::empty_generic(sizes, soft_allocator(), kKeys, c10::dtype_or_default(type), format);
}

Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, optional<at::ScalarType> type,
                     optional<at::Layout> /*layout*/, optional<at::Device> device, optional<bool> pinned) {
  if (device) check_ordinal(*device);
  TORCH_CHECK(!pinned.value_or(false), "Only dense CPU tensors can be pinned");
  return at::detail::empty_strided_generic(sizes, strides, soft_allocator(), kKeys, c10::dtype_or_default(type));
}

Tensor& set_storage(Tensor& self, at::Storage storage, std::int64_t offset, c10::IntArrayRef sizes,
                    c10::IntArrayRef strides) {
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(storage));
  impl->set_sizes_and_strides(sizes, strides, offset);
  return self;
}

Tensor& set_whole_storage(Tensor& self, at::Storage storage) {
  const auto elements = static_cast<std::int64_t>(storage.nbytes() / self.dtype().itemsize());
  return set_storage(self, std::move(storage), 0, {elements}, {1});
}

Tensor& set_to_tensor(Tensor& self, const Tensor& source) {
  return set_storage(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

Tensor& set_empty(Tensor& self) {
  c10::Storage storage(c10::Storage::use_byte_size_t(), 0, soft_allocator(), /*resizable=*/true);
  return set_storage(self, std::move(storage), 0, {0}, {1});
}

void record_stream(Tensor& self, c10::Stream stream) {
  soft_allocator()->recordStream(self.storage().data_ptr(), stream);
}

}  // namespace
}  // namespace neaptide::soft

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  using namespace neaptide::soft;
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("resize_", at::native::resize_);
  library.impl("as_strided", at::native::as_strided_tensorimpl);
  library.impl("view", at::native::view);
  library.impl("view_as_real", at::native::view_as_real);
  library.impl("view_as_complex", at::native::view_as_complex);
  library.impl("_reshape_alias", at::native::_reshape_alias);
  library.impl("unfold", at::native::unfold);
  library.impl("is_set_to", at::native::is_set_to);
  library.impl("set_.source_Storage_storage_offset", set_storage);
  library.impl("set_.source_Storage", set_whole_storage);
  library.impl("set_.source_Tensor", set_to_tensor);
  library.impl("set_", set_empty);
  library.impl("record_stream", record_stream);
}
