// The CUDA implementation of the driver table: addresses are reserved once, and pages of memory that the GPU's jobs
// hand to each other are mapped behind them (page_cache.h).
#pragma once

#include <cuda.h>

#include <cstdint>
#include <functional>

#include "../../native/driver.h"
#include "driver_api.h"
#include "page_cache.h"
#include "streams.h"

namespace neaptide::cuda {

class CudaDriver final : public Driver {
 public:
  /// Makes the device's context in this process, unless there is one already.
  CudaDriver(Member& member, KeeperLine& keeper, StreamOptions options);
  ~CudaDriver() override;

  Address reserve(std::size_t bytes, std::size_t chunk_bytes) override;
  void release(Address address, std::size_t bytes) noexcept override;
  void back(Address address, std::size_t bytes) override { pages_.back(address, bytes); }
  void unback(Address address, std::size_t bytes) override { pages_.unback(address, bytes); }
  void* allocate_host(std::size_t bytes) override;
  void free_host(void* memory, std::size_t bytes) noexcept override;
  void copy_to_host(void* host, Address device, std::size_t bytes) override;
  void copy_to_device(Address device, const void* host, std::size_t bytes) override;
  void finish_copies() override;
  Event record(StreamId stream) override { return streams_.record(stream); }
  bool passed(const Event& event) override { return streams_.passed(event); }
  bool wait(const Event& event, Deadline deadline) override { return streams_.wait(event, deadline); }
  void drop(const Event& /*event*/) noexcept override {}
  bool arm(const Event& event) override { return streams_.arm(event); }
  void set_listener(std::function<void()> listener) override { streams_.set_listener(std::move(listener)); }
  StreamId current_stream() override;
  void call_after(StreamId stream, std::function<void()> function) override {
    streams_.call_after(stream, std::move(function));
  }

  Streams& streams() { return streams_; }
  PageCache& pages() { return pages_; }

 private:
  const int ordinal_;
  cudaStream_t copy_stream_ = nullptr;
  Streams streams_;
  PageCache pages_;
};

}  // namespace neaptide::cuda
