// What CUDA's runtime headers need of crt/host_defines.h to declare their functions to a C++ compiler. It is used where
// the package nvidia-cuda-crt is not installed: torch's own packages do not bring it.
#pragma once

#define CUDARTAPI
#define CUDARTAPI_CDECL
#define CUDAAPI
#define __no_return__ __attribute__((noreturn))
#define __noinline__ __attribute__((noinline))
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __thread__ __thread
#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define __grid_constant__
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define __builtin_align__(bytes) __align__(bytes)
