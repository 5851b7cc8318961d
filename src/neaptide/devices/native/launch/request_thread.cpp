#include "request_thread.h"

#include <pthread.h>

namespace neaptide {

RequestThread::RequestThread(Member& member, RequestService& service) : member_(member), service_(service) {
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
    member_.wait_control([this] { return stopping_.load() || service_.wanted(); }, Deadline::max());
    if (stopping_.load()) return;
    try {
      service_.serve();
    } catch (...) {  // nothing was moved; the request is finished, and the daemon sees that the memory is still held
    }
  }
}

}  // namespace neaptide
