// libcudnn: recurrent networks. Weights lie in one buffer, layer by layer: the matrices of a layer, then its biases.
#include "cudnn.h"

using namespace hollow;

namespace {

constexpr int kLstm = 2, kGru = 3;                  // cudnnRNNMode_t
constexpr int kNoBias = 0, kDoubleBias = 2;         // cudnnRNNBiasMode_t
constexpr int kDouble = 1, kHalf = 2, kBfloat = 9;  // cudnnDataType_t
constexpr std::size_t kStates = 1 << 20;            // of a dropout descriptor

std::shared_ptr<Recurrent> find(void* handle) { return registry<Recurrent>().find(handle); }

int gates(const Recurrent& net) { return net.cell == kLstm ? 4 : net.cell == kGru ? 3 : 1; }
bool projects(const Recurrent& net) { return net.projection > 0 && net.projection < net.hidden; }
int output(const Recurrent& net) { return projects(net) ? net.projection : net.hidden; }
std::size_t width(int type) { return type == kDouble ? 8 : type == kHalf || type == kBfloat ? 2 : 4; }
/// Matrices of one layer in one direction: from the input, from the state, and the projection.
int matrices(const Recurrent& net) { return 2 * gates(net) + projects(net); }

struct Shape {
  int rows = 0, columns = 0;
  std::size_t size() const { return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns); }
};

Shape matrix(const Recurrent& net, int layer, int which) {
  if (which >= 2 * gates(net)) return {net.projection, net.hidden};
  if (which >= gates(net)) return {net.hidden, output(net)};
  return {net.hidden, layer < net.directions ? net.input : output(net) * net.directions};
}
Shape bias(const Recurrent& net, int which) {
  const bool has = net.bias == kDoubleBias ? which < 2 * gates(net) : net.bias != kNoBias && which < gates(net);
  return has ? Shape{net.hidden, 1} : Shape{};
}

/// Elements before a layer's matrix or bias, or of all layers if the layer is the one after the last.
std::size_t offset(const Recurrent& net, int layer, int which, bool of_bias) {
  std::size_t total = 0;
  for (int i = 0; i <= layer; ++i) {
    const bool here = i == layer;
    if (here && i == net.layers * net.directions) break;
    for (int j = 0; j < matrices(net) && !(here && !of_bias && j == which); ++j) total += matrix(net, i, j).size();
    if (here && !of_bias) break;
    for (int j = 0; j < matrices(net) && !(here && j == which); ++j) total += bias(net, j).size();
  }
  return total;
}

void describe(void* descriptor, const Recurrent& net, Shape shape) {
  if (const auto found = descriptor ? registry<Descriptor>().find(descriptor) : nullptr)
    *found = {net.type, {1, shape.rows, shape.columns}, {shape.rows * shape.columns, shape.columns, 1}};
}

}  // namespace

EXPORT int cudnnCreateRNNDescriptor(void** out) { return make_descriptor<Recurrent>(out); }
EXPORT int cudnnDestroyRNNDescriptor(void* handle) { return drop_descriptor<Recurrent>(handle); }
EXPORT int cudnnSetRNNDescriptor_v8(void* handle, int, int cell, int bias, int direction, int, int type, int, int,
                                    std::int32_t input, std::int32_t hidden, std::int32_t projection,
                                    std::int32_t layers, void*, unsigned) {
  const auto net = find(handle);
  if (!net) return kCudnnBadParam;
  *net = {cell, bias, type, input, hidden, projection, layers, direction ? 2 : 1};
  return kCudnnSuccess;
}
EXPORT int cudnnCreateRNNDataDescriptor(void** out) { return make_descriptor<RecurrentData>(out); }
EXPORT int cudnnDestroyRNNDataDescriptor(void* handle) { return drop_descriptor<RecurrentData>(handle); }
EXPORT int cudnnSetRNNDataDescriptor(void* handle, int, int, int steps, int batch, int, const int*, void*) {
  const auto data = registry<RecurrentData>().find(handle);
  if (!data) return kCudnnBadParam;
  *data = {steps, batch};
  return kCudnnSuccess;
}

EXPORT int cudnnGetRNNWeightSpaceSize(void*, void* handle, size_t* bytes) {
  const auto net = find(handle);
  if (!net) return kCudnnBadParam;
  *bytes = offset(*net, net->layers * net->directions, 0, false) * width(net->type);
  return kCudnnSuccess;
}
EXPORT int cudnnGetRNNWeightParams(void*, void* handle, std::int32_t layer, size_t, const void* space,
                                   std::int32_t which, void* matrix_out, void** matrix_at, void* bias_out,
                                   void** bias_at) {
  const auto net = find(handle);
  if (!net) return kCudnnBadParam;
  auto* base = const_cast<char*>(static_cast<const char*>(space));
  const bool has_matrix = which < matrices(*net), has_bias = has_matrix && bias(*net, which).size();
  // A caller may ask for one of the two.
  if (matrix_at) *matrix_at = has_matrix ? base + offset(*net, layer, which, false) * width(net->type) : nullptr;
  if (bias_at) *bias_at = has_bias ? base + offset(*net, layer, which, true) * width(net->type) : nullptr;
  describe(matrix_out, *net, has_matrix ? matrix(*net, layer, which) : Shape{});
  describe(bias_out, *net, has_bias ? bias(*net, which) : Shape{});
  return kCudnnSuccess;
}
/// The reserve keeps every gate and state of every step for the backward pass.
EXPORT int cudnnGetRNNTempSpaceSizes(void*, void* handle, int, void* data_handle, size_t* work, size_t* reserve) {
  const auto net = find(handle);
  const auto data = registry<RecurrentData>().find(data_handle);
  if (!net || !data) return kCudnnBadParam;
  const auto cells = static_cast<std::size_t>(data->batch * net->hidden * net->layers * net->directions);
  const std::size_t values = static_cast<std::size_t>(gates(*net)) + 2;
  if (work) *work = cells * values * width(net->type);
  if (reserve) *reserve = cells * values * width(net->type) * static_cast<std::size_t>(data->steps);
  return kCudnnSuccess;
}

EXPORT int cudnnDropoutGetStatesSize(void*, size_t* bytes) {
  *bytes = kStates;
  return kCudnnSuccess;
}
EXPORT int cudnnSetDropoutDescriptor(void*, void* handle, float, void*, size_t, unsigned long long) {
  LIBRARY_CALL;
  return run_cudnn(handle);
}
EXPORT int cudnnRestoreDropoutDescriptor(void*, void*, float, void*, size_t, unsigned long long) {
  return kCudnnSuccess;
}

EXPORT int cudnnRNNForward(void* handle) {
  LIBRARY_CALL;
  return run_cudnn(handle);
}
EXPORT int cudnnRNNBackwardData_v8(void* handle) {
  LIBRARY_CALL;
  return run_cudnn(handle);
}
EXPORT int cudnnRNNBackwardWeights_v8(void* handle) {
  LIBRARY_CALL;
  return run_cudnn(handle);
}
