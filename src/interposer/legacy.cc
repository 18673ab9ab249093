#include "interposer/legacy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "interposer/graph_problem.h"
#include "interposer/process.h"
#include "interposer/real.h"

namespace convoy::interposer {
namespace {

constexpr int kMostDims = 8;

// The functions that read descriptors; null where cuDNN lacks one.
struct Readers {
  decltype(&::cudnnGetTensorNdDescriptor) tensor;
  decltype(&::cudnnGetFilterNdDescriptor) filter;
  decltype(&::cudnnGetConvolutionNdDescriptor) window;
  decltype(&::cudnnGetConvolutionGroupCount) groups;
  decltype(&::cudnnGetConvolutionMathType) math;
  decltype(&::cudnnGetActivationDescriptor) activation;

  bool all() const { return tensor && filter && window && groups && math && activation; }
};
const Readers& readers() {
  static const Readers found = [] {
    Readers readers{};
    const auto find = [](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(real_function(name));
    };
    find(readers.tensor, "cudnnGetTensorNdDescriptor");
    find(readers.filter, "cudnnGetFilterNdDescriptor");
    find(readers.window, "cudnnGetConvolutionNdDescriptor");
    find(readers.groups, "cudnnGetConvolutionGroupCount");
    find(readers.math, "cudnnGetConvolutionMathType");
    find(readers.activation, "cudnnGetActivationDescriptor");
    return readers;
  }();
  return found;
}

struct ReadTensor {
  cudnnDataType_t type;
  cudnnTensorFormat_t format;  // of filters
  int rank;
  int dims[kMostDims], strides[kMostDims];  // filters have no strides
  int alignment;
};

// All numbers of a call. Zeroed before they are read, so that equal calls have equal bytes.
struct Numbers {
  const char* function;
  int algorithm, device;
  ReadTensor x, w, y, z, bias;
  int spatial, padding[kMostDims], stride[kMostDims], dilation[kMostDims];
  cudnnConvolutionMode_t mode;
  cudnnDataType_t compute;
  cudnnMathType_t math;
  int groups;
  double alpha, beta, alpha2;
  bool activated;
  cudnnActivationMode_t activation;
  double coefficient;
};

int alignment_of(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const auto most = static_cast<std::uintptr_t>(TensorDesc().alignment);
  return static_cast<int>(address == 0 ? most : std::min(address & (~address + 1), most));
}

bool read(cudnnTensorDescriptor_t raw, const void* data, ReadTensor& into) {
  into.alignment = alignment_of(data);
  return readers().tensor(raw, kMostDims, &into.type, &into.rank, into.dims, into.strides) == CUDNN_STATUS_SUCCESS;
}

bool read(const LegacyCall& call, Numbers& numbers) {
  const Readers& ask = readers();
  bool ok = read(call.x, call.x_data, numbers.x) && read(call.y, call.y_data, numbers.y);
  ok = ok && ask.filter(call.w, kMostDims, &numbers.w.type, &numbers.w.format, &numbers.w.rank, numbers.w.dims) ==
                 CUDNN_STATUS_SUCCESS;
  numbers.w.alignment = alignment_of(call.w_data);
  constexpr int kMostSpatial = 6;  // that cuDNN takes
  ok = ok && ask.window(call.window, kMostSpatial, &numbers.spatial, numbers.padding, numbers.stride, numbers.dilation,
                        &numbers.mode, &numbers.compute) == CUDNN_STATUS_SUCCESS;
  ok = ok && ask.groups(call.window, &numbers.groups) == CUDNN_STATUS_SUCCESS &&
       ask.math(call.window, &numbers.math) == CUDNN_STATUS_SUCCESS;
  if (!ok) return false;
  const bool doubles = numbers.y.type == CUDNN_DATA_DOUBLE;
  const auto factor = [&](const void* value) {
    return value == nullptr ? 0.0 : doubles ? *static_cast<const double*>(value) : *static_cast<const float*>(value);
  };
  numbers.function = call.function;
  numbers.algorithm = call.algorithm;
  numbers.device = current_device();
  numbers.alpha = factor(call.alpha);
  numbers.beta = factor(call.beta);
  numbers.alpha2 = factor(call.alpha2);
  if (call.z != nullptr && !read(call.z, nullptr, numbers.z)) return false;
  if (call.bias != nullptr && !read(call.bias, nullptr, numbers.bias)) return false;
  if (call.activation == nullptr) return true;
  numbers.activated = true;
  cudnnNanPropagation_t nan{};
  return ask.activation(call.activation, &numbers.activation, &nan, &numbers.coefficient) == CUDNN_STATUS_SUCCESS;
}

Error inexpressible(std::string sentence) { return {ErrorCode::unsupported, std::move(sentence)}; }

Result<TensorDesc> tensor_of(const ReadTensor& read, std::string_view field) {
  TensorDesc desc;
  CONVOY_TRY(desc.type, data_type_of(read.type, field));
  desc.dims.assign(read.dims, read.dims + read.rank);
  desc.strides.assign(read.strides, read.strides + read.rank);
  desc.alignment = read.alignment;
  return desc;
}

Result<TensorDesc> filter_of(const ReadTensor& read) {
  CONVOY_TRY(TensorDesc desc, tensor_of(read, "w"));
  if (read.format != CUDNN_TENSOR_NCHW && read.format != CUDNN_TENSOR_NHWC) {
    return inexpressible(fmt::format("w: cuDNN's tensor format {} has no counterpart", static_cast<int>(read.format)));
  }
  const bool last = read.format == CUDNN_TENSOR_NHWC;
  std::int64_t stride = last ? desc.dims[1] : 1;
  for (std::size_t i = desc.dims.size(); i-- > 0;) {
    if (last && i == 1) continue;
    desc.strides[i] = stride;
    stride *= desc.dims[i];
  }
  if (last) desc.strides[1] = 1;
  return desc;
}

Result<Activation> activation_of(const Numbers& numbers) {
  switch (numbers.activation) {
    case CUDNN_ACTIVATION_IDENTITY:
      return Activation{};
    case CUDNN_ACTIVATION_RELU:
      return Activation{ActivationKind::relu, 0, 0};
    case CUDNN_ACTIVATION_CLIPPED_RELU:
      return Activation{ActivationKind::clip, 0, numbers.coefficient};
    case CUDNN_ACTIVATION_ELU:
      return Activation{ActivationKind::elu, numbers.coefficient, 0};
    case CUDNN_ACTIVATION_SIGMOID:
      return Activation{ActivationKind::sigmoid, 0, 0};
    case CUDNN_ACTIVATION_TANH:
      return Activation{ActivationKind::tanh, 0, 0};
    default:
      return inexpressible(
          fmt::format("activation {} of cuDNN's older interface", static_cast<int>(numbers.activation)));
  }
}

Result<ConvProblem> problem_of(const Numbers& numbers, Pass pass) {
  ConvProblem problem;
  problem.pass = pass;
  CONVOY_TRY(problem.x, tensor_of(numbers.x, "x"));
  CONVOY_TRY(problem.w, filter_of(numbers.w));
  CONVOY_TRY(problem.y, tensor_of(numbers.y, "y"));
  CONVOY_TRY(problem.compute, data_type_of(numbers.compute, "compute"));
  problem.pre_padding.assign(numbers.padding, numbers.padding + numbers.spatial);
  problem.post_padding = problem.pre_padding;
  problem.stride.assign(numbers.stride, numbers.stride + numbers.spatial);
  problem.dilation.assign(numbers.dilation, numbers.dilation + numbers.spatial);
  problem.groups = numbers.groups;
  problem.mode = numbers.mode == CUDNN_CONVOLUTION ? ConvMode::convolution : ConvMode::cross_correlation;
  // Here a program does say which math it allows.
  const bool f32 = problem.x.type == DataType::f32;
  if (f32 && numbers.math != CUDNN_FMA_MATH) {
    const bool converts = numbers.math == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION;
    problem.math = converts ? MathMode::reduced : MathMode::tf32;
  }
  problem.alpha = numbers.alpha;
  problem.beta = numbers.beta;
  if (numbers.activated) {
    Epilogue& epilogue = problem.epilogue;
    CONVOY_TRY(epilogue.activation, activation_of(numbers));
    CONVOY_TRY(const DataType bias, data_type_of(numbers.bias.type, "bias"));
    epilogue.bias = true;
    epilogue.narrow_bias = bias != problem.compute;
    if (epilogue.narrow_bias && bias != problem.y.type) {
      return inexpressible(fmt::format("bias: it is {}, out {}", name_of(bias), name_of(problem.y.type)));
    }
    epilogue.gamma = numbers.alpha2;
    epilogue.zero_z = numbers.alpha2 == 0;
    problem.beta = 0;
  }
  CONVOY_CHECK(validate(problem));
  return problem;
}

}  // namespace

void LegacyCalls::called(const LegacyCall& call) {
  if (!readers().all()) return;
  Numbers numbers;
  std::memset(&numbers, 0, sizeof numbers);
  if (!read(call, numbers)) return;
  const std::string key(reinterpret_cast<const char*>(&numbers), sizeof numbers);
  const std::lock_guard lock(mutex_);
  PlanRecord*& plan = rows_[key];
  if (plan == nullptr) {
    auto problem = problem_of(numbers, call.pass);
    const std::string reason = problem.ok() ? "" : problem.error().message;
    GraphRecord& row = recorder_.row(problem.ok() ? std::optional(*std::move(problem)) : std::nullopt, call.function,
                                     reason, device_name());
    EngineConfig engine_config;
    engine_config.candidate.engine = fmt::format("cudnn.legacy.{}{}", name_of(call.pass), call.algorithm);
    plan = &recorder_.plan(row, std::move(engine_config), static_cast<std::int64_t>(call.workspace_bytes), "", "");
  }
  plan->calls.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace convoy::interposer
