// Recurrent networks by the steps in which torch computes them on the CPU, so that the numbers are the CPU's, bit by
// bit.
//
// For accelerators torch takes other steps: fused cells, and products of one time step where the CPU multiplies the
// whole sequence. Every function here is made of differentiable operators, as torch's own are.
#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <vector>

namespace neaptide::soft {

namespace {

using at::Tensor;
using at::TensorList;
using std::optional;
using Tensors = std::vector<Tensor>;

/// The input of one step, or what the weights make of it if the whole sequence was multiplied at once.
struct StepInput {
  Tensor tensor;
  bool multiplied;
};

/// Of one cell, in one direction of one layer. Biases and projection may be undefined.
struct Weights {
  Tensor input, hidden, input_bias, hidden_bias, projection;

  Tensor of_input(const Tensor& sequence) const { return at::linear(sequence, input, input_bias); }
  Tensor of_input(const StepInput& step) const { return step.multiplied ? step.tensor : of_input(step.tensor); }
  Tensor of_hidden(const Tensor& state) const { return at::linear(state, hidden, hidden_bias); }
};

/// What a cell hands from step to step: its hidden state; for an LSTM, the cell state too.
struct State {
  Tensor hidden, cell;

  State rows(std::int64_t from, std::int64_t to) const {
    return {hidden.narrow(0, from, to - from), cell.defined() ? cell.narrow(0, from, to - from) : cell};
  }
};

State joined(const std::vector<State>& parts) {
  Tensors hidden, cell;
  for (const auto& part : parts) {
    hidden.push_back(part.hidden);
    if (part.cell.defined()) cell.push_back(part.cell);
  }
  return {at::cat(hidden, 0), cell.empty() ? Tensor() : at::cat(cell, 0)};
}

/// One time step. The products come in the order in which the CPU makes them: gradients are summed in the opposite one.
using Cell = State (*)(const StepInput& input, const State& before, const Weights& weights);

State tanh_step(const StepInput& input, const State& before, const Weights& weights) {
  return {at::tanh(weights.of_hidden(before.hidden).add_(weights.of_input(input))), {}};
}

State relu_step(const StepInput& input, const State& before, const Weights& weights) {
  return {at::relu(weights.of_hidden(before.hidden).add_(weights.of_input(input))), {}};
}

State gru_step(const StepInput& input, const State& before, const Weights& weights) {
  const auto from_input = weights.of_input(input).unsafe_chunk(3, 1);
  const auto from_hidden = weights.of_hidden(before.hidden).unsafe_chunk(3, 1);
  const auto reset = from_hidden[0].add_(from_input[0]).sigmoid_();
  const auto update = from_hidden[1].add_(from_input[1]).sigmoid_();
  const auto candidate = from_input[2].add(from_hidden[2].mul_(reset)).tanh_();
  return {before.hidden.sub(candidate).mul_(update).add_(candidate), {}};
}

State lstm_step(const StepInput& input, const State& before, const Weights& weights) {
  const auto four = weights.of_hidden(before.hidden).add_(weights.of_input(input)).unsafe_chunk(4, 1);
  const auto in = four[0].sigmoid_();
  const auto forget = four[1].sigmoid_();
  const auto candidate = four[2].tanh_();
  const auto out = four[3].sigmoid_();
  const auto cell = forget.mul(before.cell).add_(in.mul(candidate));
  auto hidden = out.mul(cell.tanh());
  if (weights.projection.defined()) hidden = at::matmul(hidden, weights.projection.t());
  return {hidden, cell};
}

/// A sequence through one cell: the outputs of all steps, and the last state.
struct Passed {
  Tensor outputs;
  State last;
};

/// Sequences of one length: [steps, batch, features].
Passed pass_whole(Cell cell, const Tensor& input, State state, const Weights& weights, bool backwards) {
  auto steps = weights.of_input(input).unbind(0);
  TORCH_CHECK(!steps.empty(), "Expected sequence length to be larger than 0 in RNN");
  if (backwards) std::reverse(steps.begin(), steps.end());
  Tensors outputs;
  for (const auto& gates : steps) {
    state = cell({gates, true}, state, weights);
    outputs.push_back(state.hidden);
  }
  if (backwards) std::reverse(outputs.begin(), outputs.end());
  return {at::stack(outputs, 0), state};
}

/// Packed sequences: the rows of all steps one after the other, `sizes` of them in each, never more than before.
Passed pass_packed(Cell cell, const Tensor& rows, at::ArrayRef<std::int64_t> sizes, const State& first,
                   const Weights& weights, bool backwards) {
  const auto gates = weights.of_input(rows);
  const auto steps = static_cast<std::int64_t>(sizes.size());
  std::int64_t at = backwards ? rows.size(0) : 0;
  std::int64_t before = backwards ? sizes[steps - 1] : sizes[0];
  State state = backwards ? first.rows(0, before) : first;
  std::vector<State> ended;  // sequences that are shorter than the longest, the shortest first
  Tensors outputs;
  for (std::int64_t count = 0; count < steps; ++count) {
    const auto size = sizes[backwards ? steps - 1 - count : count];
    if (size < before) {
      ended.push_back(state.rows(size, before));
      state = state.rows(0, size);
    } else if (size > before) {
      state = joined({state, first.rows(before, size)});
    }
    before = size;
    if (backwards) at -= size;
    state = cell({gates.narrow(0, at, size), true}, state, weights);
    if (!backwards) at += size;
    outputs.push_back(state.hidden);
  }
  if (backwards) {
    std::reverse(outputs.begin(), outputs.end());
    return {at::cat(outputs, 0), state};
  }
  ended.push_back(state);
  std::reverse(ended.begin(), ended.end());
  return {at::cat(outputs, 0), joined(ended)};
}

struct Shape {
  std::int64_t layers;
  std::int64_t directions;
  double dropout;  // between layers; 0 outside training
};

/// Sends a sequence through all layers. `pass` runs one direction of a layer: (input, index of the cell, backwards).
template <typename Pass>
Tensor through_layers(Tensor sequence, const Shape& shape, Pass pass) {
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    Tensors outputs;
    for (std::int64_t direction = 0; direction < shape.directions; ++direction)
      outputs.push_back(pass(sequence, layer * shape.directions + direction, direction > 0));
    sequence = outputs.size() == 1 ? outputs[0] : at::cat(outputs, outputs[0].dim() - 1);
    if (shape.dropout != 0 && layer + 1 < shape.layers) sequence = at::dropout(sequence, shape.dropout, /*train=*/true);
  }
  return sequence;
}

std::vector<Weights> sorted(TensorList weights, bool biases, bool projected) {
  const std::size_t each = 2 + (biases ? 2 : 0) + (projected ? 1 : 0);
  TORCH_CHECK(weights.size() % each == 0, "got an incorrect number of RNN parameters");
  std::vector<Weights> cells;
  for (std::size_t first = 0; first < weights.size(); first += each) {
    Weights cell{weights[first], weights[first + 1], {}, {}, {}};
    if (biases) cell.input_bias = weights[first + 2], cell.hidden_bias = weights[first + 3];
    if (projected) cell.projection = weights[first + each - 1];
    cells.push_back(std::move(cell));
  }
  return cells;
}

struct Network {
  Cell cell;
  Tensor hidden, cell_state;  // before the first step, of all cells; the latter for an LSTM
  TensorList weights;
  bool biases;
  Shape shape;
};

struct Result {
  Tensor outputs, hidden, cell_state;
};

template <typename PassOne>
Result run(const Network& network, const Tensor& input, PassOne pass_one) {
  const bool lstm = network.cell_state.defined();
  const bool projected = lstm && network.hidden.size(2) != network.cell_state.size(2);
  const auto weights = sorted(network.weights, network.biases, projected);
  const auto cells = static_cast<std::size_t>(network.shape.layers * network.shape.directions);
  TORCH_CHECK(weights.size() == cells, "Expected more weights in stacked_rnn");
  const auto hidden = network.hidden.unbind(0);
  const auto cell_states = lstm ? network.cell_state.unbind(0) : Tensors(hidden.size());
  TORCH_CHECK(hidden.size() == cells && cell_states.size() == cells, "Expected more hidden states in stacked_rnn");
  Tensors last_hidden, last_cell;
  const auto outputs =
      through_layers(input, network.shape, [&](const Tensor& sequence, std::int64_t index, bool backwards) {
        const auto at = static_cast<std::size_t>(index);
        auto passed = pass_one(sequence, State{hidden[at], cell_states[at]}, weights[at], backwards);
        last_hidden.push_back(passed.last.hidden);
        last_cell.push_back(passed.last.cell);
        return passed.outputs;
      });
  return {outputs, at::stack(last_hidden, 0), lstm ? at::stack(last_cell, 0) : Tensor()};
}

Result run_whole(const Network& network, const Tensor& input, bool batch_first) {
  auto result = run(network, batch_first ? input.transpose(0, 1) : input,
                    [&](const Tensor& sequence, const State& first, const Weights& weights, bool backwards) {
                      return pass_whole(network.cell, sequence, first, weights, backwards);
                    });
  if (batch_first) result.outputs = result.outputs.transpose(0, 1);
  return result;
}

Result run_packed(const Network& network, const Tensor& rows, const Tensor& batch_sizes) {
  const at::ArrayRef<std::int64_t> sizes(batch_sizes.const_data_ptr<std::int64_t>(),
                                         static_cast<std::size_t>(batch_sizes.numel()));
  return run(network, rows, [&](const Tensor& sequence, const State& first, const Weights& weights, bool backwards) {
    return pass_packed(network.cell, sequence, sizes, first, weights, backwards);
  });
}

Shape shape_of(std::int64_t layers, double dropout, bool train, bool bidirectional) {
  return {layers, bidirectional ? 2 : 1, train ? dropout : 0};
}

// The number of LSTM in oneDNN's list of recurrent kinds, which mkldnn_rnn_layer takes.
constexpr std::int64_t kLstm = 2;

bool library_has(const char* type) {
  const auto question = c10::Dispatcher::singleton().findSchema({type, ""});
  return question && question->typed<bool()>().call();
}

/// Whether the CPU would run this LSTM through the kernels of oneDNN, one per layer and direction.
bool fusable(const Tensor& input, TensorList hidden) {
  if (!at::globalContext().userEnabledMkldnn() || input.numel() == 0) return false;
  if (hidden[0].size(2) != hidden[1].size(2)) return false;  // projected
  switch (input.scalar_type()) {
    case at::kFloat:
      return true;
    case at::kBFloat16:
      return library_has("mkldnn::_is_mkldnn_bf16_supported");
    case at::kHalf:
      return !at::GradMode::is_enabled() && library_has("mkldnn::_is_mkldnn_fp16_supported");
    default:
      return false;
  }
}

Result run_fused(const Network& network, const Tensor& input, bool batch_first, bool train) {
  const auto hidden_size = network.hidden.size(2);
  const auto weights = sorted(network.weights, network.biases, false);
  const auto hidden = network.hidden.contiguous(), cell_state = network.cell_state.contiguous();
  const bool bidirectional = network.shape.directions == 2;
  Tensors last_hidden, last_cell;
  auto outputs = through_layers(
      (batch_first ? input.transpose(0, 1) : input).contiguous(), network.shape,
      [&](const Tensor& sequence, std::int64_t index, bool backwards) {
        const auto& cell = weights.at(static_cast<std::size_t>(index));
        const auto no_bias = network.biases ? Tensor() : at::zeros(cell.input.sizes(), cell.input.options());
        auto [output, last, last_state, workspace] = at::mkldnn_rnn_layer(
            sequence, cell.input, cell.hidden, network.biases ? cell.input_bias : no_bias,
            network.biases ? cell.hidden_bias : no_bias, hidden[index], cell_state[index], backwards,
            /*batch_sizes=*/{}, kLstm, hidden_size, network.shape.layers, network.biases, bidirectional, batch_first,
            train);
        last_hidden.push_back(last);
        last_cell.push_back(last_state);
        return output;
      });
  if (batch_first) outputs = outputs.transpose(0, 1);
  return {outputs, at::stack(last_hidden, 0), at::stack(last_cell, 0)};
}

void check_states(TensorList hidden) { TORCH_CHECK(hidden.size() == 2, "lstm expects two hidden states"); }

std::tuple<Tensor, Tensor, Tensor> lstm(const Tensor& input, TensorList hidden, TensorList weights, bool biases,
                                        std::int64_t layers, double dropout, bool train, bool bidirectional,
                                        bool batch_first) {
  check_states(hidden);
  const Network network{lstm_step, hidden[0], hidden[1],
                        weights,   biases,    shape_of(layers, dropout, train, bidirectional)};
  const auto result =
      fusable(input, hidden) ? run_fused(network, input, batch_first, train) : run_whole(network, input, batch_first);
  return {result.outputs, result.hidden, result.cell_state};
}

std::tuple<Tensor, Tensor, Tensor> packed_lstm(const Tensor& rows, const Tensor& batch_sizes, TensorList hidden,
                                               TensorList weights, bool biases, std::int64_t layers, double dropout,
                                               bool train, bool bidirectional) {
  check_states(hidden);
  const Network network{lstm_step, hidden[0], hidden[1],
                        weights,   biases,    shape_of(layers, dropout, train, bidirectional)};
  const auto result = run_packed(network, rows, batch_sizes);
  return {result.outputs, result.hidden, result.cell_state};
}

template <Cell cell>
std::tuple<Tensor, Tensor> plain(const Tensor& input, const Tensor& hidden, TensorList weights, bool biases,
                                 std::int64_t layers, double dropout, bool train, bool bidirectional,
                                 bool batch_first) {
  const Network network{cell, hidden, {}, weights, biases, shape_of(layers, dropout, train, bidirectional)};
  const auto result = run_whole(network, input, batch_first);
  return {result.outputs, result.hidden};
}

template <Cell cell>
std::tuple<Tensor, Tensor> packed(const Tensor& rows, const Tensor& batch_sizes, const Tensor& hidden,
                                  TensorList weights, bool biases, std::int64_t layers, double dropout, bool train,
                                  bool bidirectional) {
  const Network network{cell, hidden, {}, weights, biases, shape_of(layers, dropout, train, bidirectional)};
  const auto result = run_packed(network, rows, batch_sizes);
  return {result.outputs, result.hidden};
}

/// The step of a cell that the program drives itself.
State single(Cell cell, const Tensor& input, const State& before, const Tensor& of_input, const Tensor& of_hidden,
             const optional<Tensor>& input_bias, const optional<Tensor>& hidden_bias) {
  return cell({input, false}, before,
              {of_input, of_hidden, input_bias.value_or(Tensor()), hidden_bias.value_or(Tensor()), {}});
}

template <Cell cell>
Tensor plain_cell(const Tensor& input, const Tensor& hidden, const Tensor& of_input, const Tensor& of_hidden,
                  const optional<Tensor>& input_bias, const optional<Tensor>& hidden_bias) {
  return single(cell, input, {hidden, {}}, of_input, of_hidden, input_bias, hidden_bias).hidden;
}

std::tuple<Tensor, Tensor> lstm_cell(const Tensor& input, TensorList hidden, const Tensor& of_input,
                                     const Tensor& of_hidden, const optional<Tensor>& input_bias,
                                     const optional<Tensor>& hidden_bias) {
  check_states(hidden);
  const auto state = single(lstm_step, input, {hidden[0], hidden[1]}, of_input, of_hidden, input_bias, hidden_bias);
  return {state.hidden, state.cell};
}

void implement(torch::Library& library) {
  library.impl("lstm.input", lstm);
  library.impl("lstm.data", packed_lstm);
  library.impl("gru.input", plain<gru_step>);
  library.impl("gru.data", packed<gru_step>);
  library.impl("rnn_tanh.input", plain<tanh_step>);
  library.impl("rnn_tanh.data", packed<tanh_step>);
  library.impl("rnn_relu.input", plain<relu_step>);
  library.impl("rnn_relu.data", packed<relu_step>);
  library.impl("lstm_cell", lstm_cell);
  library.impl("gru_cell", plain_cell<gru_step>);
  library.impl("rnn_tanh_cell", plain_cell<tanh_step>);
  library.impl("rnn_relu_cell", plain_cell<relu_step>);
}

}  // namespace
}  // namespace neaptide::soft

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) { neaptide::soft::implement(library); }
// Autograd differentiates the operators that they are made of.
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, library) { neaptide::soft::implement(library); }
