// cuDNN's functions, loaded at run time from libcudnn.so.9. A member has the library's name without "cudnn":
// api->BackendFinalize is cudnnBackendFinalize.
#pragma once

#include <cudnn.h>

#include "device/cuda/libraries.h"

namespace convoy::cuda {

inline constexpr int kCudnnMajor = 9;

// clang-format off
#define CONVOY_CUDNN_FUNCTIONS(X) \
  X(GetVersion) X(GetCudartVersion) X(GetErrorString) X(GetLastErrorString) X(GetMaxDeviceVersion) \
  X(QueryRuntimeError) X(Create) X(Destroy) X(SetStream) X(GetStream) X(SetCallback) X(GetCallback) \
  X(BackendCreateDescriptor) X(BackendDestroyDescriptor) X(BackendFinalize) X(BackendSetAttribute) \
  X(BackendGetAttribute) X(BackendExecute) \
  X(CreateTensorDescriptor) X(DestroyTensorDescriptor) X(SetTensorNdDescriptor) X(SetTensorNdDescriptorEx) \
  X(SetTensor4dDescriptor) X(SetTensor4dDescriptorEx) \
  X(CreateFilterDescriptor) X(DestroyFilterDescriptor) X(SetFilterNdDescriptor) X(SetFilter4dDescriptor) \
  X(CreateActivationDescriptor) X(DestroyActivationDescriptor) X(SetActivationDescriptor) \
  X(CreateConvolutionDescriptor) X(DestroyConvolutionDescriptor) X(SetConvolutionNdDescriptor) \
  X(SetConvolutionMathType) X(SetConvolutionGroupCount) X(SetConvolutionReorderType) \
  X(GetConvolutionNdForwardOutputDim) \
  X(GetConvolutionForwardAlgorithmMaxCount) X(GetConvolutionForwardAlgorithm_v7) \
  X(GetConvolutionForwardWorkspaceSize) X(ConvolutionForward) X(ConvolutionBiasActivationForward) \
  X(GetConvolutionBackwardDataAlgorithmMaxCount) X(GetConvolutionBackwardDataAlgorithm_v7) \
  X(GetConvolutionBackwardDataWorkspaceSize) X(ConvolutionBackwardData) \
  X(GetConvolutionBackwardFilterAlgorithmMaxCount) X(GetConvolutionBackwardFilterAlgorithm_v7) \
  X(GetConvolutionBackwardFilterWorkspaceSize) X(ConvolutionBackwardFilter) \
  X(FindConvolutionForwardAlgorithmEx) X(FindConvolutionBackwardDataAlgorithmEx) \
  X(FindConvolutionBackwardFilterAlgorithmEx) X(ReorderFilterAndBias) X(TransformTensor) X(TransformFilter)
// Null in releases of cuDNN 9 that don't have them yet.
#define CONVOY_CUDNN_NEWER_FUNCTIONS(X) X(BackendPopulateCudaGraph) X(BackendUpdateCudaGraph)
// clang-format on

struct CudnnApi {
#define CONVOY_MEMBER(name) decltype(&::cudnn##name) name = nullptr;
  CONVOY_CUDNN_FUNCTIONS(CONVOY_MEMBER)
  CONVOY_CUDNN_NEWER_FUNCTIONS(CONVOY_MEMBER)
#undef CONVOY_MEMBER
  int version = 0;   // cudnnGetVersion's: 91900 is 9.19.0
  std::string text;  // "9.19.0"
  int cuda = 0;      // the CUDA that it was built for: 13000
};

// The table, made on first use. Errors: why there is none (not found, of another major version, for a newer driver).
// Works without a driver: what needs a device fails in the call that does.
Result<const CudnnApi*> cudnn();
const LibraryReport& cudnn_report();

// Looks at this file before all other places, where CONVOY_CUDNN is not set: `from` says who named it. Of effect before
// the first cudnn().
void prefer_cudnn(std::string from, std::string file);

const LibraryNames& cudnn_names();
LoadedApi<CudnnApi> load_cudnn(const std::vector<LibrarySource>& places);

}  // namespace convoy::cuda
