// The C interface that Python loads. Job numbers are those that neaptide_add_job gave.
#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "engine.h"

using neaptide::Contention;
using neaptide::Demand;
using neaptide::Engine;
using neaptide::Event;
using neaptide::Plan;
using neaptide::Setting;

extern "C" {

// The fields of a structure, one line each; see layout.h.
const char* neaptide_layout(const char* name) {
  static const std::map<std::string, std::string> layouts = {
      {"plan", NEAPTIDE_LAYOUT(Plan, NEAPTIDE_PLAN_FIELDS)},
      {"event", NEAPTIDE_LAYOUT(Event, NEAPTIDE_EVENT_FIELDS)},
      {"setting", NEAPTIDE_LAYOUT(Setting, NEAPTIDE_SETTING_FIELDS)},
      {"contention", NEAPTIDE_LAYOUT(Contention, NEAPTIDE_CONTENTION_FIELDS)},
  };
  return layouts.at(name).c_str();
}

Engine* neaptide_create(const Setting* setting, const Contention* contention) {
  return std::make_unique<Engine>(*setting, *contention).release();
}
void neaptide_destroy(Engine* engine) { std::unique_ptr<Engine>{engine}; }

int neaptide_add_job(Engine* engine) { return engine->add_job(); }
void neaptide_add_plan(Engine* engine, int job, const Plan* plan) { engine->add_plan(job, *plan); }

void neaptide_advance(Engine* engine, int64_t limit_ns, Event* event) { *event = engine->advance(limit_ns); }

void neaptide_set_budget(Engine* engine, int64_t budget, int64_t highest) { engine->set_budget(budget, highest); }
void neaptide_admit(Engine* engine, int job, int64_t ceiling) { engine->admit(job, ceiling); }
void neaptide_start(Engine* engine, int job) { engine->start(job); }
void neaptide_set_plan(Engine* engine, int job, int plan) { engine->set_plan(job, plan); }
// until_ns: kNever: it is open, below 0: it is closed.
void neaptide_set_gate(Engine* engine, int job, int64_t until_ns, int holds_light) {
  engine->set_gate(job, until_ns, holds_light != 0);
}
void neaptide_set_limit(Engine* engine, int job, int64_t bytes) { engine->set_limit(job, bytes); }
void neaptide_set_class(Engine* engine, int job, int deadline) { engine->set_class(job, deadline != 0); }
void neaptide_set_share(Engine* engine, int job, double share) { engine->set_share(job, share); }
void neaptide_cap(Engine* engine, int job, int64_t in_flight) { engine->cap(job, in_flight); }
void neaptide_set_lane(Engine* engine, int job, int lane) { engine->set_lane(job, lane); }
void neaptide_size_lane(Engine* engine, int lane, int64_t bytes) { engine->size_lane(lane, bytes); }
void neaptide_suspend(Engine* engine, int job) { engine->suspend(job); }
void neaptide_resume(Engine* engine, int job) { engine->resume(job); }
void neaptide_end(Engine* engine, int job) { engine->end(job); }
void neaptide_evict(Engine* engine, int job) { engine->evict(job); }
int neaptide_give_up(Engine* engine, int job) { return engine->give_up(job) ? 1 : 0; }

// Writes the position and the held bytes of every job.
void neaptide_observe(const Engine* engine, int64_t* positions, int64_t* held) {
  for (size_t job = 0; job < engine->size(); ++job) {
    positions[job] = engine->position(static_cast<int>(job));
    held[job] = engine->held(static_cast<int>(job));
  }
}

// What the choice of a job to evict depends on: the place of every job among the running iterations, oldest first, or
// -1, and whether its bytes are all on the device, whether it waits for memory, and whether a gate holds it back.
void neaptide_holders(const Engine* engine, int64_t* age, uint8_t* resident, uint8_t* waits, uint8_t* gated) {
  for (size_t id = 0; id < engine->size(); ++id) {
    const neaptide::Job& job = engine->job(static_cast<int>(id));
    age[id] = -1;
    resident[id] = job.place == neaptide::Place::kResident;
    waits[id] = job.waits_for_memory;
    gated[id] = job.held_by_gate;
  }
  int64_t place = 0;
  for (const int id : engine->running()) age[id] = place++;
}

int64_t neaptide_op_events(const Engine* engine) { return engine->op_events(); }
int64_t neaptide_peak(const Engine* engine) { return engine->peak(); }
int64_t neaptide_over(const Engine* engine) { return engine->over(); }

// The series of a job; job -1 stands for all jobs together. neaptide_series_length completes a series: call it first.
int64_t neaptide_series_length(Engine* engine, int job) {
  engine->series(job).close();
  return static_cast<int64_t>(engine->series(job).size());
}
void neaptide_series(Engine* engine, int job, int64_t* at_ns, int64_t* level) {
  const neaptide::Series& series = engine->series(job);
  std::copy_n(series.at_ns(), series.size(), at_ns);
  std::copy_n(series.level(), series.size(), level);
}

void neaptide_rates(const Demand* demands, int64_t count, const Contention* contention, double* rates) {
  neaptide::find_rates(demands, static_cast<size_t>(count), *contention, rates);
}

}  // extern "C"
