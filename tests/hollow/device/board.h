// The board: one file that all processes on the hollow devices map. It counts the devices' bytes, keeps their time and
// tallies calls. It plays the part of the kernel driver: what it says of a process stays true when that process is
// killed.
//
// Bytes are kept per process and summed when they are asked for, so a process that is killed between two writes leaves
// no wrong total. `Lock` orders all writers: threads by a mutex, processes by flock, which a killed process gives up.
//
// Lock order of the library: Virtual::mutex_, then Memory::mutex_, then Addresses::mutex_ or Board::Lock. A stream's
// and an event's mutex are never held while another lock is taken, but for Capture::mutex_ (graph.h). A registry's is
// held only to look up or insert.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "config.h"

namespace hollow {

constexpr int kDevices = 16;
constexpr int kProcesses = 128;
constexpr int kCalls = 1024;
constexpr int kPages = 1 << 17;
constexpr int kNameBytes = 96;

struct Tally {
  std::atomic<std::uint64_t> calls;
  std::atomic<std::uint64_t> charged;  // nanoseconds of cost
};

/// What a process has on one device.
struct Use {
  std::uint64_t context;           // bytes
  std::uint64_t bytes;             // of cudaMalloc, of memory that cannot be exported, and of libraries
  std::atomic<std::int64_t> busy;  // nanoseconds of device time
};

struct Process {
  std::atomic<std::int32_t> pid;     // 0: the slot is free
  std::atomic<std::uint32_t> ended;  // it ran to its end and was not killed
  std::uint64_t born;                // the kernel's start time of the pid, because pids come round again
  Nanos teardown;
  Nanos died;  // when its death was noticed; 0: it lives
  Use use[kDevices];
  Tally tallies[kCalls];
};

/// Memory that can be exported. It lies in a file of its own; the file's locks say whether anybody still has it.
struct Page {
  std::uint64_t bytes;  // 0: the entry is free
  std::int32_t device;
  std::int32_t creator;                    // slot of the process that is charged; -1: it is gone
  std::uint64_t holders[kProcesses / 64];  // slots that have a handle or a mapping
};

struct Device {
  std::uint64_t capacity;
  std::uint64_t peak;
  std::uint64_t page_bytes;       // sum of its Pages
  std::atomic<Nanos> free_at[3];  // kernels, copies to the device, copies to the host
};

struct Layout {
  std::uint64_t size;  // of this struct: a board of another version is not read
  std::int32_t devices;
  std::int32_t calls;
  std::int32_t page_end;  // pages from here on were never used
  char names[kCalls][kNameBytes];
  Tally departed[kCalls];  // tallies of processes that are gone
  Device device[kDevices];
  Process process[kProcesses];
  Page page[kPages];
};

enum class Engine { kCompute, kToDevice, kToHost };

class Board {
 public:
  /// Opens the board at `path`, or makes it. With `to_join`, the devices get this process's settings if nobody is
  /// there.
  Board(std::string path, bool to_join);
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;
  ~Board();

  class Lock {
   public:
    explicit Lock(Board& board);
    ~Lock();

   private:
    Board& board_;
    std::unique_lock<std::mutex> threads_;
  };

  Layout& layout() { return *layout_; }
  const std::string& path() const { return path_; }

  /// This process's slot; takes one if it has none.
  Process& mine();
  /// Says that this process comes to its end by itself, so its context is torn down before the process is gone.
  void leave();
  /// For a forked child: the slot is its parent's.
  void forget() { mine_ = nullptr; }
  int slot() { return static_cast<int>(&mine() - layout_->process); }

  /// Takes bytes for this process, or does nothing and returns false if the device has too few.
  bool take(int device, std::size_t bytes, bool as_context = false);
  void give(int device, std::size_t bytes, bool as_context = false);
  /// All bytes on the device that are not free, after what dead processes held has been given back.
  std::uint64_t used(int device);
  /// Bytes that NVML shows for a process on a device. With the lock held.
  std::uint64_t used_by(const Process& process, int device) const;

  /// With the lock held: whether `bytes` more fit; raises the peak if they do.
  bool fits(int device, std::size_t bytes);
  /// With the lock held: gives back what processes held whose tear-down is over, and, if `thoroughly`, pages that only
  /// file descriptors held that were closed since.
  void reap(bool thoroughly);

  /// The next `duration` of an engine that is free and not before `earliest`; returns its end.
  Nanos claim(int device, Engine engine, Nanos earliest, Nanos duration);

  /// The index of a call's tallies, the same in all processes.
  int call_index(const char* name);

 private:
  std::uint64_t sum(int device) const;
  void adopt_settings();

  std::string path_;
  int file_ = -1;
  Layout* layout_ = nullptr;
  std::mutex mutex_;
  std::atomic<Process*> mine_{nullptr};
};

/// The board of this process.
Board& board();

}  // namespace hollow
