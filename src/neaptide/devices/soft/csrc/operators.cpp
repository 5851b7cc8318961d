#include "operators.h"

#include <ATen/core/enum_tag.h>

#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>

namespace neaptide::soft {

namespace {

using std::string_view;

bool contains(const std::string& text, string_view part) { return text.find(part) != std::string::npos; }

bool begins_with_any(const std::string& text, std::initializer_list<string_view> parts) {
  for (auto part : parts) {
    if (text.rfind(part, 0) == 0) return true;
  }
  return false;
}

Work work_of(const std::string& name) {
  if (contains(name, "convolution") || contains(name, "conv2d") || contains(name, "conv3d")) return Work::convolution;
  if (contains(name, "attention")) return Work::attention;
  if (contains(name, "rnn_layer")) return Work::recurrent;
  if (begins_with_any(name, {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::linear",
                             "aten::mkldnn_linear", "aten::addbmm", "aten::matmul"})) {
    return Work::matrix;
  }
  return Work::elements;
}

/// Metas that agree with the kernel for some signatures and not for others: batch norm's saved statistics in
/// evaluation, the types of the other norms' statistics in half precision, and the embedding bag's helpers.
bool meta_known_wrong(const std::string& name) {
  return contains(name, "_norm") || contains(name, "embedding_bag") || contains(name, "rnn_layer");
}

std::unique_ptr<Operator> analyse(const c10::OperatorHandle& handle) {
  auto result = std::make_unique<Operator>();
  const auto& schema = handle.schema();
  result->name = c10::toString(schema.operator_name());
  result->arguments = schema.arguments().size();
  result->returns = schema.returns().size();
  result->synchronous = handle.hasTag(at::Tag::dynamic_output_shape) || handle.hasTag(at::Tag::data_dependent_output);
  for (std::size_t i = 0; i < result->arguments; ++i) {
    const auto& argument = schema.arguments()[i];
    const auto type = argument.type()->str();
    result->out_argument.push_back(argument.is_out());
    result->has_out |= argument.is_out();
    if (contains(type, "Generator")) result->generator = static_cast<int>(i);
    if (contains(type, "Tensor") && !argument.is_out()) result->has_tensor = true;
    result->number_matters.push_back(!contains(type, "Scalar") && !contains(type, "number") &&
                                     !contains(type, "float"));
  }
  // A factory's extent can hang on a Scalar: arange.
  if (!result->has_tensor) result->number_matters.assign(result->arguments, true);
  for (const auto& value : schema.returns()) {
    int argument = -1;
    if (const auto* alias = value.alias_info()) {
      if (!alias->isWrite()) result->view = true;
      for (std::size_t i = 0; i < result->arguments; ++i) {
        const auto* other = schema.arguments()[i].alias_info();
        if (other != nullptr && *other == *alias) argument = static_cast<int>(i);
      }
    }
    result->return_argument.push_back(argument);
    if (!contains(value.type()->str(), "Tensor")) result->synchronous = true;
  }
  const auto& name = result->name;
  result->takes_host_tensors = begins_with_any(
      name, {"aten::index", "aten::_index_put_impl_", "aten::_unsafe_index", "aten::_pack_padded", "aten::_pad_packed",
             "aten::_ctc_loss", "aten::mkldnn_rnn", "aten::_foreach_copy_", "aten::_foreach_add", "aten::_amp"});
  result->work = work_of(name);
  result->grad_matters = contains(name, "rnn_layer");
  if (meta_known_wrong(name)) result->meta = Operator::Meta::wrong;
  return result;
}

}  // namespace

const Operator& describe(const c10::OperatorHandle& handle) {
  static thread_local std::unordered_map<const void*, const Operator*> mine;
  const void* key = &handle.schema();
  if (const auto found = mine.find(key); found != mine.end()) return *found->second;
  static auto* mutex = new std::mutex;  // a leaf
  static auto* all = new std::unordered_map<const void*, std::unique_ptr<Operator>>;
  std::lock_guard lock(*mutex);
  auto& slot = (*all)[key];
  if (!slot) slot = analyse(handle);
  mine[key] = slot.get();
  return *slot;
}

}  // namespace neaptide::soft
