// cuBLASLt, loaded at run time: products of matrices, which cuDNN has it compute, too, and finds what this took by its
// soname. (What is called is declared here, since the library's header comes only in a package of half a gigabyte.)
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/cuda/libraries.h"

namespace convoy::cuda {

// As cublasLt.h of CUDA 12 and 13 has them, under its names.
namespace lt {
struct Handle;
struct MatmulDesc;
struct MatrixLayout;
struct MatmulPreference;
struct MatmulAlgo {
  std::uint64_t data[8];
};
struct MatmulHeuristicResult {
  MatmulAlgo algo;
  std::size_t workspace_size;
  int state;
  float waves_count;
  int reserved[4];
};
inline constexpr int kSuccess = 0;                                     // CUBLAS_STATUS_
inline constexpr int kReal32F = 0, kReal16F = 2, kReal16BF = 14;       // CUDA_R_
inline constexpr int kCompute32F = 68;                                 // CUBLAS_COMPUTE_
inline constexpr std::int32_t kNotTransposed = 0, kTransposed = 1;     // CUBLAS_OP_
inline constexpr int kTransA = 3, kTransB = 4;                         // CUBLASLT_MATMUL_DESC_
inline constexpr int kEpilogue = 7, kBiasPointer = 8;                  // likewise
inline constexpr std::uint32_t kEpilogueBias = 4;                      // CUBLASLT_EPILOGUE_
inline constexpr int kBatchCount = 5, kStridedBatchOffset = 6;         // CUBLASLT_MATRIX_LAYOUT_
inline constexpr int kMaxWorkspaceBytes = 1, kMinAlignmentABytes = 5;  // CUBLASLT_MATMUL_PREF_, then B, C and D
}  // namespace lt

// All but the versions are null where a library lacks one of them.
struct CublasLtApi {
  std::size_t (*GetVersion)() = nullptr;
  std::size_t (*GetCudartVersion)() = nullptr;
  int (*Create)(lt::Handle**) = nullptr;
  int (*MatmulDescCreate)(lt::MatmulDesc**, int compute_type, int scale_type) = nullptr;
  int (*MatmulDescDestroy)(lt::MatmulDesc*) = nullptr;
  int (*MatmulDescSetAttribute)(lt::MatmulDesc*, int attribute, const void* value, std::size_t bytes) = nullptr;
  int (*MatrixLayoutCreate)(lt::MatrixLayout**, int type, std::uint64_t rows, std::uint64_t columns,
                            std::int64_t leading) = nullptr;
  int (*MatrixLayoutDestroy)(lt::MatrixLayout*) = nullptr;
  int (*MatrixLayoutSetAttribute)(lt::MatrixLayout*, int attribute, const void* value, std::size_t bytes) = nullptr;
  int (*MatmulPreferenceCreate)(lt::MatmulPreference**) = nullptr;
  int (*MatmulPreferenceDestroy)(lt::MatmulPreference*) = nullptr;
  int (*MatmulPreferenceSetAttribute)(lt::MatmulPreference*, int attribute, const void* value,
                                      std::size_t bytes) = nullptr;
  int (*MatmulAlgoGetHeuristic)(lt::Handle*, lt::MatmulDesc*, lt::MatrixLayout* a, lt::MatrixLayout* b,
                                lt::MatrixLayout* c, lt::MatrixLayout* d, lt::MatmulPreference*, int wanted,
                                lt::MatmulHeuristicResult*, int* found) = nullptr;
  int (*Matmul)(lt::Handle*, lt::MatmulDesc*, const void* alpha, const void* a, lt::MatrixLayout*, const void* b,
                lt::MatrixLayout*, const void* beta, const void* c, lt::MatrixLayout*, void* d, lt::MatrixLayout*,
                const lt::MatmulAlgo*, void* workspace, std::size_t workspace_bytes, void* stream) = nullptr;
  std::size_t version = 0;  // 130100 is 13.1.0
};

// The table, made on first use. Errors: why there is none.
Result<const CublasLtApi*> cublaslt();
const LibraryReport& cublaslt_report();

const LibraryNames& cublaslt_names();
LoadedApi<CublasLtApi> load_cublaslt(const std::vector<LibrarySource>& places);

}  // namespace convoy::cuda
