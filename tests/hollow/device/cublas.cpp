// libcublas and libcublasLt: products that take time and compute nothing.
#include <cstring>

#include "library.h"

using namespace hollow;

namespace {

enum Status { kSuccess = 0, kNotInitialized = 1, kAllocFailed = 3, kExecutionFailed = 13 };

std::shared_ptr<LibraryHandle> find(void* handle) { return registry<LibraryHandle>().find(handle); }

int product(void* handle, double m, double n, double k, double batch = 1) {
  const auto found = find(handle);
  if (!found) return kNotInitialized;
  return found->run(2 * m * n * k * batch) ? kExecutionFailed : kSuccess;
}

}  // namespace

EXPORT int cublasCreate_v2(void** out) {
  LIBRARY_CALL;
  auto made = LibraryHandle::create(current_physical());
  if (!made) return kAllocFailed;
  *out = registry<LibraryHandle>().add(std::move(made));
  return kSuccess;
}
EXPORT int cublasDestroy_v2(void* handle) {
  LIBRARY_CALL;
  return registry<LibraryHandle>().remove(handle) ? kSuccess : kNotInitialized;
}

#define WITH_HANDLE(handle, statement) \
  LIBRARY_CALL;                        \
  const auto found = find(handle);     \
  if (!found) return kNotInitialized;  \
  statement;                           \
  return kSuccess
EXPORT int cublasSetStream_v2(void* handle, cudaStream_t stream) { WITH_HANDLE(handle, found->stream = stream); }
EXPORT int cublasGetStream_v2(void* handle, cudaStream_t* stream) { WITH_HANDLE(handle, *stream = found->stream); }
EXPORT int cublasSetWorkspace_v2(void* handle, void*, size_t) { WITH_HANDLE(handle, ); }
EXPORT int cublasSetSmCountTarget(void* handle, int) { WITH_HANDLE(handle, ); }
EXPORT int cublasSetMathMode(void* handle, int mode) { WITH_HANDLE(handle, found->math_mode = mode); }
EXPORT int cublasGetMathMode(void* handle, int* mode) { WITH_HANDLE(handle, *mode = found->math_mode); }
EXPORT int cublasSetPointerMode_v2(void* handle, int mode) { WITH_HANDLE(handle, found->pointer_mode = mode); }
EXPORT int cublasGetPointerMode_v2(void* handle, int* mode) { WITH_HANDLE(handle, *mode = found->pointer_mode); }

// Every product's arguments begin (handle, transa, transb, m, n, k); those that follow are not looked at, except for
// the count of a batch.
#define GEMM(name)                                               \
  EXPORT int name(void* handle, int, int, int m, int n, int k) { \
    LIBRARY_CALL;                                                \
    return product(handle, m, n, k);                             \
  }
GEMM(cublasSgemm_v2)
GEMM(cublasDgemm_v2)
GEMM(cublasCgemm_v2)
GEMM(cublasZgemm_v2)
GEMM(cublasSgemmEx)
GEMM(cublasGemmEx)
#define GEMM_BATCHED(name)                                                                                          \
  EXPORT int name(void* handle, int, int, int m, int n, int k, void*, void*, int, long long, void*, int, long long, \
                  void*, void*, int, long long, int batch) {                                                        \
    LIBRARY_CALL;                                                                                                   \
    return product(handle, m, n, k, batch);                                                                         \
  }
GEMM_BATCHED(cublasSgemmStridedBatched)
GEMM_BATCHED(cublasDgemmStridedBatched)
GEMM_BATCHED(cublasCgemmStridedBatched)
GEMM_BATCHED(cublasZgemmStridedBatched)
EXPORT int cublasGemmStridedBatchedEx(void* handle, int, int, int m, int n, int k, void*, void*, int, int, long long,
                                      void*, int, int, long long, void*, void*, int, int, long long, int batch, int,
                                      int) {
  LIBRARY_CALL;
  return product(handle, m, n, k, batch);
}
#define GEMV(name)                                   \
  EXPORT int name(void* handle, int, int m, int n) { \
    LIBRARY_CALL;                                    \
    return product(handle, m, n, 1);                 \
  }
GEMV(cublasSgemv_v2)
GEMV(cublasDgemv_v2)
GEMV(cublasCgemv_v2)
GEMV(cublasZgemv_v2)
#define DOT(name)                        \
  EXPORT int name(void* handle, int n) { \
    LIBRARY_CALL;                        \
    return product(handle, 1, 1, n);     \
  }
DOT(cublasSdot_v2)
DOT(cublasDdot_v2)
DOT(cublasDotEx)

namespace {
struct Description {};
struct Preference {};
struct MatrixLayout {  // keeps its size, so that a product knows how long it takes
  std::uint64_t rows, columns;
  std::int32_t batch = 1;
};
struct Heuristic {
  std::uint64_t algorithm[8];
  std::size_t workspace;
  int state;
  float waves;
  int reserved[4];
};
constexpr int kBatchCount = 5;  // CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT
constexpr int kInvalidValue = 7;

template <class Object>
int create(void** out, Object object) {
  *out = registry<Object>().add(std::make_shared<Object>(object));
  return kSuccess;
}
template <class Object>
int destroy(void* handle) {
  return registry<Object>().remove(handle) ? kSuccess : kInvalidValue;
}
}  // namespace

EXPORT size_t cublasLtGetVersion() { return 130100; }
EXPORT int cublasLtMatmulDescCreate(void** out, int, int) { return create(out, Description{}); }
EXPORT int cublasLtMatmulDescDestroy(void* handle) { return destroy<Description>(handle); }
EXPORT int cublasLtMatmulDescSetAttribute(void*, int, const void*, size_t) { return kSuccess; }
EXPORT int cublasLtMatmulPreferenceCreate(void** out) { return create(out, Preference{}); }
EXPORT int cublasLtMatmulPreferenceDestroy(void* handle) { return destroy<Preference>(handle); }
EXPORT int cublasLtMatmulPreferenceSetAttribute(void*, int, const void*, size_t) { return kSuccess; }
EXPORT int cublasLtMatrixLayoutCreate(void** out, int, std::uint64_t rows, std::uint64_t columns, std::int64_t) {
  return create(out, MatrixLayout{rows, columns});
}
EXPORT int cublasLtMatrixLayoutDestroy(void* handle) { return destroy<MatrixLayout>(handle); }
EXPORT int cublasLtMatrixLayoutSetAttribute(void* handle, int which, const void* value, size_t) {
  const auto found = registry<MatrixLayout>().find(handle);
  if (!found) return kInvalidValue;
  if (which == kBatchCount) std::memcpy(&found->batch, value, sizeof found->batch);
  return kSuccess;
}
EXPORT int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int, Heuristic* out,
                                          int* count) {
  *out = {};
  out->waves = 1;
  *count = 1;
  return kSuccess;
}
EXPORT int cublasLtMatmul(void*, void*, const void*, const void*, void* a, const void*, void*, const void*, const void*,
                          void*, void*, void* d, const void*, void*, size_t, cudaStream_t stream) {
  LIBRARY_CALL;
  const auto left = registry<MatrixLayout>().find(a), out = registry<MatrixLayout>().find(d);
  if (!left || !out) return kInvalidValue;
  const std::uint64_t inner = left->rows == out->rows ? left->columns : left->rows;
  const double flops = 2.0 * static_cast<double>(out->rows) * static_cast<double>(out->columns) *
                       static_cast<double>(inner) * out->batch;
  return enqueue(stream_of(stream), library_kernel(flops)) ? kExecutionFailed : kSuccess;
}
