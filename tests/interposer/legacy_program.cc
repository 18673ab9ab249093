// Calls cuDNN's older interface: each kind of convolution so many times. usage: legacy_program [--fma] CALLS
#include <cudnn.h>

#include <cstdlib>
#include <cstring>

int main(int argc, char** argv) {
  const bool fma = std::strcmp(argv[1], "--fma") == 0;
  const int calls = std::atoi(argv[argc - 1]);
  cudnnHandle_t handle = nullptr;
  cudnnCreate(&handle);
  cudnnTensorDescriptor_t x, y, bias;
  cudnnFilterDescriptor_t w;
  cudnnConvolutionDescriptor_t window;
  cudnnActivationDescriptor_t relu;
  cudnnCreateTensorDescriptor(&x);
  cudnnCreateTensorDescriptor(&y);
  cudnnCreateTensorDescriptor(&bias);
  cudnnCreateFilterDescriptor(&w);
  cudnnCreateConvolutionDescriptor(&window);
  cudnnCreateActivationDescriptor(&relu);
  const int x_dims[] = {2, 8, 5, 5}, x_strides[] = {200, 1, 40, 8}, w_dims[] = {4, 4, 3, 3};
  const int y_dims[] = {2, 4, 5, 5}, y_strides[] = {100, 1, 20, 4}, bias_dims[] = {1, 4, 1, 1};
  const int bias_strides[] = {4, 1, 1, 1}, ones[] = {1, 1};
  cudnnSetTensorNdDescriptor(x, CUDNN_DATA_FLOAT, 4, x_dims, x_strides);
  cudnnSetTensorNdDescriptor(y, CUDNN_DATA_FLOAT, 4, y_dims, y_strides);
  cudnnSetTensorNdDescriptor(bias, CUDNN_DATA_FLOAT, 4, bias_dims, bias_strides);
  cudnnSetFilterNdDescriptor(w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NHWC, 4, w_dims);
  cudnnSetConvolutionNdDescriptor(window, 2, ones, ones, ones, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
  cudnnSetConvolutionGroupCount(window, 2);
  if (fma) cudnnSetConvolutionMathType(window, CUDNN_FMA_MATH);
  cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0);
  const float one = 1, zero = 0;
  alignas(256) static char memory[512];
  void* const data = memory;
  for (int i = 0; i < calls; ++i) {
    cudnnConvolutionForward(handle, &one, x, data, w, data, window, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
                            nullptr, 64, &zero, y, data);
    cudnnConvolutionBackwardData(handle, &one, w, data, y, data, window, CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, nullptr, 0,
                                 &zero, x, memory + 16);
    cudnnConvolutionBackwardFilter(handle, &one, x, data, y, data, window, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, nullptr,
                                   0, &one, w, data);
    cudnnConvolutionBiasActivationForward(handle, &one, x, data, w, data, window,
                                          CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, nullptr, 0, &one, y, data,
                                          bias, data, relu, y, data);
  }
  return 0;
}
