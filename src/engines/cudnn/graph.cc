#include "engines/cudnn/graph.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "engines/cudnn/convolution_operation.h"

namespace convoy::cudnn {
namespace {

Shape shape_of(const TensorDesc& desc, Layout layout) {
  Shape shape{desc.dims, desc.is_packed(layout) ? desc.with_layout(layout).strides : desc.strides};
  if (shape.dims.size() > 3) return shape;
  // N,C,W becomes N,C,1,W.
  const std::int64_t height_stride = shape.dims[2] * shape.strides[2];
  shape.dims.insert(shape.dims.begin() + 2, 1);
  shape.strides.insert(shape.strides.begin() + 2, height_stride);
  return shape;
}

bool all_packed(const ConvProblem& p, Layout layout) {
  return p.x.is_packed(layout) && p.w.is_packed(layout) && p.y.is_packed(layout);
}

// Window parameters of a 1D problem get those of a height of 1.
Dims spatial(const Dims& values, std::int64_t height) {
  Dims all = values;
  if (all.size() == 1) all.insert(all.begin(), height);
  return all;
}

// One value per channel of out, the other sizes 1.
Shape channel_shape(const ConvProblem& problem, const Shape& out) {
  Shape shape{Dims(out.dims.size(), 1), Dims(out.dims.size(), 1)};
  const int channel = problem.pass == Pass::wgrad ? 0 : 1;
  const std::int64_t channels = out.dims[channel];
  shape.dims[channel] = channels;
  shape.strides[0] = problem.pass == Pass::wgrad ? 1 : channels;
  return shape;
}

struct Activate {
  cudnnPointwiseMode_t mode;
  std::vector<std::pair<cudnnBackendAttributeName_t, double>> attributes;
};

// Precondition: one of the activations that the engines declare.
Activate activation_of(const Activation& act) {
  switch (act.kind) {
    case ActivationKind::clip: {
      Activate clip{CUDNN_POINTWISE_RELU_FWD, {{CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, act.a}}};
      clip.attributes.emplace_back(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, act.b);
      return clip;
    }
    case ActivationKind::leaky_relu:
      return {CUDNN_POINTWISE_RELU_FWD, {{CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, act.a}}};
    case ActivationKind::elu:
      return {CUDNN_POINTWISE_ELU_FWD, {{CUDNN_ATTR_POINTWISE_ELU_ALPHA, act.a}}};
    case ActivationKind::sigmoid:
      return {CUDNN_POINTWISE_SIGMOID_FWD, {}};
    case ActivationKind::tanh:
      return {CUDNN_POINTWISE_TANH_FWD, {}};
    case ActivationKind::swish:
      return {CUDNN_POINTWISE_SWISH_FWD, {{CUDNN_ATTR_POINTWISE_SWISH_BETA, act.a}}};
    case ActivationKind::gelu:
      return {CUDNN_POINTWISE_GELU_FWD, {}};
    case ActivationKind::gelu_tanh:
      return {CUDNN_POINTWISE_GELU_APPROX_TANH_FWD, {}};
    default:
      return {CUDNN_POINTWISE_RELU_FWD, {}};
  }
}

const Shape& out_shape(Pass pass, const Shapes& shapes) {
  return pass == Pass::fprop ? shapes.y : pass == Pass::dgrad ? shapes.x : shapes.w;
}

}  // namespace

cudnnDataType_t type_of(DataType type) {
  switch (type) {
    case DataType::f64:
      return CUDNN_DATA_DOUBLE;
    case DataType::f16:
      return CUDNN_DATA_HALF;
    case DataType::bf16:
      return CUDNN_DATA_BFLOAT16;
    case DataType::f8_e4m3:
      return CUDNN_DATA_FP8_E4M3;
    case DataType::f8_e5m2:
      return CUDNN_DATA_FP8_E5M2;
    case DataType::s32:
      return CUDNN_DATA_INT32;
    case DataType::s8:
      return CUDNN_DATA_INT8;
    case DataType::u8:
      return CUDNN_DATA_UINT8;
    default:
      return CUDNN_DATA_FLOAT;
  }
}

Shapes shapes_of(const ConvProblem& p) {
  // Channels last first: the layout of the tensor cores.
  const Layout common = all_packed(p, Layout::nhwc) || !p.x.is_packed(Layout::nchw) ? Layout::nhwc : Layout::nchw;
  return {shape_of(p.x, common), shape_of(p.w, common), shape_of(p.y, common)};
}

bool is_plain(const ConvProblem& p) {
  return !p.epilogue.bias && !p.epilogue.takes_z() && p.epilogue.activation.kind == ActivationKind::identity &&
         p.epilogue.requantize == Requantize::none;
}

struct Graph::Pointwise {
  cudnnPointwiseMode_t mode;
  DataType compute;
  const Descriptor& input;
  const Descriptor* other;  // the second input of add and mul
  const Descriptor& out;
  double alpha1 = 1, alpha2 = 1;
  std::vector<std::pair<cudnnBackendAttributeName_t, double>> attributes = {};
};

Graph::Graph(const Api& api, const ConvProblem& problem, cudnnHandle_t handle) : api_(&api) {
  const Shapes shapes = shapes_of(problem);
  if (!is_plain(problem)) {
    epilogue(problem, shapes);
  } else {
    const TensorDesc& out = problem.out();
    const Uid uid = problem.pass == Pass::fprop ? kY : problem.pass == Pass::dgrad ? kX : kW;
    Descriptor& result = operand(uid, out.type, out_shape(problem.pass, shapes), out.alignment);
    convolve(problem, shapes, result, problem.alpha, problem.beta);
    if (problem.beta != 0) formula_ += " + beta*out";
  }
  graph_ = Descriptor(api, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (failed_) return;
  graph_.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations_);
  if (handle != nullptr) graph_.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
  finish(graph_, "operation graph");
}

std::int64_t Graph::engine_count() const {
  return graph_.get<std::int64_t>(CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, CUDNN_TYPE_INT64).value_or(0);
}

Descriptor& Graph::make(cudnnBackendDescriptorType_t type) {
  parts_.push_back(std::make_unique<Descriptor>(*api_, type));
  return *parts_.back();
}

void Graph::finish(Descriptor& descriptor, std::string_view part) {
  descriptor.finalize();
  if (descriptor.ok() || failed_) return;
  failed_ = true;
  failed_part_ = part;
  failure_ = descriptor.failure();
}

Descriptor& Graph::tensor(Uid uid, DataType type, const Shape& shape, std::int64_t alignment, bool is_virtual) {
  Descriptor& made = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, static_cast<std::int64_t>(uid))
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type_of(type))
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, shape.dims)
      .set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, shape.strides)
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, alignment)
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, is_virtual);
  static constexpr std::array<const char*, 8> kNames = {"", "x", "w", "y", "bias", "z", "out", "scale"};
  finish(made, std::string("tensor ") + (is_virtual ? "between operations" : kNames[uid]));
  return made;
}

