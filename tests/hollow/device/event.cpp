#include "event.h"

#include "calls.h"
#include "graph.h"

namespace hollow {

std::shared_ptr<Completion> Event::last() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return last_;
}
void Event::recorded(std::shared_ptr<Completion> completion) {
  const std::lock_guard<std::mutex> lock(mutex_);
  last_ = std::move(completion);
}

cudaError_t record(Event& event, const std::shared_ptr<Stream>& stream) {
  const std::shared_ptr<Capture> capture = stream->capture();
  auto completion = std::make_shared<Completion>(capture);
  event.recorded(completion);
  if (capture) return cudaSuccess;
  Op op;
  op.completes = std::move(completion);
  return enqueue(stream, std::move(op));
}

cudaError_t wait(const std::shared_ptr<Stream>& stream, Event& event) {
  const std::shared_ptr<Completion> completion = event.last();
  if (!completion) return cudaSuccess;
  if (completion->capture())  // a graph keeps the order of capture, which has the event before what waits for it
    return completion->capture()->join(stream) ? cudaSuccess : fail(cudaErrorStreamCaptureMerge);
  if (stream->capture()) return fail(cudaErrorStreamCaptureIsolation);
  if (completion->when()) return cudaSuccess;
  Op op;
  op.awaits = completion;
  return enqueue(stream, std::move(op));
}

cudaError_t query(Event& event) {
  const std::shared_ptr<Completion> completion = event.last();
  if (!completion) return cudaSuccess;
  if (completion->capture()) return fail(cudaErrorCapturedEvent);
  return completion->when() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t synchronize(Event& event) {
  const std::shared_ptr<Completion> completion = event.last();
  if (!completion) return cudaSuccess;
  if (completion->capture()) return fail(cudaErrorCapturedEvent);
  completion->await();
  return context_is_broken() ? fail(cudaErrorIllegalAddress) : cudaSuccess;
}

cudaError_t elapsed(float* milliseconds, Event& from, Event& to) {
  const std::shared_ptr<Completion> first = from.last(), second = to.last();
  if (!first || !second || !from.timing || !to.timing) return fail(cudaErrorInvalidResourceHandle);
  const std::optional<Nanos> start = first->when(), end = second->when();
  if (!start || !end) return cudaErrorNotReady;
  *milliseconds = static_cast<float>(static_cast<double>(*end - *start) / 1e6);
  return cudaSuccess;
}

}  // namespace hollow
