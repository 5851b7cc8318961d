#include "request_thread.h"

#include <pthread.h>

#include <utility>

namespace neaptide {

RequestThread::RequestThread(Member& member, std::function<void(Request)> serve)
    : member_(member), serve_(std::move(serve)) {
  thread_ = std::thread([this] { run(); });
}

RequestThread::~RequestThread() {
  stopping_.store(true);
  member_.poke_controls();
  thread_.join();
}

void RequestThread::run() {
  pthread_setname_np(pthread_self(), "requests");
  for (;;) {
    member_.wait_control([this] { return stopping_.load() || member_.request() != Request::none; }, Deadline::max());
    if (stopping_.load()) return;
    try {
      serve_(member_.request());
    } catch (...) {  // nothing was moved; the request is finished, and the daemon sees that the memory is still held
    }
  }
}

}  // namespace neaptide
