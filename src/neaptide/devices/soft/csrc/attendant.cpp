#include "attendant.h"

#include <pthread.h>

#include <utility>

namespace neaptide::soft {

Attendant::Attendant(Member& member, std::function<void(Request)> serve) : member_(member), serve_(std::move(serve)) {
  thread_ = std::thread([this] { attend(); });
}

Attendant::~Attendant() {
  stopping_.store(true);
  member_.poke_controls();
  thread_.join();
}

void Attendant::attend() {
  pthread_setname_np(pthread_self(), "soft-attendant");
  for (;;) {
    member_.wait_control([this] { return stopping_.load() || member_.request() != Request::none; }, Deadline::max());
    if (stopping_.load()) return;
    try {
      serve_(member_.request());
    } catch (...) {  // nothing was moved; the request is finished, and a controller sees that the memory is still held
    }
  }
}

}  // namespace neaptide::soft
