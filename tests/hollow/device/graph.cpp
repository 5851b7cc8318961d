#include "graph.h"

#include <atomic>
#include <utility>

namespace hollow {
namespace {
std::atomic<unsigned long long> next_id{1};
}  // namespace

Op Graph::as_one() const {
  Op whole;
  for (const Op& op : ops) whole.duration += op.duration;
  whole.work = [ops = ops] {
    for (const Op& op : ops)
      if (op.work && !op.work()) return false;
    return true;
  };
  return whole;
}

Capture::Capture(std::shared_ptr<Stream> origin) : id(next_id++), origin_(std::move(origin)) {}

void Capture::add(Op op) {
  const std::lock_guard<std::mutex> lock(mutex_);
  graph_->ops.push_back(std::move(op));
}

bool Capture::join(const std::shared_ptr<Stream>& stream) {
  const std::shared_ptr<Capture> self = origin_->capture();
  if (!self || !stream->start_capture(self)) return false;
  const std::lock_guard<std::mutex> lock(mutex_);
  streams_.push_back(stream);
  return true;
}

std::shared_ptr<Graph> Capture::end() {
  std::vector<std::shared_ptr<Stream>> joined;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    joined.swap(streams_);
  }
  for (const auto& stream : joined) stream->stop_capture();
  origin_->stop_capture();
  return graph_;
}

}  // namespace hollow
