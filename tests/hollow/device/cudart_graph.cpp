// libcudart: capture of streams into graphs, and graphs that run again.
#include "calls.h"
#include "graph.h"
#include "registry.h"

using namespace hollow;

namespace {

/// A graph that can be launched.
struct Executable {
  Op whole;
};

cudaStreamCaptureStatus status_of(const std::shared_ptr<Stream>& stream) {
  return stream->capture() ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
}

}  // namespace

EXPORT cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  RUNTIME_CALL;
  const auto found = stream_of(stream);
  if (!found) return fail(cudaErrorInvalidResourceHandle);
  if (stream <= cudaStreamPerThread) return fail(cudaErrorStreamCaptureUnsupported);  // the default stream
  return found->start_capture(std::make_shared<Capture>(found)) ? cudaSuccess : fail(cudaErrorIllegalState);
}
EXPORT cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* out) {
  RUNTIME_CALL;
  *out = nullptr;
  const auto found = stream_of(stream);
  if (!found) return fail(cudaErrorInvalidResourceHandle);
  const auto capture = found->capture();
  if (!capture) return fail(cudaErrorIllegalState);
  if (!capture->started_by(*found)) return fail(cudaErrorStreamCaptureUnmatched);
  *out = reinterpret_cast<cudaGraph_t>(registry<Graph>().add(capture->end()));
  return cudaSuccess;
}
EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* out) {
  RUNTIME_CALL;
  const auto found = stream_of(stream);
  if (!found) return fail(cudaErrorInvalidResourceHandle);
  *out = status_of(found);
  return cudaSuccess;
}
EXPORT cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* out, unsigned long long* id,
                                            cudaGraph_t* graph, const cudaGraphNode_t** nodes,
                                            const cudaGraphEdgeData** edges, size_t* count) {
  RUNTIME_CALL;
  const auto found = stream_of(stream);
  if (!found) return fail(cudaErrorInvalidResourceHandle);
  *out = status_of(found);
  const auto capture = found->capture();
  if (id) *id = capture ? capture->id : 0;
  if (graph) *graph = capture ? reinterpret_cast<cudaGraph_t>(capture->graph().get()) : nullptr;
  if (nodes) *nodes = nullptr;
  if (edges) *edges = nullptr;
  if (count) *count = 0;
  return cudaSuccess;
}
EXPORT cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  RUNTIME_CALL;
  static thread_local cudaStreamCaptureMode current = cudaStreamCaptureModeGlobal;
  std::swap(*mode, current);
  return cudaSuccess;
}

EXPORT cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long) {
  RUNTIME_CALL;
  const auto found = registry<Graph>().find(graph);
  if (!found) return fail(cudaErrorInvalidValue);
  auto executable = std::make_shared<Executable>(Executable{found->as_one()});
  *out = reinterpret_cast<cudaGraphExec_t>(registry<Executable>().add(std::move(executable)));
  return cudaSuccess;
}
EXPORT cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long flags) {
  return cudaGraphInstantiate(out, graph, flags);
}
EXPORT cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  RUNTIME_CALL;
  const auto found = registry<Executable>().find(executable);
  return found ? enqueue(stream_of(stream), found->whole) : fail(cudaErrorInvalidValue);
}
EXPORT cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  RUNTIME_CALL;
  const auto found = registry<Graph>().find(graph);
  if (!found || nodes) return fail(cudaErrorInvalidValue);  // there are no nodes to give, only a count
  *count = found->ops.size();
  return cudaSuccess;
}
EXPORT cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  RUNTIME_CALL;
  return registry<Executable>().remove(executable) ? cudaSuccess : fail(cudaErrorInvalidValue);
}
EXPORT cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  RUNTIME_CALL;
  return registry<Graph>().remove(graph) ? cudaSuccess : fail(cudaErrorInvalidValue);
}
