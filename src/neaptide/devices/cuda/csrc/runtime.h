// The process's side of a GPU: its slot, its driver and its launch port, made once and found from everywhere.
//
// One GPU of a process is shared; the memory of others is torch's own. A forked child touches nothing of this: get()
// throws there, as CUDA itself does.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "../../native/board.h"
#include "../../native/launch/launch_port.h"
#include "cuda_driver.h"
#include "outside_memory.h"

namespace neaptide::cuda {

struct RuntimeOptions {
  std::string board_path;
  std::string job;
  double wait_seconds = 60;
  bool held = false;                        // launches are held from the beginning
  std::vector<std::string> keeper_command;  // starts the keeper of the board's pages
  std::uint32_t program = 0;                // tells programs apart
};

class Runtime {
 public:
  /// Has first_use() call this, which calls start(). It may throw.
  static void start_on_first_use(void (*begin)());
  /// The program uses CUDA for the first time. Starts the device, once.
  static void first_use();
  /// Joins the board and makes the device's context in this process. Once per process.
  static void start(const RuntimeOptions& options);
  /// Throws std::runtime_error when the device has not started or was stopped, and in a forked child.
  static Runtime& get();
  /// Null then. Changes nothing.
  static Runtime* find() noexcept;
  static bool forked() noexcept;
  /// Waits for what was launched, and gives the memory back. The slot is left when the process ends: until then its
  /// context is on the device.
  static void stop();

  explicit Runtime(const RuntimeOptions& options);
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  Board& board() { return member_->board(); }
  Member& member() { return *member_; }
  CudaDriver& driver() { return *driver_; }
  LaunchPort& port() { return *port_; }
  Arena& arena() { return port_->arena(); }
  /// Counts the memory of this process that is not the arena's, and leases it.
  void count_outside() {
    outside_.update([this] { return driver_->pages().charged_bytes(); });
  }
  int ordinal() const { return ordinal_; }
  std::uint32_t sms() const { return sms_; }

  /// Waits for everything that was launched, without the interpreter lock.
  void drain();
  /// While a graph is captured, what is launched does not run.
  void set_capturing(bool capturing) { captures_.fetch_add(capturing ? 1 : -1); }
  bool capturing() const { return captures_.load(std::memory_order_relaxed) > 0; }
  /// The clock of the stream that the calling thread launches on.
  Streams::Clock& current_clock();

 private:
  void passed(const PassedOps& ops);
  void count_again_and_again();
  std::uint32_t ops_for_an_event();

  std::unique_ptr<Member> member_;
  const int ordinal_;  // of the device among those that this process sees
  OutsideMemory outside_;
  std::unique_ptr<KeeperLine> keeper_;
  std::unique_ptr<CudaDriver> driver_;
  std::uint32_t sms_ = 1;
  std::unique_ptr<LaunchPort> port_;
  std::atomic<int> captures_{0};
  std::mutex counting_mutex_;  // guards what follows
  std::condition_variable counting_changed_;
  bool counting_ = true;
  std::thread counter_;
};

}  // namespace neaptide::cuda
