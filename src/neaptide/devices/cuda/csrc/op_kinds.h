// Which ops may take device memory that no allocator knows of: the first of their kind.
//
// CUDA loads a kernel when it is first launched, and torch makes a library's handle, with its buffers, when a thread
// first needs one. Which kernels an op launches depends on its name and on the types and sizes of its arguments. So an
// op is of a new kind if this process has launched none of its name with arguments of these types and about these
// sizes, or this thread none of its name.
#pragma once

#include <cstdint>

namespace neaptide::cuda {

/// Whether the op is of a new kind. From then on it is not. `arguments` tells types and sizes of arguments apart.
bool first_of_its_kind(const char* name, std::uint64_t arguments);

}  // namespace neaptide::cuda
