// A thread that serves the daemon's requests while the program is busy elsewhere and launches nothing, and brings back
// what a thread of the program has moved to host memory.
#pragma once

#include <atomic>
#include <thread>

#include "../member.h"
#include "request_service.h"

namespace neaptide {

class RequestThread {
 public:
  RequestThread(Member& member, RequestService& service);
  RequestThread(const RequestThread&) = delete;
  RequestThread& operator=(const RequestThread&) = delete;
  /// Waits for a request that is being served.
  ~RequestThread();

 private:
  void run();

  Member& member_;
  RequestService& service_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace neaptide
