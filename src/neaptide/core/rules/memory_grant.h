// Who gets memory: the rule that the board and the simulator both apply to every request.
//
// Words. Running iterations are ordered by age. An iteration i holds H(i), will hold at most K(i) until it ends, and
// keeps R(i) afterwards, its bytes at rest. So it may still take due(i) = K(i) - H(i), and gives back
// returns(i) = H(i) - R(i) when it ends. All other held bytes are outside iterations. U is the sum of everything held,
// B the budget.
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

}  // namespace neaptide
