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
// Why every iteration ends. Call the inequality without b the condition of i. Granting a request keeps the conditions
// of all older iterations, because the rule checks them, and those of all younger ones, because they only count what
// the requester keeps at rest. Progress keeps them: due(i) falls as i goes on, and freeing lowers U and returns (or
// raises due) by the same amount. For a new iteration, the youngest, the condition reads: all bytes at rest and
// outside, and its peak, fit the budget. That is the admission rule (admission.py). No iteration is older than the
// oldest, so it is refused only if U + b > B, which its own condition excludes. So the oldest ends and gives back, the
// next is then the oldest, and so on.
//
// Jobs outside iterations. A job that comes in, returns from host memory or builds its model also waits for memory, and
// what it gets does not return. Such a job is granted bytes if the conditions of all running iterations survive that.
// While it waits, its bytes are reserved: iterations other than the oldest, and jobs outside iterations that came after
// it, count them as held. So once the iterations that began before it asked have ended, the conditions of all others
// hold with its bytes included, and it gets them: if the admission rule counts it, it is not starved. The oldest
// iteration does not count reservations, so a reservation keeps no iteration from ending.
//
// What it relies on. K(i) and R(i) are expectations. If an iteration needs more, keeps more, or never goes on, requests
// may wait for each other; the engine then evicts a job (eviction.py). The rule never exceeds the budget, whatever is
// expected.
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
  bool iterates;          // asked by a running iteration; otherwise by a job outside iterations
  std::int64_t reserved;  // for jobs outside iterations that wait; before the requester, if it is such a job itself
};

/// Decides a request while `used` bytes of `budget` are held. For a job outside iterations all of them are older.
constexpr Grant decide_grant(const MemoryRequest& request, const OlderIterations& older, std::int64_t used,
                             std::int64_t budget) {
  const std::int64_t after = used + request.bytes;
  if (after > budget) return Grant::full;
  if (request.iterates && !older.any()) return Grant::granted;
  return after + request.reserved + older.kept_bytes() <= budget ? Grant::granted : Grant::reserved;
}

}  // namespace neaptide
