// The board of one device: a memory-mapped file that all processes on the device share.
//
// It holds the device's capacity, a slot per process and a region of the device's own. Two classes face it:
//   Board   the mapped file: open, look, control any slot (what a daemon does);
//   Member  this process's slot: leases, iteration age, permits (member.h).
//
// Death: every shared word is written in an order that leaves each interrupted state either complete or detectable, and
// reap() repairs what a dead process left. Nothing waits for another process: leases use atomics, and slots are taken
// and reaped under locks that are tried and never waited for (slot_locks.h). So a stopped process blocks no other.
//
// A daemon that says regularly that it lives is obeyed: permits, gates and ceilings count, and an
// evicted process waits to be restored. When it has been silent for kSilence, processes go on under the capacity and
// the memory grant alone, until it speaks again.
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
class SlotLocks;

/// The board cannot be used: foreign file, other version, full, forked. The message is one line.
class BoardError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// All slots are taken. One becomes free when a process leaves.
class BoardFull : public BoardError {
 public:
  using BoardError::BoardError;
};

/// The board was replaced by another while this process joined it: open the path again.
class BoardReplaced : public BoardError {
 public:
  using BoardError::BoardError;
};

/// How long a daemon that has begun to say that it lives may be silent before nobody waits for it. It speaks ten
/// times a second; load and large messages delay it by less than this.
inline constexpr std::chrono::nanoseconds kSilence = std::chrono::seconds(3);

/// The chunk of a device unless it says otherwise. A driver call costs the same for a large chunk as for a small one,
/// so a device with much memory has larger ones; all are powers of two.
inline constexpr std::uint64_t kSmallChunkBytes = std::uint64_t{2} << 20;
inline constexpr std::uint64_t kLargestChunkBytes = std::uint64_t{32} << 20;

/// What a new board gets. An existing board keeps what it has.
struct BoardConfig {
  std::uint64_t capacity_bytes = 0;
  const DeviceRegion* region = nullptr;  // of the device, if it has one
  std::uint64_t region_setting = 0;      // what the region is made with
  std::uint64_t chunk_bytes = kSmallChunkBytes;
};

enum class SlotState : std::uint32_t { idle, running, waiting_permit, suspended, evicted };

/// What the daemon asks of a process; the process sees it whenever it waits for memory or a permit.
enum class Request : std::uint32_t { none, evict, restore, suspend, resume };

/// Whether the process's memory is to leave the device.
constexpr bool asks_to_leave(Request request) { return request == Request::evict || request == Request::suspend; }

