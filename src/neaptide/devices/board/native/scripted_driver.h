// A device without memory or time of its own: a script says what time it is and how much of the launched work is done.
//
// With it one thread runs several jobs on one board through the real launch layer, the real arena and the real board.
// Addresses have no memory behind them, and nothing is copied.
#pragma once

#include <new>

#include "../../native/host_driver.h"

namespace neaptide {

class ScriptedDriver final : public HostDriver {
 public:
  Address reserve(std::size_t /*bytes*/, std::size_t /*chunk_bytes*/) override { return kBase; }
  void release(Address /*address*/, std::size_t /*bytes*/) noexcept override {}
  void back(Address /*address*/, std::size_t /*bytes*/) override {}
  void unback(Address /*address*/, std::size_t /*bytes*/) override {}
  void unback_pages(Address /*address*/, std::size_t /*bytes*/) override {}
  void copy_to_host(void* /*host*/, Address /*device*/, std::size_t /*bytes*/) override {
    if (!host_memory_) throw std::bad_alloc();
  }
  void copy_to_device(Address /*device*/, const void* /*host*/, std::size_t /*bytes*/) override {}
  StreamId current_stream() override { return 0; }
  std::uint64_t now_ns() override { return now_ns_; }

  void set_now(std::uint64_t time_ns) { now_ns_ = time_ns; }
  /// Whether the host has memory for evicted chunks.
  void set_host_memory(bool there) { host_memory_ = there; }

 private:
  static constexpr Address kBase = Address{1} << 46;
  std::uint64_t now_ns_ = 0;
  bool host_memory_ = true;
};

}  // namespace neaptide
