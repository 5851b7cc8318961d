// A thread that answers a controller's requests while the program is busy elsewhere and launches nothing.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "../../native/member.h"

namespace neaptide::soft {

class Attendant {
 public:
  /// `serve` does what is asked, or finds that a launching thread has done it; it may throw.
  Attendant(Member& member, std::function<void(Request)> serve);
  Attendant(const Attendant&) = delete;
  Attendant& operator=(const Attendant&) = delete;
  /// Waits for a request that is being served.
  ~Attendant();

 private:
  void attend();

  Member& member_;
  std::function<void(Request)> serve_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace neaptide::soft
