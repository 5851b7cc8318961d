// The board of one device: a memory-mapped file that all processes on the device share.
//
// It holds the device's capacity, a slot per process and a region of the device's own. Two classes face it:
//   Board   the mapped file: open, look, control any slot (what a daemon does);
//   Member  this process's slot: leases, iteration age, permits (member.h).
//
// Death: every shared word is written in an order that leaves each interrupted state either complete or detectable, and
// reap() repairs what a dead process left. Leases use atomics only, so a stopped process blocks no other; the robust
// lock guards slots being taken, left and reaped. Lock order: the board lock is innermost, and no futex is waited on
// while it is held.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "layout.h"

namespace neaptide {

struct BoardLayout;
struct DeviceRegion;
class BoardFile;

/// The board cannot be used: foreign file, other version, full, forked. The message is one line.
class BoardError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What a new board gets. An existing board keeps what it has.
struct BoardConfig {
  std::uint64_t capacity_bytes = 0;
  const DeviceRegion* region = nullptr;  // of the device, if it has one
  std::uint64_t region_setting = 0;      // what the region is made with
};

enum class SlotState : std::uint32_t { idle, running, waiting_permit, suspended, evicted };

/// What a controller asks of a process; the process sees it whenever it waits for memory or a permit.
enum class Request : std::uint32_t { none, evict, restore, suspend, resume };

inline constexpr std::uint32_t kNoSlot = ~std::uint32_t{0};
inline constexpr std::uint32_t kPermitAll = ~std::uint32_t{0};
inline constexpr std::uint32_t kUnbounded = ~std::uint32_t{0};
inline constexpr std::uint64_t kNoCeiling = ~std::uint64_t{0};
inline constexpr std::uint64_t kNoIteration = ~std::uint64_t{0};

/// A job's name as text that ends at its first zero byte.
struct JobName {
  char text[64];
};
inline bool operator==(const JobName& name, const char* text) { return std::string(name.text) == text; }
inline bool operator==(const JobName& name, const std::string& text) { return name.text == text; }

/// One process as the board sees it. `start_time` is in clock ticks since boot and tells a recycled pid apart; `age` is
/// the ticket of the running iteration: lower is older, kNoIteration without one.
#define NEAPTIDE_SLOT_FIELDS(FIELD)                                 \
  FIELD(std::uint64_t, start_time)                                  \
  FIELD(std::uint64_t, iteration) /* iterations begun so far */     \
  FIELD(std::uint64_t, age)                                         \
  FIELD(std::uint64_t, launched)      /* kernels */                 \
  FIELD(std::uint64_t, done)          /* kernels */                 \
  FIELD(std::uint64_t, held_bytes)    /* leased */                  \
  FIELD(std::uint64_t, needed_bytes)  /* in live blocks */          \
  FIELD(std::uint64_t, wanted_bytes)  /* waited for now; 0: none */ \
  FIELD(std::uint64_t, ceiling_bytes) /* kNoCeiling: none */        \
  FIELD(std::int32_t, pid)                                          \
  FIELD(std::uint32_t, slot)                                        \
  FIELD(SlotState, state)                                           \
  FIELD(Request, request)                                           \
  FIELD(std::uint32_t, permit) /* iterations that may start */      \
  FIELD(std::uint32_t, heavy_open)                                  \
  FIELD(std::uint32_t, inflight_cap)                                \
  FIELD(std::uint32_t, taken) /* a process has the slot */          \
  FIELD(JobName, job)

struct SlotSnapshot {
  NEAPTIDE_SLOT_FIELDS(NEAPTIDE_MEMBER)
};

/// The board's own figures. `consistent` is 0 when traffic never paused for an exact look; then the lease figures of
/// different slots may be a few operations apart.
#define NEAPTIDE_BOARD_FIELDS(FIELD)     \
  FIELD(std::uint64_t, capacity_bytes)   \
  FIELD(std::uint64_t, used_bytes)       \
  FIELD(std::uint64_t, high_water_bytes) \
  FIELD(std::uint32_t, consistent)       \
  FIELD(std::uint32_t, taken_slots)

struct BoardTotals {
  NEAPTIDE_BOARD_FIELDS(NEAPTIDE_MEMBER)
};

/// The whole board at one moment.
struct BoardSnapshot : BoardTotals {
  std::vector<SlotSnapshot> slots;  // taken ones only
};

/// A mapped board. Thread-safe. A forked child may not use its parent's: every call there throws BoardError.
class Board {
 public:
  /// Opens the board at `path`, creating it (mode 0600) when there is none. Throws BoardError.
  static std::shared_ptr<Board> open_or_create(const std::string& path, const BoardConfig& config);
  /// Opens an existing board. Throws BoardError.
  static std::shared_ptr<Board> open(const std::string& path);

  /// Use one of the two functions above.
  Board(std::string path, std::unique_ptr<BoardFile> file);
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;
  ~Board();

  const std::string& path() const { return path_; }
  /// These change nothing and cost a load.
  std::uint64_t capacity_bytes() const;
  std::uint64_t used_bytes() const;
  std::uint64_t high_water_bytes() const;
  /// Copies the board out. Changes nothing.
  BoardSnapshot snapshot() const;
  /// Copies one slot out, word by word: cheap, and enough for a look at one job. Changes nothing.
  SlotSnapshot slot(std::uint32_t index) const;
  /// What the device's region was made with. Changes nothing.
  std::uint64_t region_setting() const;

  /// Frees the slots, leases and device words of dead processes; returns how many slots it freed. Every thread calls it
  /// before it sleeps on the board and when it has slept long, and every process when it joins; a daemon may call it
  /// when a job ends.
  std::uint32_t reap();
  /// Changes the capacity and wakes the waiting processes. It may be below what is used: then nothing is granted until
  /// enough was given back.
  void set_capacity(std::uint64_t bytes);
  /// Sets the high-water mark to what is used now.
  void reset_high_water();

  /// Control one slot and wake its process. A slot that is free or out of range throws BoardError.
  void set_permit(std::uint32_t slot, std::uint32_t iterations);
  void set_heavy_open(std::uint32_t slot, bool open);
  void set_inflight_cap(std::uint32_t slot, std::uint32_t kernels);
  void set_ceiling(std::uint32_t slot, std::uint64_t bytes);
  void set_request(std::uint32_t slot, Request request);
  /// Keeps no more bytes for the slot's iteration, whatever leases it expects: its process makes no progress.
  void forget_expected_leases(std::uint32_t slot);

  /// How long a thread of this process sleeps before it checks by itself whether the processes it waits for have died
  /// or been stopped; wake-ups do not depend on it. For tests: the default is right otherwise.
  void set_patience(std::chrono::milliseconds patience) { patience_.store(patience); }
  std::chrono::milliseconds patience() const { return patience_.load(); }

  /// Whether this process is a fork of the one that opened the board. Changes nothing.
  bool forked() const noexcept;
  /// Throws BoardError in a forked child.
  void require_owner() const;
  /// The shared words, for Member, the device and tests.
  BoardLayout& layout() const;

 private:
  template <typename Change>
  void control(std::uint32_t slot, Change change);

  std::string path_;
  std::unique_ptr<BoardFile> file_;
  std::atomic<std::chrono::milliseconds> patience_{std::chrono::milliseconds(25)};
};

}  // namespace neaptide
