// The queue for the device's SMs: its words in the board's device region, and what can be read off them. sm_lane.h says
// what the queue guarantees. Nothing here needs torch: a daemon reaps the region too.
//
// SM tokens. A lane's word holds its ticket, width and phase. Tickets come from `tail`, which names the lane that took
// the newest one. A lane that wants the next ticket first writes the newest ticket into its owner's word, in case that
// owner has not. So all earlier tickets are visible before a later one exists, even if their owners stop or die
// half-way.
#pragma once

#include <array>
#include <cstdint>

#include "../../../native/board.h"
#include "../../../native/board_layout.h"
#include "../../../native/device_region.h"

namespace neaptide::soft {

inline constexpr std::uint32_t kLanes = 256;

struct alignas(64) LaneLayout {
  Word64 word;
  Word32 wake;   // futex
  Word32 owner;  // slot + 1; 0: the lane is free. Changed under the board lock.
};

/// The device's region of the board.
struct SmRegion {
  Word32 sms;
  Word32 lanes_high;        // lanes from here on were never used
  alignas(64) Word64 tail;  // newest ticket and its lane
  std::array<LaneLayout, kLanes> lanes;
};

/// What a new board of the software GPU gets.
BoardConfig soft_board(std::uint64_t capacity_bytes, std::uint32_t sms);
/// The queue of a board. Throws BoardError when the board belongs to another device.
SmRegion& sm_region(const Board& board);

/// idle: no request. choosing: the ticket in the word is wanted, and taken once `tail` names it. ticket: in the queue,
/// waiting or running. asleep: as ticket, and its thread sleeps on the lane's futex.
enum class LanePhase : std::uint64_t { idle, choosing, ticket, asleep };

/// A lane's word: phase in 2 bits, width in 14, ticket in 48.
struct LaneWord {
  LanePhase phase = LanePhase::idle;
  std::uint32_t width = 0;
  std::uint64_t ticket = 0;

  static LaneWord unpack(std::uint64_t word) {
    return {static_cast<LanePhase>(word & 3), static_cast<std::uint32_t>(word >> 2 & 0x3fff), word >> 16};
  }
  std::uint64_t pack() const { return static_cast<std::uint64_t>(phase) | std::uint64_t{width} << 2 | ticket << 16; }
  bool queued() const { return phase >= LanePhase::ticket; }
};

inline constexpr std::uint32_t kMaximumSms = 0x3fff;

/// The newest ticket and its lane: lane in 16 bits, ticket in 48.
struct TailWord {
  std::uint32_t lane = 0;
  std::uint64_t ticket = 0;

  static TailWord unpack(std::uint64_t word) { return {static_cast<std::uint32_t>(word & 0xffff), word >> 16}; }
  std::uint64_t pack() const { return lane | ticket << 16; }
};

/// Makes the ticket that `tail` names visible in its lane, in case its owner has not come to it.
void publish_ticket(SmRegion& queue, TailWord tail);
/// Sum of the widths of all requests before `ticket`, running or waiting; stops counting above the number of SMs.
std::uint32_t width_before(const SmRegion& queue, std::uint64_t ticket);
/// Wakes the sleeping lanes whose turn it is.
void wake_ready_lanes(SmRegion& queue);
/// Whether a request in the queue has to wait for its turn.
bool any_lane_waits(const SmRegion& queue);

/// The head of the line, as a running request sees it.
struct FirstInLine {
  std::uint64_t ticket = 0;       // 0: no request waits
  std::uint32_t lacks = 0;        // tokens, besides those that are free
  bool served_by_elders = false;  // the tokens of the requests that run longer are enough for it
};
FirstInLine first_in_line(const SmRegion& queue, std::uint64_t running_ticket);
/// Whether an SM is left that no request runs on or waits for.
bool any_sm_free(const SmRegion& queue);
/// Takes a stopped process's lanes before `ticket` out of the queue, and reports whether one belongs to a dead process.
/// The stopped process finds out when it goes on: it queues again, or finishes its kernel without tokens.
bool pass_stopped_lanes(const BoardLayout& board, SmRegion& queue, std::uint64_t ticket);
/// Tokens granted now, to one slot or (kNoSlot) to all.
std::uint32_t tokens_granted(const SmRegion& queue, std::uint32_t slot);

}  // namespace neaptide::soft
