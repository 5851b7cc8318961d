// What torch asks an accelerator for: generators, pinned memory, resizing.
#pragma once

namespace neaptide::soft {

/// Tells torch about the device. Once.
void register_hooks();

}  // namespace neaptide::soft
