// Events: marks in streams that can be waited for and compared in time.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>

#include "stream.h"

namespace hollow {

class Event {
 public:
  explicit Event(bool timing) : timing(timing) {}
  const bool timing;
  /// The last recording; nothing if there was none.
  std::shared_ptr<Completion> last();
  void recorded(std::shared_ptr<Completion> completion);

 private:
  std::mutex mutex_;
  std::shared_ptr<Completion> last_;
};

cudaError_t record(Event& event, const std::shared_ptr<Stream>& stream);
cudaError_t wait(const std::shared_ptr<Stream>& stream, Event& event);
cudaError_t query(Event& event);
cudaError_t synchronize(Event& event);
cudaError_t elapsed(float* milliseconds, Event& from, Event& to);

}  // namespace hollow
