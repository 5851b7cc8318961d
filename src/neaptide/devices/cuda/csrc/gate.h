// Holds, counts and times the program's ops on the device, on every thread that launches any.
#pragma once

namespace neaptide::cuda {

/// Has torch call us before and after each op, from now on. Ops on other devices pass.
void install_gate();

/// An op that torch does not know of, such as the replay of a graph: enter_op() waits as for any op, and leave_op()
/// must follow on the same thread.
void enter_op(const char* name);
void leave_op();

}  // namespace neaptide::cuda
