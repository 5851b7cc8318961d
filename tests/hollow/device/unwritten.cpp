// What a call does that nobody wrote: it says its name, is counted, and its caller gets an error.
#include <cstdio>
#include <string>

#include "board.h"
#include "calls.h"

extern "C" long hollow_unwritten(const char* name, int* said, long answer) {
  // Every caller sees the error; the name is printed once per process.
  if (!__atomic_exchange_n(said, 1, __ATOMIC_RELAXED))
    std::fprintf(stderr, "hollow: %s was called, which the hollow device does not have\n", name);
  const hollow::Call call(("unwritten:" + std::string(name)).c_str());
  static_cast<void>(call.enter());
  return answer;
}
