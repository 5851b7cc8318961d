// Who gets memory: the rule that the board and the simulator both apply to every request.
//
// Words. Running iterations are ordered by age. An iteration i holds H(i), will hold at most K(i) until it ends, and
// keeps R(i) afterwards, its bytes at rest. So it may still take due(i) = K(i) - H(i), and gives back
// returns(i) = H(i) - R(i) when it ends. All other held bytes are outside iterations. U is the sum of everything held,
// B the budget. An iteration that waits for its permit, or whose memory is in host memory and stays there, does not
// run: it may wait for others to end, so nobody counts on its end.
//
// The rule. A request of b bytes is granted if U + b <= B and if, afterwards, every iteration i that is older than the
// requester could still reach its peak once the iterations older than i have ended and given their bytes back:
//
//     U + b  -  sum of returns(j) over all j older than i  +  due(i)  <=  B
//
// It is the banker's rule, asked of each older iteration by itself. Adding up the dues of all older iterations would be
// safe as well, but would refuse more: they need their peaks one after the other, not together.
//
// Why every iteration ends. Call the inequality without b the condition of i. Every step keeps all conditions:
//   - A grant of b bytes to r. The rule checks the conditions of the iterations older than r. In r's own condition U
//     rises by b and due(r) falls by b. For iterations younger than r, U rises by b and returns(r) rises by b.
//   - r frees f bytes. U falls by f. For younger iterations returns(r) falls by f as well; in r's own condition due(r)
//     rises by at most f; for older iterations only U falls.
//   - r goes on. K(r) falls, and with it due(r).
//   - A new iteration begins. It is the youngest, and its condition reads: all bytes at rest and outside, and its peak,
//     fit the budget. That is the admission rule (admission.py).
//   - r ends. U falls by returns(r), and nobody counts on returns(r) any more.
// No iteration is older than the oldest, so the oldest is refused only if U + b > B, which its own condition excludes.
// So it ends and gives back, the next is then the oldest, and so on.
//
// On the board an iteration ends when its last kernel is launched, before the device has passed it. Its ephemeral bytes
// then count as outside for a moment. Requests may wait for them, but not for ever: launched kernels end by themselves.
//
// Jobs outside iterations. A job that comes in, returns from host memory or builds its model also waits for memory, and
// what it gets does not return. Such a job is granted bytes if the conditions of all running iterations still hold
// afterwards. While it waits, its bytes are reserved: iterations other than the oldest, and jobs outside iterations
// that came after it, count them as held. Iterations that began after it asked have counted its bytes from the start.
// So when the earlier ones have ended, its request keeps every condition and is granted: if the admission rule counts
// the job, it is not starved. The oldest iteration does not count reservations, so a reservation keeps no iteration
// from ending.
//
// Lanes. A policy may set bytes aside for the iterations of a group of jobs: a lane l of S(l) > 0 bytes. What such
// an iteration holds beyond its bytes at rest is its lane's; used(l) is the sum over the lane's iterations, room(l) =
// max(S(l), used(l)), and unused(l) = room(l) - used(l). What neither is held nor belongs to a lane is common.
//   - Nobody takes the unused bytes of another's lane: a request of a job in lane l is granted only if afterwards
//         U + b  +  sum of unused(m) over all other lanes m  <=  B.
//   - Within its lane, the rule above is asked among the iterations of the lane alone, as if the lane were the device.
//   - An iteration that needs more than its lane has grows the lane: the missing bytes are asked of the common ones, as
//     by a job outside iterations. Only the oldest iteration of a lane does so: what a younger one took beyond the lane
//     would be missing when an older one needs the lane. An iteration whose bytes are not granted waits in its lane.
//   - A job of a lane that asks outside iterations may have what the running iterations of its own lane leave, and
//     common bytes.
// So if the bytes at rest are what was expected, every iteration that fits its lane gets its bytes, whatever happens in
// other lanes:  U + sum of unused(m) over all lanes  <=  B  holds after every grant. This is the safety condition of
// Salus (MLSys'20, section 3.3.2), kept by the board. It breaks when a policy makes lanes larger than fits, when
// the budget falls, or when a job keeps more at rest than was expected; then the next paragraph holds.
//
// What it relies on. K(i) and R(i) are expectations. If an iteration needs more, keeps more, or never goes on, requests
// may wait for each other; the engine then evicts a job (eviction.py). The same holds where the board's lock-free read
// of other slots is a moment old (leases.cpp). The rule never exceeds the budget, whatever is expected.
#pragma once

#include <algorithm>
#include <cstdint>

namespace neaptide {

/// `full`: the bytes are not there. `reserved`: they are, but must be left to an older iteration or an earlier job.
enum class Grant { granted, full, reserved };

/// The bytes that must stay free for iterations older than a requester.
class OlderIterations {
 public:
  /// Adds the next iteration; call it for the oldest first.
  constexpr void add(std::int64_t due, std::int64_t returns) {
    kept_ = std::max(kept_, due - returned_);
    returned_ += returns;
    any_ = true;
  }
  constexpr std::int64_t kept_bytes() const { return kept_; }
  constexpr bool any() const { return any_; }

 private:
  std::int64_t kept_ = 0;
  std::int64_t returned_ = 0;
  bool any_ = false;
};

struct MemoryRequest {
  std::int64_t bytes;
  bool iterates;  // asked by a running iteration; otherwise by a job outside iterations
  // For waiting jobs outside iterations; for a requester of that kind, only for those that asked before it.
  std::int64_t reserved;
};

/// Decides a request while `used` bytes of `budget` are held. If the requester is outside iterations, `older` holds all
/// running iterations.
constexpr Grant decide_grant(const MemoryRequest& request, const OlderIterations& older, std::int64_t used,
                             std::int64_t budget) {
  const std::int64_t after = used + request.bytes;
  if (after > budget) return Grant::full;
  if (request.iterates && !older.any()) return Grant::granted;
  return after + request.reserved + older.kept_bytes() <= budget ? Grant::granted : Grant::reserved;
}

/// A lane as a requester of one of its jobs sees it.
struct Lane {
  std::int64_t used = 0;
  std::int64_t size = 0;
  // Its iterations that are older than the requester; if the requester is outside iterations, all of them.
  OlderIterations older;

  constexpr std::int64_t unused() const { return std::max<std::int64_t>(size - used, 0); }
};

/// Decides a request of a job in a lane. `free` bytes are neither held nor kept for other lanes. `away` of the bytes
/// asked for are bytes at rest that the requester's iteration has given back, and that nobody else may have. `common`
/// holds all running iterations in no lane.
constexpr Grant decide_grant_in_lane(const MemoryRequest& request, const Lane& lane, std::int64_t away,
                                     const OlderIterations& common, std::int64_t free) {
  if (request.bytes > free) return Grant::reserved;
  const std::int64_t kept = lane.older.kept_bytes();
  const std::int64_t left = std::max<std::int64_t>(lane.unused() - kept, 0);
  const std::int64_t beyond = request.bytes - away - left;
  if (beyond <= 0) return Grant::granted;
  if (request.iterates && lane.older.any()) return Grant::reserved;
  const Grant grant = decide_grant({beyond, false, request.reserved}, common, 0, free - lane.unused() - away);
  return grant == Grant::granted ? grant : Grant::reserved;
}

}  // namespace neaptide
