// The driver calls that the arena and the launch layer need, and nothing else.
//
// A device address is a number: the arena and the board never dereference one, so that a CUDA driver
// (cuMemAddressReserve, cuMemCreate, cuMemMap, cuEventRecord) fits under the same arena as host memory.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

namespace neaptide {

using Address = std::uint64_t;
using StreamId = std::uint64_t;
using Deadline = std::chrono::steady_clock::time_point;

/// A point in a stream's order. Its meaning is the driver's own; it is copied freely.
struct Event {
  StreamId stream = 0;
  std::uint64_t value = 0;
};

/// A driver call failed for a reason that is not a lack of leases.
class DriverError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The table of driver calls. Every call is thread-safe unless it says otherwise; none may call back into the arena
/// except through the listener.
class Driver {
 public:
  Driver() = default;
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;
  virtual ~Driver() = default;

  /// Reserves an address range, aligned to `chunk_bytes`, without memory behind it. Throws DriverError. Chunks of this
  /// size are what back() and unback() are asked for.
  virtual Address reserve(std::size_t bytes, std::size_t chunk_bytes) = 0;
  /// Gives a whole reserved range back, with whatever memory is still behind it.
  virtual void release(Address address, std::size_t bytes) noexcept = 0;
  /// Puts memory behind whole chunks of a reserved range. Contents are undefined. Throws DriverError, changing nothing.
  virtual void back(Address address, std::size_t bytes) = 0;
  /// Takes the memory behind whole chunks away; contents are lost, the range stays reserved.
  virtual void unback(Address address, std::size_t bytes) = 0;

  /// The unit in which part of a chunk can be unbacked; 0: only whole chunks can.
  virtual std::size_t page_bytes() const { return 0; }
  /// Takes the memory behind whole pages of backed chunks away; contents are lost. The pages may still be read.
  virtual void unback_pages(Address address, std::size_t bytes) {
    static_cast<void>(address), static_cast<void>(bytes);
  }
  /// Puts memory behind such pages again. Contents are undefined.
  virtual void back_pages(Address address, std::size_t bytes) { static_cast<void>(address), static_cast<void>(bytes); }

  /// Whether memory of the host can be put behind chunks, which kernels then read and write in place over the link.
  virtual bool maps_host() const { return false; }
  /// As back(), with memory of the host.
  virtual void back_with_host(Address address, std::size_t bytes) {
    static_cast<void>(bytes);
    throw DriverError("this device cannot put host memory at address " + std::to_string(address));
  }
  /// Moves the contents of backed pages between memory of the host and of the device, at the same address. Kernels that
  /// use them may be in flight: a driver for which that matters waits for these.
  virtual void move_to_device(Address address, std::size_t bytes) {
    static_cast<void>(address), static_cast<void>(bytes);
  }
  virtual void move_to_host(Address address, std::size_t bytes) {
    static_cast<void>(address), static_cast<void>(bytes);
  }

  /// Host memory for copies, aligned to a page. Throws std::bad_alloc.
  virtual void* allocate_host(std::size_t bytes);
  virtual void free_host(void* memory, std::size_t bytes) noexcept;
  /// Copies backed device memory to the host. The bytes are there when finish_copies() has returned.
  virtual void copy_to_host(void* host, Address device, std::size_t bytes) = 0;
  /// Copies host memory to backed device memory. The bytes are there when finish_copies() has returned.
  virtual void copy_to_device(Address device, const void* host, std::size_t bytes) = 0;
  /// Waits for the copies that this thread has asked for. Throws DriverError.
  virtual void finish_copies() {}

  /// The point in `stream` after all work launched on it so far. Events recorded on one stream pass in order.
  virtual Event record(StreamId stream) = 0;
  /// Whether the stream has passed the event. Changes nothing.
  virtual bool passed(const Event& event) = 0;
  /// Waits until the stream has passed the event; false when the deadline came first. Changes nothing.
  virtual bool wait(const Event& event, Deadline deadline) = 0;
  /// The caller will not ask about this event again; an armed event stays armed.
  virtual void drop(const Event& event) noexcept = 0;

  /// Asks for one call of the listener when the event passes. True when it has passed already: no call then.
  /// Per stream only the earliest armed event is kept, so a listener re-arms for the next one.
  virtual bool arm(const Event& event) = 0;
  /// Sets what arm() calls, from any thread and without the driver's locks held. Set before the first arm();
  /// an empty function detaches, and returns only when no call is under way.
  virtual void set_listener(std::function<void()> listener) = 0;

  /// The stream that the calling thread launches on. Changes nothing.
  virtual StreamId current_stream() = 0;
  /// Calls a function once, when the stream has done all work launched on it so far: from a thread of the device, or
  /// from this one when the work is done already. Calls of one stream come in order. The function must not call
  /// call_after() itself, nor throw.
  virtual void call_after(StreamId stream, std::function<void()> function) = 0;
  /// The device's clock: the steady clock, unless a test scripts it. Changes nothing.
  virtual std::uint64_t now_ns() {
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
};

}  // namespace neaptide
