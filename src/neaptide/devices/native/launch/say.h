// A line on stderr from C++.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <string>

namespace neaptide {

/// Writes the line if stderr takes it now: nobody may be there to read it, and a full pipe would hold the program up.
inline void say(const std::string& line) {
  pollfd out{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&out, 1, 0) == 1 && (out.revents & POLLOUT) != 0)
    static_cast<void>(!::write(STDERR_FILENO, line.data(), line.size()));
}

}  // namespace neaptide
