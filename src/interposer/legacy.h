// Convolutions of cuDNN's older interface (cudnnConvolutionForward and its like, which cuDNN calls v7): recorded, and
// left as they are.
#pragma once

#include <cudnn.h>

#include <cstddef>
#include <mutex>
#include <string>
#include <unordered_map>

#include "convoy/convolution.h"
#include "interposer/recorder.h"

namespace convoy::interposer {

// A call that cuDNN has done. In dgrad x is dx, in wgrad w is dw, in both y is dy.
struct LegacyCall {
  const char* function;
  Pass pass;
  cudnnTensorDescriptor_t x, y;
  cudnnFilterDescriptor_t w;
  const void *x_data, *w_data, *y_data;
  cudnnConvolutionDescriptor_t window;
  int algorithm;
  std::size_t workspace_bytes;
  const void *alpha, *beta;
  // cudnnConvolutionBiasActivationForward
  cudnnTensorDescriptor_t z = nullptr, bias = nullptr;
  const void* alpha2 = nullptr;
  cudnnActivationDescriptor_t activation = nullptr;
};

class LegacyCalls {
 public:
  explicit LegacyCalls(Recorder& recorder) : recorder_(recorder) {}

  // The same call again is found by the numbers in its descriptors.
  void called(const LegacyCall& call);

  // Around fork().
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }
  void clear() { rows_.clear(); }  // in the child; the lock is held

 private:
  Recorder& recorder_;
  std::mutex mutex_;
  std::unordered_map<std::string, PlanRecord*> rows_;  // by the bytes of what was read
};

}  // namespace convoy::interposer
