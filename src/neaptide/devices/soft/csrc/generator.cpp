#include "generator.h"

#include "allocator.h"
#include "runtime.h"

namespace neaptide::soft {

SoftGenerator::SoftGenerator()
    : c10::GeneratorImpl(soft_device(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
      host_(at::detail::createCPUGenerator()) {}

void SoftGenerator::begin_anew(at::Generator host) {
  std::lock_guard lock(state_mutex_);
  host_ = std::move(host);
  last_.reset();
}

void SoftGenerator::set_current_seed(std::uint64_t seed) { begin_anew(at::detail::createCPUGenerator(seed)); }

std::uint64_t SoftGenerator::current_seed() const {
  std::lock_guard lock(state_mutex_);
  return host_.current_seed();
}

std::uint64_t SoftGenerator::seed() {
  auto host = at::detail::createCPUGenerator();
  const auto seed = host.seed();
  begin_anew(std::move(host));
  return seed;
}

void SoftGenerator::set_state(const c10::TensorImpl& state) {
  auto host = at::detail::createCPUGenerator();
  host.unsafeGetGeneratorImpl()->set_state(state);
  begin_anew(std::move(host));
}

c10::intrusive_ptr<c10::TensorImpl> SoftGenerator::get_state() const {
  at::Generator host;
  std::optional<Event> last;
  {
    std::lock_guard lock(state_mutex_);
    host = host_;
    last = last_;
  }
  if (last) await(Runtime::get().sms(), Runtime::get().driver(), *last);
  return host.unsafeGetGeneratorImpl()->get_state();
}

SoftGenerator* SoftGenerator::clone_impl() const {
  auto result = std::make_unique<SoftGenerator>();
  result->set_state(*get_state());
  return result.release();
}

RandomTurn::RandomTurn(SoftGenerator& generator, Stream& stream)
    : generator_(generator), stream_(stream), lock_(generator.launch_mutex_, std::try_to_lock) {
  if (!lock_.owns_lock()) blocking([this] { lock_.lock(); });
  std::lock_guard lock(generator_.state_mutex_);
  host_ = generator_.host_;
  if (generator_.last_) stream_.wait_for(*generator_.last_);
}

RandomTurn::~RandomTurn() {
  std::lock_guard lock(generator_.state_mutex_);
  if (generator_.host_ == host_) generator_.last_ = stream_.record();  // else a new seed was set meanwhile
}

const at::Generator& default_generator() {
  static auto* generator = new at::Generator(at::make_generator<SoftGenerator>());
  return *generator;
}

SoftGenerator& soft_generator(const std::optional<at::Generator>& generator) {
  if (!generator || !generator->defined()) return *default_generator().get<SoftGenerator>();
  auto* found = dynamic_cast<SoftGenerator*>(generator->unsafeGetGeneratorImpl());
  TORCH_CHECK(found != nullptr, "Expected a 'soft' device type for generator but found '", generator->device().type(),
              "'");
  return *found;
}

}  // namespace neaptide::soft
