// A driver whose addresses have no memory behind them: dereferencing one crashes. It checks that chunks are
// backed and unbacked in turn, keeps "contents" in a table of the host, and can be told to fail.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <vector>

#include "check.h"
#include "host_driver.h"
#include "support.h"

namespace support {

using namespace neaptide;

class FakeDriver final : public Driver {
 public:
  static constexpr Address kBase = Address{1} << 46;

  Address reserve(std::size_t bytes, std::size_t /*chunk_bytes*/) override {
    if (bytes > addresses) throw DriverError("told to fail");
    reserved = bytes;
    return kBase;
  }
  void release(Address address, std::size_t bytes) noexcept override {
    if (address == kBase && bytes == reserved) reserved = 0;
  }
  void back(Address address, std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    if (fail_next_back) {
      fail_next_back = false;
      throw DriverError("told to fail");
    }
    each_chunk(address, bytes, [&](Address chunk) {
      CHECK(backed_.insert(chunk).second);
      contents_[chunk].assign(kChunkBytes / 512, 0);
    });
  }
  void unback(Address address, std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    if (on_unback) on_unback(address, bytes);
    if (fail_next_unback) {
      fail_next_unback = false;
      throw DriverError("told to fail");
    }
    each_chunk(address, bytes, [&](Address chunk) { CHECK(backed_.erase(chunk) == 1); });
    hollow_.erase(hollow_.lower_bound(address), hollow_.lower_bound(address + bytes));
  }
  std::size_t page_bytes() const override { return kPage; }
  void unback_pages(Address address, std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    if (on_unback) on_unback(address, bytes);
    each_page(address, bytes, [&](Address page) { hollow_.insert(page); });
  }
  void back_pages(Address address, std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    each_page(address, bytes, [&](Address page) { CHECK(hollow_.erase(page) == 1); });
  }
  void copy_to_host(void* host, Address device, std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    if (copies_until_failure >= 0 && copies_until_failure-- == 0) throw std::bad_alloc();
    auto* to = static_cast<std::uint64_t*>(host);
    each_chunk(device, bytes, [&](Address chunk) {
      CHECK(backed_.count(chunk) == 1);
      to = std::copy(contents_[chunk].begin(), contents_[chunk].end(), to);
      to += kChunkBytes / 8 - kChunkBytes / 512;
    });
  }
  void copy_to_device(Address device, const void* host, std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    const auto* from = static_cast<const std::uint64_t*>(host);
    each_chunk(device, bytes, [&](Address chunk) {
      CHECK(backed_.count(chunk) == 1);
      std::copy(from, from + kChunkBytes / 512, contents_[chunk].begin());
      from += kChunkBytes / 8;
    });
  }
  Event record(StreamId stream) override { return streams.record(stream); }
  bool passed(const Event& event) override { return streams.passed(event); }
  bool wait(const Event& event, Deadline deadline) override { return streams.wait(event, deadline); }
  void drop(const Event& event) noexcept override { streams.drop(event); }
  bool arm(const Event& event) override { return streams.arm(event); }
  void set_listener(std::function<void()> listener) override { streams.set_listener(std::move(listener)); }
  StreamId current_stream() override { return 0; }
  void call_after(StreamId stream, std::function<void()> function) override {
    streams.call_after(stream, std::move(function));
  }
  std::uint64_t now_ns() override { return clock_ns; }

  /// One word per 512 bytes stands for the contents; the address must be backed.
  std::uint64_t& word(Address address) {
    const std::lock_guard lock(mutex_);
    const Address chunk = address / kChunkBytes * kChunkBytes;
    CHECK(backed_.count(chunk) == 1);
    CHECK(hollow_.count(address / kPage * kPage) == 0);
    return contents_[chunk][(address - chunk) / 512];
  }
  std::size_t backed_bytes() const {
    const std::lock_guard lock(mutex_);
    return backed_.size() * kChunkBytes - hollow_.size() * kPage;
  }

  HostDriver streams;
  std::size_t reserved = 0;
  std::size_t addresses = ~std::size_t{0};  // that the process may have
  std::uint64_t clock_ns = 0;
  bool fail_next_back = false;
  bool fail_next_unback = false;
  int copies_until_failure = -1;  // to the host; below 0: none fails
  std::function<void(Address, std::size_t)> on_unback;

 private:
  template <typename Visit>
  void each_chunk(Address address, std::size_t bytes, Visit visit) {
    CHECK(address % kChunkBytes == 0 && bytes % kChunkBytes == 0 && bytes > 0);
    CHECK(address >= kBase && address + bytes <= kBase + reserved);
    for (Address chunk = address; chunk < address + bytes; chunk += kChunkBytes) visit(chunk);
  }

  template <typename Visit>
  void each_page(Address address, std::size_t bytes, Visit visit) {
    CHECK(address % kPage == 0 && bytes % kPage == 0 && bytes > 0);
    for (Address page = address; page < address + bytes; page += kPage) {
      CHECK(backed_.count(page / kChunkBytes * kChunkBytes) == 1);
      visit(page);
    }
  }

  static constexpr std::size_t kPage = 4096;
  mutable std::mutex mutex_;
  std::set<Address> backed_;
  std::set<Address> hollow_;  // pages of backed chunks without memory
  std::map<Address, std::vector<std::uint64_t>> contents_;
};

}  // namespace support
