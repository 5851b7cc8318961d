// What the schema of an operator says about launching it. Computed once per operator.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace neaptide::soft {

/// How the work of an operator grows with its arguments; decides the width of its kernels.
enum class Work : std::uint8_t { elements, matrix, convolution, attention, recurrent };

struct Operator {
  std::string name;  // with its overload
  std::size_t arguments = 0;
  std::size_t returns = 0;
  /// Per return: the argument it is (in-place and out variants), or -1 for a new tensor.
  std::vector<int> return_argument;
  std::vector<bool> out_argument;
  /// Whether an argument's number is part of the signature: it is, unless it cannot change shapes (Scalar, float).
  std::vector<bool> number_matters;
  int generator = -1;
  bool has_out = false;
  bool has_tensor = false;          // takes a tensor besides out arguments
  bool synchronous = false;         // shapes or a number depend on data
  bool view = false;                // returns an alias of an argument: not a kernel
  bool takes_host_tensors = false;  // of any size, next to device tensors
  bool grad_matters = false;        // the CPU's kernel asks whether gradients are enabled
  Work work = Work::elements;
  /// Whether the Meta kernel's word on shapes was compared with the real kernel's, and how that ended.
  enum class Meta : std::uint8_t { unproven, trusted, wrong };
  mutable std::atomic<Meta> meta{Meta::unproven};
};

/// The facts about an operator; they live as long as the process.
const Operator& describe(const c10::OperatorHandle& handle);

}  // namespace neaptide::soft
