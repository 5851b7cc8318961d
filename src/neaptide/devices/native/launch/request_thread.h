// A thread that serves the daemon's requests while the program is busy elsewhere and launches nothing.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "../member.h"

namespace neaptide {

class RequestThread {
 public:
  /// `serve` does what is asked, or finds that a launching thread has done it; it may throw.
  RequestThread(Member& member, std::function<void(Request)> serve);
  RequestThread(const RequestThread&) = delete;
  RequestThread& operator=(const RequestThread&) = delete;
  /// Waits for a request that is being served.
  ~RequestThread();

 private:
  void run();

  Member& member_;
  std::function<void(Request)> serve_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace neaptide
