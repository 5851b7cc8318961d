// The boards that this process has mapped, for two things that happen to a whole process.
//
// A fork: the child closes its copies of the files, because they would keep the locks of its parent's slots
// (slot_locks.h). A file that is cut short: touching what is missing raises SIGBUS; the handler makes the file whole
// again, with zeros, and the words are put right like other damage. Any other SIGBUS goes to the handler before.
#pragma once

#include <cstddef>

namespace neaptide {

/// Knows a mapping until its end. Only so many can be known; one more works, without the two protections.
class KnownMapping {
 public:
  KnownMapping(void* memory, std::size_t bytes, int file);
  KnownMapping(const KnownMapping&) = delete;
  KnownMapping& operator=(const KnownMapping&) = delete;
  ~KnownMapping();

 private:
  int place_ = -1;
};

}  // namespace neaptide
