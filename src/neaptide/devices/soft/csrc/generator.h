// Random numbers whose sequence is fixed at launch.
//
// Kernels that draw take turns with one CPU generator in the order of their launches: within a stream by its order,
// across streams by a wait in the later stream. So results do not depend on how streams interleave, and equal those of
// the CPU with the same seed. A new seed starts a new generator: launched kernels keep theirs, and nothing waits.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>

#include <mutex>
#include <optional>

#include "../../native/driver.h"

namespace neaptide::soft {

class Stream;

class SoftGenerator final : public c10::GeneratorImpl {
 public:
  SoftGenerator();

  void set_current_seed(std::uint64_t seed) override;
  void set_offset(std::uint64_t /*offset*/) override {}
  std::uint64_t get_offset() const override { return 0; }
  std::uint64_t current_seed() const override;
  std::uint64_t seed() override;
  void set_state(const c10::TensorImpl& state) override;
  /// Waits for the launched kernels that draw.
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

 private:
  friend class RandomTurn;
  SoftGenerator* clone_impl() const override;
  void begin_anew(at::Generator host);

  std::mutex launch_mutex_;         // held over a launch that draws, so that turns are in launch order; before the next
  mutable std::mutex state_mutex_;  // a leaf: guards the two below
  at::Generator host_;              // a CPU generator; kernels draw from it
  std::optional<Event> last_;       // the last launch that draws from it
};

/// A launch that draws: make it, launch on the stream, then destroy it.
class RandomTurn {
 public:
  RandomTurn(SoftGenerator& generator, Stream& stream);
  RandomTurn(const RandomTurn&) = delete;
  RandomTurn& operator=(const RandomTurn&) = delete;
  ~RandomTurn();

  /// What the CPU kernel draws from.
  const at::Generator& host() const { return host_; }

 private:
  SoftGenerator& generator_;
  Stream& stream_;
  std::unique_lock<std::mutex> lock_;
  at::Generator host_;
};

const at::Generator& default_generator();
/// The device generator behind a generator argument; the default one for none.
SoftGenerator& soft_generator(const std::optional<at::Generator>& generator);

}  // namespace neaptide::soft
