// Recurrent networks: whole LSTM layers through the CPU's fused kernel; cells of the other kinds from their formulas.
#include <ATen/Context.h>
#include <ATen/NativeFunctions.h>
#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mkldnn_rnn_layer.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

namespace neaptide::soft {

namespace {

using at::Tensor;
using std::optional;

// The number of LSTM in oneDNN's list of recurrent kinds, which mkldnn_rnn_layer takes.
constexpr std::int64_t kLstm = 2;

/// Whether the CPU would run this LSTM through its fused kernel, in types where that is certain.
bool fusable(const Tensor& input, at::TensorList hidden, at::TensorList weights) {
  if (!at::globalContext().userEnabledMkldnn() || input.numel() == 0 || hidden.size() != 2) return false;
  if (hidden[0].sizes() != hidden[1].sizes()) return false;  // projected
  if (input.scalar_type() != at::kFloat) return false;
  for (const auto& weight : weights) {
    if (weight.scalar_type() != at::kFloat) return false;
  }
  return true;
}

std::tuple<Tensor, Tensor, Tensor> lstm(const Tensor& input, at::TensorList hidden, at::TensorList weights, bool biases,
                                        std::int64_t layers, double dropout, bool train, bool bidirectional,
                                        bool batch_first) {
  if (!fusable(input, hidden, weights)) {
    return at::native::lstm(input, hidden, weights, biases, layers, dropout, train, bidirectional, batch_first);
  }
  const std::int64_t directions = bidirectional ? 2 : 1;
  const std::size_t per_cell = biases ? 4 : 2;
  const auto hidden_size = hidden[0].size(2);
  auto sequence = (batch_first ? input.transpose(0, 1) : input).contiguous();
  const auto first_hidden = hidden[0].contiguous();
  const auto first_cell = hidden[1].contiguous();
  std::vector<Tensor> last_hidden;
  std::vector<Tensor> last_cell;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    std::vector<Tensor> outputs;
    for (std::int64_t direction = 0; direction < directions; ++direction) {
      const auto cell = layer * directions + direction;
      const auto of_cell = weights.slice(cell * per_cell, per_cell);
      const auto no_bias = biases ? Tensor() : at::zeros({of_cell[0].size(0)}, of_cell[0].options());
      auto [output, hy, cy, workspace] = at::mkldnn_rnn_layer(
          sequence, of_cell[0], of_cell[1], biases ? of_cell[2] : no_bias, biases ? of_cell[3] : no_bias,
          first_hidden[cell], first_cell[cell], direction > 0, /*batch_sizes=*/{}, kLstm, hidden_size, layers, biases,
          bidirectional, batch_first, train);
      outputs.push_back(output);
      last_hidden.push_back(hy);
      last_cell.push_back(cy);
    }
    sequence = directions == 1 ? outputs[0] : at::cat(outputs, -1);
    if (dropout != 0 && train && layer + 1 < layers) sequence = at::dropout(sequence, dropout, /*train=*/true);
  }
  if (batch_first) sequence = sequence.transpose(0, 1);
  return {sequence, at::stack(last_hidden, 0), at::stack(last_cell, 0)};
}

Tensor with_bias(const Tensor& gates, const optional<Tensor>& bias) {
  return bias && bias->defined() ? at::add(gates, *bias) : gates;
}

/// torch takes the fused-cell way on this device; the CPU has no such kernel, so this is the formula, differentiably.
std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cell,
                                             const optional<Tensor>& input_bias, const optional<Tensor>& hidden_bias) {
  const auto gates = at::add(with_bias(input_gates, input_bias), with_bias(hidden_gates, hidden_bias)).chunk(4, 1);
  auto new_cell = gates[1].sigmoid().mul(cell).add(gates[0].sigmoid().mul(gates[2].tanh()));
  auto new_hidden = gates[3].sigmoid().mul(new_cell.tanh());
  return {new_hidden, new_cell, at::empty({0}, input_gates.options())};
}

std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hidden,
                                    const optional<Tensor>& input_bias, const optional<Tensor>& hidden_bias) {
  const auto from_input = with_bias(input_gates, input_bias).chunk(3, 1);
  const auto from_hidden = with_bias(hidden_gates, hidden_bias).chunk(3, 1);
  const auto reset = from_hidden[0].add(from_input[0]).sigmoid();
  const auto update = from_hidden[1].add(from_input[1]).sigmoid();
  const auto candidate = from_input[2].add(from_hidden[2].mul(reset)).tanh();
  return {hidden.sub(candidate).mul(update).add(candidate), at::empty({0}, input_gates.options())};
}

}  // namespace
}  // namespace neaptide::soft

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("lstm.input", neaptide::soft::lstm);
  library.impl("_thnn_fused_lstm_cell", neaptide::soft::lstm_cell);
  library.impl("_thnn_fused_gru_cell", neaptide::soft::gru_cell);
}

// Above the derivative formulas of torch's own fused cells, which need a workspace that these do not make.
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, library) {
  library.impl("lstm.input", neaptide::soft::lstm);
  library.impl("_thnn_fused_lstm_cell", neaptide::soft::lstm_cell);
  library.impl("_thnn_fused_gru_cell", neaptide::soft::gru_cell);
}
