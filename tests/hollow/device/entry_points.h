// Finds exported calls by name, as cuGetProcAddress does.
#pragma once

namespace hollow {

/// The newest version of a call, or nullptr.
void* entry_point(const char* symbol);

}  // namespace hollow
