// The two kinds of physical memory: a page that other processes can import, and a stretch of this process's own memory.
#pragma once

#include <memory>

#include "virtual_memory.h"

namespace hollow {

/// Nothing if the device has too few bytes.
std::shared_ptr<Physical> create_physical(int device, std::size_t bytes, bool exportable);
/// Nothing if it is no descriptor of a page.
std::shared_ptr<Physical> import_physical(int descriptor);

}  // namespace hollow
