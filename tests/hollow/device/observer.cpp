// For tests: reads a board from outside, without a place on it.
#include <cstdio>
#include <string>

#include "board.h"
#include "calls.h"

using namespace hollow;

EXPORT void* hollow_open(const char* path) { return new Board(path, false); }
EXPORT void hollow_close(void* board) { delete static_cast<Board*>(board); }

EXPORT std::uint64_t hollow_used(void* board, int device) { return static_cast<Board*>(board)->used(device); }
EXPORT std::uint64_t hollow_capacity(void* board, int device) {
  return static_cast<Board*>(board)->layout().device[device].capacity;
}
EXPORT std::uint64_t hollow_peak(void* board, int device) {
  return static_cast<Board*>(board)->layout().device[device].peak;
}
EXPORT void hollow_reset_peak(void* handle, int device) {
  auto* board = static_cast<Board*>(handle);
  const std::uint64_t used = board->used(device);
  Board::Lock lock(*board);
  board->layout().device[device].peak = used;
}

/// One line "PID DEVICE CONTEXT-BYTES BYTES BUSY-NS" for each process that has something on a device.
EXPORT int hollow_processes(void* handle, char* out, std::size_t size) {
  auto* board = static_cast<Board*>(handle);
  Board::Lock lock(*board);
  board->reap(true);
  std::string text;
  for (const Process& process : board->layout().process) {
    for (int device = 0; process.pid && device < board->layout().devices; ++device) {
      const Use& use = process.use[device];
      text += std::to_string(process.pid) + " " + std::to_string(device) + " " + std::to_string(use.context) + " " +
              std::to_string(board->used_by(process, device)) + " " + std::to_string(use.busy.load()) + "\n";
    }
  }
  return std::snprintf(out, size, "%s", text.c_str());
}

/// One line "NAME CALLS CHARGED-NS" for each call; of one process, or of all that were ever here (pid 0).
EXPORT int hollow_calls(void* handle, int pid, char* out, std::size_t size) {
  auto* board = static_cast<Board*>(handle);
  Board::Lock lock(*board);
  const Layout& layout = board->layout();
  std::string text;
  for (int i = 0; i < layout.calls; ++i) {
    std::uint64_t calls = pid ? 0 : layout.departed[i].calls.load(),
                  charged = pid ? 0 : layout.departed[i].charged.load();
    for (const Process& process : layout.process) {
      if (!process.pid || (pid && process.pid != pid)) continue;
      calls += process.tallies[i].calls;
      charged += process.tallies[i].charged;
    }
    if (calls)
      text += layout.names[i] + std::string(" ") + std::to_string(calls) + " " + std::to_string(charged) + "\n";
  }
  return std::snprintf(out, size, "%s", text.c_str());
}