inline constexpr std::uint32_t kNoSlot = ~std::uint32_t{0};
inline constexpr std::uint32_t kNoLane = ~std::uint32_t{0};
inline constexpr std::uint32_t kPermitAll = ~std::uint32_t{0};
inline constexpr std::uint32_t kUnbounded = ~std::uint32_t{0};
inline constexpr std::uint64_t kNoCeiling = ~std::uint64_t{0};
inline constexpr std::uint64_t kNoIteration = ~std::uint64_t{0};
inline constexpr std::uint64_t kAlways = ~std::uint64_t{0};
inline constexpr std::uint32_t kWholeShare = 1'000'000;

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
  FIELD(std::uint64_t, entered)   /* of those, let in */            \
  FIELD(std::uint64_t, age)                                         \
  FIELD(std::uint64_t, launched)      /* kernels */                 \
  FIELD(std::uint64_t, done)          /* kernels */                 \
  FIELD(std::uint64_t, held_bytes)    /* leased */                  \
  FIELD(std::uint64_t, over_bytes)    /* over the link */           \
  FIELD(std::uint64_t, needed_bytes)  /* in live blocks */          \
  FIELD(std::uint64_t, rest_bytes)    /* see board_layout.h */      \
  FIELD(std::uint64_t, wanted_bytes)  /* waited for now; 0: none */ \
  FIELD(std::uint64_t, ceiling_bytes) /* kNoCeiling: none */        \
  FIELD(std::uint64_t, limit_bytes)   /* kNoCeiling: none */        \
  FIELD(std::uint64_t, waited_ns)     /* see Waits in member.h */   \
  FIELD(std::uint64_t, waits_since_ns)                              \
  FIELD(std::uint64_t, stalled_ns) /* see Stalls in member.h */     \
  FIELD(std::int32_t, pid)                                          \
  FIELD(std::uint32_t, slot)                                        \
  FIELD(SlotState, state)                                           \
  FIELD(Request, request)                                           \
  FIELD(std::uint32_t, permit) /* iterations that may start */      \
  FIELD(std::uint32_t, heavy_open)                                  \
  FIELD(std::uint32_t, inflight_cap)                                \
  FIELD(std::uint32_t, lane) /* kNoLane: none */                    \
  FIELD(std::uint32_t, deadline_class)                              \
  FIELD(std::uint32_t, share) /* in millionths */                   \
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
  FIELD(std::uint64_t, over_bytes)       \
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
  /// Makes a board (mode 0600); there must be no file at `path`. Throws BoardError.
  static std::shared_ptr<Board> create(const std::string& path, const BoardConfig& config);
  /// Opens the board at `path`, making it when there is no file. For processes without a daemon. Throws BoardError.
  static std::shared_ptr<Board> open_or_create(const std::string& path, const BoardConfig& config);
  /// Opens an existing board. Throws BoardError.
  static std::shared_ptr<Board> open(const std::string& path);

  /// Use one of the functions above.
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
  /// Memory is backed, leased and handed back in units of this many bytes, a power of two. Changes nothing.
  std::uint64_t chunk_bytes() const { return chunk_bytes_; }
  /// What the device's region was made with. Changes nothing.
  std::uint64_t region_setting() const;

  /// Whether the path still names this board's file. Changes nothing.
  bool is_at_its_path() const;
  /// The open file. Changes nothing.
  int descriptor() const;

  /// Frees the slots, leases and device words of dead processes; returns how many slots it freed. Every thread calls it
  /// before it sleeps on the board and when it has slept long, and every process when it joins; a daemon may call it
  /// when a job ends. Never waits.
  std::uint32_t reap();
  /// The daemon lives, and its controls count from now on. Writes the capacity, and what the file says of itself,
  /// again if they were changed. `now_ns` is on the monotonic clock.
  void beat(std::uint64_t now_ns, std::uint64_t capacity_bytes);
  /// There is no daemon any more, or it has nothing to control; what it has set stays.
  void stop_beating();
  /// Whether there is a daemon and nothing was heard of it for kSilence: neither a beat, nor anything since
  /// `since_ns`, when this process last knew that it lived. Changes nothing.
  bool daemon_silent(std::uint64_t since_ns = 0) const;
  /// Writes the capacity again if it was damaged and there is no daemon to do it.
  void mend_capacity();
  /// Changes the capacity and wakes the waiting processes. It may be below what is used: then nothing is granted until
  /// enough was given back. Every slot remembers the capacity that there was (Member::largest_capacity_bytes).
  void set_capacity(std::uint64_t bytes);
  /// Sets the high-water mark to what is used now.
  void reset_high_water();

  /// Control one slot and wake its process. A slot that is free or out of range throws BoardError.
  void set_permit(std::uint32_t slot, std::uint32_t iterations);
  void set_heavy_open(std::uint32_t slot, bool open);
  /// Opens the gate until a time on the device's clock, when it closes by itself; 0: closes it, kAlways: opens it.
  /// Heavy kernels wait before a closed gate; if `holds_light`, all do.
  void set_gate(std::uint32_t slot, std::uint64_t until_ns, bool holds_light);
  /// Puts the process into the deadline class, or back among the others.
  void set_deadline_class(std::uint32_t slot, bool deadline);
  /// The share of the device's SM time that the process may use, in millionths; at least 1.
  void set_share(std::uint32_t slot, std::uint32_t millionths);
  void set_inflight_cap(std::uint32_t slot, std::uint32_t kernels);
  void set_ceiling(std::uint32_t slot, std::uint64_t bytes);
  /// The most that the process may lease: what it needs beyond is over the link. Write it between two iterations.
  void set_limit(std::uint32_t slot, std::uint64_t bytes);
  void set_request(std::uint32_t slot, Request request);
  /// Puts the slot's iterations into a lane, or with kNoLane into none.
  void set_lane(std::uint32_t slot, std::uint32_t lane);
  /// Sets bytes aside for the iterations in a lane (memory_grant.h), and wakes processes that wait for memory. It may
  /// be less than they hold, or more than is free. No such lane throws BoardError.
  void set_lane_bytes(std::uint32_t lane, std::uint64_t bytes);
  /// The size of a lane. Changes nothing.
  std::uint64_t lane_bytes(std::uint32_t lane) const;
  /// Whether processes take over the link what the capacity does not grant, instead of waiting for it. It stays as it
  /// is when the daemon ends: the jobs hold more than fits.
  void set_oversubscribed(bool oversubscribed);
  bool oversubscribed() const;
  /// What all processes have over the link. Changes nothing.
  std::uint64_t over_bytes() const;
  /// Opens permit and gate, and lifts cap, ceiling, limit, class, share and lane: nobody controls the slot any more.
  /// With `restore` the process is also asked to bring its memory back. A process lifts its own controls even if damage
  /// says that its slot is free; in a slot that is free the words mean nothing.
  void lift_controls(std::uint32_t slot, bool restore = false);
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
  /// Which slots have owners.
  SlotLocks& locks() const;
  /// The device's region as the file described it when it was opened; null: there is none.
  const DeviceRegion* region() const;

 private:
  void require_lane(std::uint32_t lane) const;
  template <typename Word, typename Value>
  void control(std::uint32_t slot, Word word, Value value);
  template <typename Word, typename Value>
  void write_control(std::uint32_t slot, Word word, Value value);

  std::string path_;
  std::unique_ptr<BoardFile> file_;
  const std::uint64_t chunk_bytes_;
  mutable std::atomic<std::uint64_t> capacity_;  // as last set or seen undamaged
  std::atomic<std::chrono::milliseconds> patience_{std::chrono::milliseconds(25)};
};

}  // namespace neaptide
