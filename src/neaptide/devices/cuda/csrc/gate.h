// Holds, counts and times the program's ops on the device, on every thread that launches any.
//
// Whether an op is on the device is known from its arguments, which torch shows at a price: as much as all the rest of
// what is done for an op. So they are asked for only while ops may be held or are logged. Otherwise every op but a view
// counts as being inside a launch, because an eviction waits for what may be on the device; and it is counted as a
// launch unless the operator was only seen without the device when arguments were shown last.
#pragma once

namespace neaptide::cuda {

/// Has torch call us before and after each op, from now on. Ops on other devices pass.
void install_gate();
/// Has torch show the arguments of each op that begins from now on, until ops are free again.
void look_at_arguments();

/// An op that torch does not know of, such as the replay of a graph: enter_op() waits as for any op, and leave_op()
/// must follow on the same thread.
void enter_op(const char* name);
void leave_op();

}  // namespace neaptide::cuda
