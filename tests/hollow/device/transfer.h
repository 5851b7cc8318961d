// Copies and fills as operations of a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace hollow {

/// Copies bytes in a stream. The call waits if asked to, or if one side is pageable host memory, as CUDA's does.
cudaError_t transfer(void* to, const void* from, std::size_t bytes, cudaStream_t stream, bool wait);
cudaError_t transfer_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
                          std::size_t height, cudaStream_t stream);
cudaError_t set(void* to, std::uint64_t value, std::size_t width, std::size_t count, cudaStream_t stream, bool wait);

/// Waits for a stream; what broke the context there is reported.
cudaError_t finish(cudaStream_t stream);

}  // namespace hollow