Descriptor& Graph::operand(Uid uid, DataType type, const Shape& shape, std::int64_t alignment) {
  operands_.push_back(uid);
  return tensor(uid, type, shape, alignment, false);
}

Descriptor& Graph::link(DataType type, const Shape& shape) {
  return tensor(static_cast<Uid>(next_virtual_++), type, shape, 16, true);
}

void Graph::convolve(const ConvProblem& problem, const Shapes& shapes, Descriptor& out, double alpha, double beta) {
  Descriptor& window = make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const Dims pre = spatial(problem.pre_padding, 0);
  window.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, static_cast<std::int64_t>(pre.size()))
      .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, type_of(problem.compute))
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
           problem.mode == ConvMode::convolution ? CUDNN_CONVOLUTION : CUDNN_CROSS_CORRELATION)
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, pre)
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, spatial(problem.post_padding, 0))
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, spatial(problem.stride, 1))
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, spatial(problem.dilation, 1));
  finish(window, "convolution");

  const Pass pass = problem.pass;
  const ConvolutionOperation& names = *std::ranges::find(kConvolutionOperations, pass, &ConvolutionOperation::pass);
  Descriptor& x = pass == Pass::dgrad ? out : operand(kX, problem.x.type, shapes.x, problem.x.alignment);
  Descriptor& w = pass == Pass::wgrad ? out : operand(kW, problem.w.type, shapes.w, problem.w.alignment);
  Descriptor& y = pass == Pass::fprop ? out : operand(kY, problem.y.type, shapes.y, problem.y.alignment);
  Descriptor& operation = make(names.type);
  operation.set(names.x, x).set(names.w, w).set(names.y, y).set(names.window, window);
  if (problem.compute == DataType::f64) {
    operation.set(names.alpha, CUDNN_TYPE_DOUBLE, alpha).set(names.beta, CUDNN_TYPE_DOUBLE, beta);
  } else {
    operation.set(names.alpha, CUDNN_TYPE_FLOAT, static_cast<float>(alpha))
        .set(names.beta, CUDNN_TYPE_FLOAT, static_cast<float>(beta));
  }
  finish(operation, std::string(name_of(pass)) + " operation");
  operations_.push_back(operation.raw());
}

