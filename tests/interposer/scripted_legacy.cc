// The older interface of the scripted cuDNN: descriptors hold what they are given, calls print their algorithm.
#include <cudnn.h>

#include <algorithm>
#include <cstdio>
#include <vector>

struct cudnnTensorStruct {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::vector<int> dims, strides;
};
struct cudnnFilterStruct {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW;
  std::vector<int> dims;
};
struct cudnnConvolutionStruct {
  std::vector<int> padding, stride, dilation;
  cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  int groups = 1;
};
struct cudnnActivationStruct {
  cudnnActivationMode_t mode = CUDNN_ACTIVATION_RELU;
  double coefficient = 0;
};

namespace {

template <class Struct>
cudnnStatus_t make(Struct** made) {
  *made = new Struct;
  return CUDNN_STATUS_SUCCESS;
}
template <class Struct>
cudnnStatus_t destroy(Struct* made) {
  delete made;
  return CUDNN_STATUS_SUCCESS;
}
void give(const std::vector<int>& values, int requested, int* into) {
  std::copy_n(values.begin(), std::min<std::size_t>(values.size(), requested), into);
}
cudnnStatus_t ran(const char* what, int algorithm) {
  std::printf("%s %d\n", what, algorithm);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* made) { return make(made); }
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t raw) { return destroy(raw); }
cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t raw, cudnnDataType_t type, int count, const int* dims,
                                         const int* strides) {
  *raw = {type, {dims, dims + count}, {strides, strides + count}};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetTensorNdDescriptor(const cudnnTensorDescriptor_t raw, int requested, cudnnDataType_t* type,
                                         int* count, int* dims, int* strides) {
  *type = raw->type;
  *count = static_cast<int>(raw->dims.size());
  give(raw->dims, requested, dims);
  give(raw->strides, requested, strides);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* made) { return make(made); }
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t raw) { return destroy(raw); }
cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t raw, cudnnDataType_t type, cudnnTensorFormat_t format,
                                         int count, const int* dims) {
  *raw = {type, format, {dims, dims + count}};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetFilterNdDescriptor(const cudnnFilterDescriptor_t raw, int requested, cudnnDataType_t* type,
                                         cudnnTensorFormat_t* format, int* count, int* dims) {
  *type = raw->type;
  *format = raw->format;
  *count = static_cast<int>(raw->dims.size());
  give(raw->dims, requested, dims);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* made) { return make(made); }
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t raw) { return destroy(raw); }
cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t raw, int count, const int* padding,
                                              const int* stride, const int* dilation, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute) {
  *raw = {{padding, padding + count}, {stride, stride + count}, {dilation, dilation + count}, mode, compute};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionNdDescriptor(const cudnnConvolutionDescriptor_t raw, int requested, int* count,
                                              int* padding, int* stride, int* dilation, cudnnConvolutionMode_t* mode,
                                              cudnnDataType_t* compute) {
  *count = static_cast<int>(raw->padding.size());
  give(raw->padding, requested, padding);
  give(raw->stride, requested, stride);
  give(raw->dilation, requested, dilation);
  *mode = raw->mode;
  *compute = raw->compute;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t raw, int groups) {
  raw->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionGroupCount(cudnnConvolutionDescriptor_t raw, int* groups) {
  *groups = raw->groups;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t raw, cudnnMathType_t math) {
  raw->math = math;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionMathType(cudnnConvolutionDescriptor_t raw, cudnnMathType_t* math) {
  *math = raw->math;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t* made) { return make(made); }
cudnnStatus_t cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t raw) { return destroy(raw); }
cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t raw, cudnnActivationMode_t mode,
                                           cudnnNanPropagation_t, double coefficient) {
  *raw = {mode, coefficient};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetActivationDescriptor(const cudnnActivationDescriptor_t raw, cudnnActivationMode_t* mode,
                                           cudnnNanPropagation_t* nan, double* coefficient) {
  *mode = raw->mode;
  *nan = CUDNN_NOT_PROPAGATE_NAN;
  *coefficient = raw->coefficient;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t, const void*, const cudnnTensorDescriptor_t, const void*,
                                      const cudnnFilterDescriptor_t, const void*, const cudnnConvolutionDescriptor_t,
                                      cudnnConvolutionFwdAlgo_t algorithm, void*, size_t, const void*,
                                      const cudnnTensorDescriptor_t, void*) {
  // cuDNN may use its other interface for it.
  cudnnBackendDescriptor_t graph = nullptr;
  cudnnBackendCreateDescriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, &graph);
  cudnnBackendFinalize(graph);
  cudnnBackendDestroyDescriptor(graph);
  return ran("forward", algorithm);
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t, const void*, const cudnnFilterDescriptor_t, const void*,
                                           const cudnnTensorDescriptor_t, const void*,
                                           const cudnnConvolutionDescriptor_t, cudnnConvolutionBwdDataAlgo_t algorithm,
                                           void*, size_t, const void*, const cudnnTensorDescriptor_t, void*) {
  return ran("backward data", algorithm);
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t, const void*, const cudnnTensorDescriptor_t, const void*,
                                             const cudnnTensorDescriptor_t, const void*,
                                             const cudnnConvolutionDescriptor_t,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm, void*, size_t, const void*,
                                             const cudnnFilterDescriptor_t, void*) {
  return ran("backward filter", algorithm);
}
cudnnStatus_t cudnnConvolutionBiasActivationForward(
    cudnnHandle_t, const void*, const cudnnTensorDescriptor_t, const void*, const cudnnFilterDescriptor_t, const void*,
    const cudnnConvolutionDescriptor_t, cudnnConvolutionFwdAlgo_t algorithm, void*, size_t, const void*,
    const cudnnTensorDescriptor_t, const void*, const cudnnTensorDescriptor_t, const void*,
    const cudnnActivationDescriptor_t, const cudnnTensorDescriptor_t, void*) {
  return ran("bias and activation", algorithm);
}

}  // extern "C"
