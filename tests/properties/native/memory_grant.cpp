// memory_grant.h for Python.
#include "../../../src/neaptide/core/rules/memory_grant.h"

using namespace neaptide;

// The dues and returns are those of the older iterations, oldest first.
extern "C" int decide(int64_t bytes, int iterates, int64_t reserved, const int64_t* due, const int64_t* returns,
                      int64_t count, int64_t used, int64_t budget) {
  OlderIterations older;
  for (int64_t i = 0; i < count; ++i) older.add(due[i], returns[i]);
  return static_cast<int>(decide_grant({bytes, iterates != 0, reserved}, older, used, budget));
}

// A request of an iteration in a lane. The dues and returns are those of the lane's older iterations; nothing runs
// outside lanes.
extern "C" int decide_in_lane(int64_t bytes, int64_t reserved, const int64_t* due, const int64_t* returns,
                              int64_t count, int64_t lane_used, int64_t lane_bytes, int64_t free) {
  Lane lane{lane_used, lane_bytes, {}};
  for (int64_t i = 0; i < count; ++i) lane.older.add(due[i], returns[i]);
  return static_cast<int>(decide_grant_in_lane({bytes, true, reserved}, lane, 0, {}, free));
}