void Graph::pointwise(const Pointwise& wanted) {
  Descriptor& kind = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  kind.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, wanted.mode)
      .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, type_of(wanted.compute));
  for (const auto& [name, value] : wanted.attributes) kind.set(name, CUDNN_TYPE_DOUBLE, value);
  finish(kind, "pointwise");

  Descriptor& operation = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, wanted.input)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, wanted.out);
  if (wanted.other != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *wanted.other);
  const auto scale = [&](cudnnBackendAttributeName_t name, double value) {
    if (value == 1) return;
    if (wanted.compute == DataType::f64) {
      operation.set(name, CUDNN_TYPE_DOUBLE, value);
    } else {
      operation.set(name, CUDNN_TYPE_FLOAT, static_cast<float>(value));
    }
  };
  scale(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, wanted.alpha1);
  scale(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, wanted.alpha2);
  finish(operation, "pointwise operation");
  operations_.push_back(operation.raw());
}

void Graph::epilogue(const ConvProblem& problem, const Shapes& shapes) {
  const Epilogue& fused = problem.epilogue;
  const TensorDesc& out = problem.out();
  const Shape& shape = out_shape(problem.pass, shapes);
  const DataType compute = problem.compute == DataType::f64 ? DataType::f64 : DataType::f32;
  const bool integers = problem.compute == DataType::s32;

  // What follows conv, first to last; the last writes out, the others virtual tensors.
  struct Step {
    cudnnPointwiseMode_t mode;
    const Descriptor* other = nullptr;
    double alpha1 = 1, alpha2 = 1;
    std::vector<std::pair<cudnnBackendAttributeName_t, double>> attributes = {};
    std::string text;
  };
  std::vector<Step> steps;
  double alpha = problem.alpha;
  const auto take_alpha = [&] { return std::exchange(alpha, 1.0); };
  if (fused.takes_z()) {
    const Descriptor& z = operand(kZ, out.type, shape, out.alignment);
    steps.push_back({CUDNN_POINTWISE_ADD, &z, take_alpha(), fused.gamma, {}, "gamma*z"});
  }
  if (problem.beta != 0) {
    const Descriptor& prior = operand(kPrior, out.type, shape, out.alignment);
    steps.push_back({CUDNN_POINTWISE_ADD, &prior, take_alpha(), problem.beta, {}, "beta*out"});
  }
  if (fused.bias) {
    const DataType type = integers ? DataType::s32 : fused.narrow_bias ? problem.bias_type() : compute;
    const Descriptor& bias =
        operand(kBias, type, channel_shape(problem, shape), static_cast<std::int64_t>(size_of(type)));
    steps.push_back({CUDNN_POINTWISE_ADD, &bias, 1, 1, {}, "bias"});
  }
  if (fused.activation.kind != ActivationKind::identity) {
    Activate act = activation_of(fused.activation);
    steps.push_back({act.mode, nullptr, 1, 1, std::move(act.attributes), std::string(name_of(fused.activation.kind))});
  }
  if (fused.requantize != Requantize::none) {
    Shape scales{Dims(shape.dims.size(), 1), Dims(shape.dims.size(), 1)};
    if (fused.requantize == Requantize::per_channel) scales = channel_shape(problem, shape);
    const Descriptor& scale = operand(kScale, DataType::f32, scales, 4);
    steps.push_back({CUDNN_POINTWISE_MUL, &scale, 1, 1, {}, "requantize"});
  }

  Descriptor& sum = link(problem.compute, shape);
  convolve(problem, shapes, sum, alpha, 0);
  const Descriptor* from = &sum;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    const bool last = i + 1 == steps.size();
    const Uid uid = problem.pass == Pass::fprop ? kY : problem.pass == Pass::dgrad ? kX : kW;
    const Descriptor& to = last ? operand(uid, out.type, shape, out.alignment) : link(compute, shape);
    pointwise({step.mode, compute, *from, step.other, to, step.alpha1, step.alpha2, step.attributes});
    formula_ += " + " + step.text;
    from = &to;
  }
}

}  // namespace convoy::cudnn
