#include "stream.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "../../../core/rules/heavy.h"
#include "../../native/process.h"
#include "sm_queue/sm_lane.h"

namespace neaptide::soft {

namespace {
// Handing SMs over costs a sleep, a wake and cold caches. Three and four narrow jobs on two SMs together reach 0.85 and
// 0.91 of what two do with turns of 4 ms, 0.91 and 0.93 with 8, and 0.94 and 0.98 with these.
constexpr std::uint64_t kTurnNs = 16'000'000;
// Short kernels run on while the link is behind by no more than this: each pause costs a sleep and a wake-up.
constexpr std::uint64_t kLinkBehindNs = 1'000'000;
constexpr double kLongestNs = 1e12;  // that one kernel asks of the link
}  // namespace

void ErrorBox::put(std::exception_ptr error) {
  std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);
  full_.store(true, std::memory_order_release);
}

void ErrorBox::take_and_throw() {
  std::exception_ptr error;
  {
    std::lock_guard lock(mutex_);
    error = std::exchange(error_, nullptr);
    full_.store(false, std::memory_order_release);
  }
  if (error) std::rethrow_exception(error);
}

void await(const SmRegion& sms, HostDriver& driver, const Event& event) {
  if (driver.passed(event)) return;
  blocking([&] {
    static thread_local AdaptiveSpin spin;
    spin.wait([&] { return driver.passed(event); }, [&] { return any_sm_free(sms); },
              [&] { driver.wait(event, Deadline::max()); });
  });
}

/// The SM tokens of one worker, kept from kernel to kernel while no other worker waits or the turn is young.
class Stream::Tokens {
 public:
  explicit Tokens(Member& member) : lane_(member) {}

  void take(std::uint32_t width) {
    if (lane_.held() > 0) {
      lane_.renew(width, kTurnNs);
    } else {
      lane_.acquire(width);
    }
  }
  void give() { lane_.release(); }

 private:
  SmLane lane_;
};

Stream::Stream(StreamContext context, StreamId id) : context_(context), id_(id), sms_(sms_of(context.sms)) {
  worker_ = std::thread([this] { work(); });
}

Stream::~Stream() {
  {
    std::lock_guard lock(mutex_);
    stopping_.store(true);
  }
  work_.notify_all();
  worker_.join();
}

void Stream::push(std::unique_ptr<Task> task) {
  if (task->kernel()) {
    context_.port.wait_for_room();
    context_.port.launched();
  }
  bool wake;
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(task));
    context_.driver.launch(id_);
    wake = std::exchange(sleeping_, false);
  }
  if (wake) work_.notify_one();
}

void Stream::wait_for(const Event& event) {
  class Wait final : public Task {
   public:
    Wait(HostDriver& driver, const Event& event) : Task(0), driver_(driver), event_(event) {}
    void run() override { driver_.wait(event_, Deadline::max()); }
    bool waits() const override { return true; }

   private:
    HostDriver& driver_;
    Event event_;
  };
  if (event.stream == id_ || context_.driver.passed(event)) return;
  push(std::make_unique<Wait>(context_.driver, event));
}

void Stream::drain() { await(context_.sms, context_.driver, record()); }

bool Stream::next_batch(std::vector<std::unique_ptr<Task>>& batch) {
  batch.clear();
  if (!more()) {
    idle_spin_.wait([this] { return more() || stopping_.load(); }, [this] { return any_sm_free(context_.sms); },
                    [this] { sleep(); });
  }
  std::lock_guard lock(mutex_);
  std::swap(batch, queue_);
  taken_ += batch.size();
  return !batch.empty();
}

void Stream::sleep() {
  std::unique_lock lock(mutex_);
  while (queue_.empty() && !stopping_.load()) {
    sleeping_ = true;
    work_.wait(lock);
  }
  sleeping_ = false;
}

void Stream::work() {
  pthread_setname_np(pthread_self(), "soft-stream");
  take_short_turns();  // the device must not wait for the turns of programs' threads
  context_.prepare_worker();
  Tokens tokens(context_.member);
  std::vector<std::unique_ptr<Task>> batch;
  while (next_batch(batch)) {
    for (std::size_t i = 0; i < batch.size(); ++i) run(std::move(batch[i]), tokens, i + 1 == batch.size());
  }
}

/// Waits for everything that can hold a kernel, and takes its SMs. Gates may close while it waits for the SMs.
void Stream::prepare_kernel(const Task& task, Tokens& tokens) {
  const bool heavy = is_heavy(task.width(), sms_);
  const std::uint64_t lasts_ns = task.expected_ns();
  do {
    if (!context_.port.may_run(heavy, lasts_ns)) {
      tokens.give();
      context_.port.wait_until_may_run(heavy, lasts_ns);
    }
    keep_to_share(tokens);
    tokens.take(task.width());
  } while (!context_.port.may_run(heavy, lasts_ns));
  context_.set_width(task.width());
}

/// Pauses while the job is ahead of its share of SM time.
void Stream::keep_to_share(Tokens& tokens) {
  Member& member = context_.member;
  for (;;) {
    const double share = member.share();
    if (share >= 1) return;
    const std::uint64_t now = now_ns(), next = context_.pace.next_ns(now, share * sms_);
    if (next <= now) return;
    tokens.give();
    const Waits waits(member);
    member.wait_control([&] { return member.share() != share; }, Deadline(std::chrono::nanoseconds(next)));
  }
}

void Stream::run_kernel(Task& task) {
  const std::uint64_t moved = context_.member.may_pay_for_link() ? task.moved_bytes() : 0;
  const std::uint64_t began = now_ns();
  task.run();
  const std::uint64_t ended = now_ns();
  task.took(ended - began);
  if (const double share = context_.member.share(); share < 1)
    context_.pace.ran(began, ended, task.width(), share * sms_);
  if (moved > 0) {
    const double takes_ns = context_.member.over_the_link_ns(moved, context_.link_bandwidth);
    if (takes_ns >= 1)
      link_done_ns_ = take_link(context_.sms, ended, static_cast<std::uint64_t>(std::min(takes_ns, kLongestNs)));
  }
}

/// Waits until the link has carried the bytes of the kernels so far. The SMs are free meanwhile: in the simulator, too,
/// an op uses the less of them the longer the link makes it.
void Stream::await_link(Tokens& tokens, bool last_in_sight) {
  if (link_done_ns_ > now_ns() + (last_in_sight && !more() ? 0 : kLinkBehindNs)) {
    tokens.give();
    std::this_thread::sleep_until(Deadline(std::chrono::nanoseconds(link_done_ns_)));
  }
  if (link_done_ns_ <= now_ns()) link_done_ns_ = 0;
}

void Stream::run(std::unique_ptr<Task> task, Tokens& tokens, bool last_in_sight) {
  const bool kernel = task->kernel();
  try {
    if (kernel) {
      prepare_kernel(*task, tokens);
      run_kernel(*task);
      if (link_done_ns_ > 0) await_link(tokens, last_in_sight);
    } else {
      if (task->waits()) tokens.give();
      task->run();
    }
  } catch (...) {
    context_.errors.put(std::current_exception());
  }
  task.reset();
  if (last_in_sight && !more()) tokens.give();
  if (kernel) context_.port.passed();
  context_.driver.complete(id_);
}

}  // namespace neaptide::soft
