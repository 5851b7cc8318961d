// Graphs: work that was captured from streams. A graph runs as one operation, in the order in which it was captured.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "stream.h"

namespace hollow {

struct Graph {
  std::vector<Op> ops;
  Op as_one() const;
};

class Capture {
 public:
  explicit Capture(std::shared_ptr<Stream> origin);
  const unsigned long long id;
  void add(Op op);
  /// A stream that waits for a captured event is captured too. False if it is part of another capture.
  bool join(const std::shared_ptr<Stream>& stream);
  bool started_by(const Stream& stream) const { return origin_.get() == &stream; }
  /// Ends the capture on all its streams.
  std::shared_ptr<Graph> end();
  std::shared_ptr<Graph> graph() const { return graph_; }

 private:
  std::mutex mutex_;  // may be taken with a stream's mutex held; takes none itself
  const std::shared_ptr<Stream> origin_;
  std::vector<std::shared_ptr<Stream>> streams_;
  std::shared_ptr<Graph> graph_ = std::make_shared<Graph>();
};

}  // namespace hollow
