#include "blocking.h"

#include <utility>

namespace neaptide::soft {

namespace {
// Set once while the module is imported, before any thread can wait.
Surround& surround() {
  static auto* function = new Surround;
  return *function;
}
}  // namespace

void set_blocking(Surround function) { surround() = std::move(function); }

void blocking(const std::function<void()>& wait) {
  if (surround()) {
    surround()(wait);
  } else {
    wait();
  }
}

}  // namespace neaptide::soft
