#include "blocking.h"

#include <utility>

namespace neaptide {

namespace {
// Set once while the module is imported, before any thread can wait.
Surround& surround() {
  static auto* function = new Surround;
  return *function;
}
void (*run_handlers)() = nullptr;
}  // namespace

void set_interrupts(void (*interrupts)()) { run_handlers = interrupts; }

void look_for_interrupts() {
  if (run_handlers != nullptr) run_handlers();
}

void blocking_with_interrupts(const std::function<bool(std::chrono::steady_clock::time_point)>& wait) {
  for (bool over = false; !over;) {
    blocking([&] { over = wait(std::chrono::steady_clock::now() + std::chrono::milliseconds(100)); });
    if (!over) look_for_interrupts();
  }
}

void set_blocking(Surround function) { surround() = std::move(function); }

void blocking(const std::function<void()>& wait) {
  if (surround()) {
    surround()(wait);
  } else {
    wait();
  }
}

}  // namespace neaptide
