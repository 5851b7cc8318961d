// The board of one device: a memory-mapped file that all processes on the device share.
//
// It holds the device's capacity, a slot per process and the queue for its SMs. Three classes face it:
//   Board   the mapped file: open, look, control any slot (what a daemon does);
//   Member  this process's slot: leases, iteration age, permits (member.h);
//   SmLane  one kernel-running thread's place in the queue for SM tokens (sm_lane.h).
//
// Death: every shared word is written in an order that leaves each interrupted state either complete or detectable, and
// reap() repairs what a dead process left. Leases and SM tokens use atomics only, so a stopped process blocks nobody;
// the robust lock guards slots and lanes being taken, left and reaped. Lock order: the board lock is innermost, and no
// futex is waited on while it is held.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace neaptide {

struct BoardLayout;
class BoardFile;

/// The board cannot be used: foreign file, other version, full, forked. The message is one line.
class BoardError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What a new board gets. An existing board keeps what it has.
struct BoardConfig {
  std::uint64_t capacity_bytes = 0;
  std::uint32_t sms = 1;
};

enum class SlotState : std::uint32_t { idle, running, waiting_permit, suspended, evicted };

/// What a controller asks of a process; the process sees it whenever it waits for memory or a permit.
enum class Request : std::uint32_t { none, evict, restore, suspend, resume };

inline constexpr std::uint32_t kNoSlot = ~std::uint32_t{0};
inline constexpr std::uint32_t kPermitAll = ~std::uint32_t{0};
inline constexpr std::uint32_t kUnbounded = ~std::uint32_t{0};
inline constexpr std::uint64_t kNoCeiling = ~std::uint64_t{0};
inline constexpr std::uint64_t kNoIteration = ~std::uint64_t{0};

/// One process as the board sees it.
struct SlotSnapshot {
  std::uint32_t slot = kNoSlot;
  std::int32_t pid = 0;
  std::uint64_t start_time = 0;  // of the process, in clock ticks since boot: tells a recycled pid apart
  std::string job;
  SlotState state = SlotState::idle;
  Request request = Request::none;
  std::uint32_t permit = kPermitAll;  // iterations that may have started so far
  bool heavy_open = true;
  std::uint32_t inflight_cap = kUnbounded;
  std::uint64_t iteration = 0;       // iterations begun so far
  std::uint64_t age = kNoIteration;  // ticket of the running iteration: lower is older
  std::uint64_t launched = 0;
  std::uint64_t done = 0;
  std::uint64_t held_bytes = 0;    // leased
  std::uint64_t needed_bytes = 0;  // in live blocks
  std::uint64_t wanted_bytes = 0;  // waited for now; 0 when not waiting
  std::uint64_t ceiling_bytes = kNoCeiling;
  std::uint32_t sm_tokens = 0;  // granted now
};

/// The whole board at one moment. `consistent` is false when traffic never paused for an exact look; then the lease
/// figures of different slots may be a few operations apart.
struct BoardSnapshot {
  std::uint64_t capacity_bytes = 0;
  std::uint64_t used_bytes = 0;
  std::uint64_t high_water_bytes = 0;
  std::uint32_t sms = 0;
  std::uint32_t sm_tokens = 0;
  bool consistent = true;
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
  std::uint32_t sms() const;
  /// Whether an SM is left that no kernel of any process runs on or waits for. Changes nothing.
  bool sm_free() const;
  /// Copies the board out. Changes nothing.
  BoardSnapshot snapshot() const;

  /// Frees the slots, leases and SM tokens of dead processes; returns how many slots it freed. Called by every waiter
  /// before it sleeps and when it has slept long, and by whoever joins; a daemon may call it when a job ends.
  std::uint32_t reap();
  /// Changes the capacity and wakes who waits. May be below what is used: then nothing is granted until it is not.
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

  /// How long a sleeper of this process sleeps before it looks for itself whether those it waits for have died or been
  /// stopped; wake-ups do not depend on it. For tests: the default is right otherwise.
  void set_patience(std::chrono::milliseconds patience) { patience_.store(patience); }
  std::chrono::milliseconds patience() const { return patience_.load(); }

  /// Whether this process is a fork of the one that opened the board. Changes nothing.
  bool forked() const noexcept;
  /// Throws BoardError in a forked child.
  void require_owner() const;
  /// The shared words, for Member, SmLane and tests.
  BoardLayout& layout() const;

 private:
  template <typename Change>
  void control(std::uint32_t slot, Change change);

  std::string path_;
  std::unique_ptr<BoardFile> file_;
  std::atomic<std::chrono::milliseconds> patience_{std::chrono::milliseconds(25)};
};

}  // namespace neaptide
