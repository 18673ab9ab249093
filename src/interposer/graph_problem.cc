#include "interposer/graph_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/text.h"
#include "engines/cudnn/convolution_operation.h"

namespace convoy::interposer {
namespace {

using cudnn::ConvolutionOperation;
using Node = std::shared_ptr<const Snapshot>;

Error inexpressible(std::string sentence) { return {ErrorCode::unsupported, std::move(sentence)}; }

struct Tensor {
  TensorDesc desc;
  std::int64_t uid = 0;
  bool is_virtual = false;
};

Result<Tensor> tensor_of(const Node& node, std::string_view field) {
  if (node == nullptr) return inexpressible(fmt::format("{}: a tensor that nobody described here", field));
  for (const auto name : {CUDNN_ATTR_TENSOR_VECTOR_COUNT, CUDNN_ATTR_TENSOR_VECTORIZED_DIMENSION}) {
    const auto vectors = node->value<std::int64_t>(name);
    if (vectors && *vectors > 1) return inexpressible(fmt::format("{}: vectorised, count {}", field, *vectors));
  }
  if (node->child(CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC)) return inexpressible(fmt::format("{}: ragged", field));
  if (node->value<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE).value_or(false)) {
    return inexpressible(fmt::format("{}: given by value", field));
  }
  Tensor tensor;
  CONVOY_TRY(tensor.desc.type,
             data_type_of(node->value<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE).value_or(CUDNN_DATA_FLOAT), field));
  tensor.desc.dims = node->values<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  tensor.desc.strides = node->values<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  tensor.desc.alignment = node->value<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT).value_or(1);
  tensor.uid = node->value<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID).value_or(0);
  tensor.is_virtual = node->value<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL).value_or(false);
  if (tensor.desc.dims.size() != tensor.desc.strides.size()) {
    return inexpressible(
        fmt::format("{}: {} dims and {} strides", field, tensor.desc.dims.size(), tensor.desc.strides.size()));
  }
  return tensor;
}

// dims[at] and dims[at + 1] as one dimension.
Result<void> merge(TensorDesc& desc, int at, std::string_view field) {
  const std::int64_t outer = desc.dims[at];
  const std::int64_t inner = desc.dims[at + 1];
  if (outer > 1 && inner > 1 && desc.strides[at] != inner * desc.strides[at + 1]) {
    return inexpressible(fmt::format("{}: the {} groups of {} do not lie one behind the other", field, outer, inner));
  }
  if (inner == 1) desc.strides[at + 1] = desc.strides[at];
  desc.dims[at + 1] = outer * inner;
  desc.dims.erase(desc.dims.begin() + at);
  desc.strides.erase(desc.strides.begin() + at);
  return {};
}

// What the convolution alone says, and the tensor that it writes.
struct Convolution {
  ConvProblem problem;
  Operands operands;
  Tensor out;
};

Result<Convolution> convolution_of(const Snapshot& operation, const ConvolutionOperation& names) {
  Convolution read;
  ConvProblem& problem = read.problem;
  problem.pass = names.pass;
  CONVOY_TRY(Tensor x, tensor_of(operation.child(names.x), "x"));
  CONVOY_TRY(Tensor w, tensor_of(operation.child(names.w), "w"));
  CONVOY_TRY(Tensor y, tensor_of(operation.child(names.y), "y"));
  const Node window = operation.child(names.window);
  if (window == nullptr) return inexpressible("convolution: a descriptor that nobody filled here");
  read.out = names.pass == Pass::fprop ? y : names.pass == Pass::dgrad ? x : w;
  problem.stride = window->values<std::int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  problem.dilation = window->values<std::int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS);
  problem.pre_padding = window->values<std::int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  problem.post_padding = window->values<std::int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
  const std::size_t spatial = problem.stride.size();
  for (const auto& [tensor, field] : {std::pair{&x, "x"}, {&w, "w"}, {&y, "y"}}) {
    const std::size_t rank = tensor->desc.dims.size();
    if (rank != spatial + 2 && rank != spatial + 3) {
      return inexpressible(fmt::format("{}: {} dims for {} spatial ones", field, rank, spatial));
    }
  }
  const bool written_groups = w.desc.dims.size() == spatial + 3;
  if (written_groups) {  // [N,G,C,...] and [G,K,C,...]
    if (x.desc.dims.size() != w.desc.dims.size() || y.desc.dims.size() != w.desc.dims.size()) {
      return inexpressible("groups: w has a dimension for them, x or y has none");
    }
    problem.groups = w.desc.dims[0];
    CONVOY_CHECK(merge(x.desc, 1, "x"));
    CONVOY_CHECK(merge(w.desc, 0, "w"));
    CONVOY_CHECK(merge(y.desc, 1, "y"));
  } else {
    if (w.desc.dims[1] <= 0 || x.desc.dims[1] % w.desc.dims[1] != 0) {
      return inexpressible(fmt::format("groups: x has {} channels, w {}", x.desc.dims[1], w.desc.dims[1]));
    }
    problem.groups = x.desc.dims[1] / w.desc.dims[1];
  }
  problem.x = x.desc;
  problem.w = w.desc;
  problem.y = y.desc;
  if (names.pass != Pass::dgrad) read.operands.x = x.uid;
  if (names.pass != Pass::wgrad) read.operands.w = w.uid;
  if (names.pass != Pass::fprop) read.operands.y = y.uid;
  problem.mode =
      window->value<cudnnConvolutionMode_t>(CUDNN_ATTR_CONVOLUTION_CONV_MODE).value_or(CUDNN_CROSS_CORRELATION) ==
              CUDNN_CONVOLUTION
          ? ConvMode::convolution
          : ConvMode::cross_correlation;
  CONVOY_TRY(problem.compute,
             data_type_of(window->value<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE).value_or(CUDNN_DATA_FLOAT),
                          "compute"));
  problem.alpha = operation.number(names.alpha).value_or(1);
  problem.beta = operation.number(names.beta).value_or(0);
  return read;
}

// The activation of a pointwise operation; nothing: it is none.
std::optional<Activation> activation_of(cudnnPointwiseMode_t mode, const Snapshot& kind) {
  const auto real = [&](cudnnBackendAttributeName_t name, double otherwise) {
    return kind.number(name).value_or(otherwise);
  };
  constexpr double infinity = std::numeric_limits<double>::infinity();
  switch (mode) {
    case CUDNN_POINTWISE_IDENTITY:
      return Activation{};
    case CUDNN_POINTWISE_RELU_FWD: {
      const double lower = real(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, 0);
      const double upper = real(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, infinity);
      const double slope = real(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, 0);
      const bool unbounded = upper >= std::numeric_limits<float>::max();
      if (slope != 0) {
        if (lower != 0 || !unbounded) return std::nullopt;
        return Activation{ActivationKind::leaky_relu, slope, 0};
      }
      if (lower == 0 && unbounded) return Activation{ActivationKind::relu, 0, 0};
      return Activation{ActivationKind::clip, lower, upper};
    }
    case CUDNN_POINTWISE_ELU_FWD:
      return Activation{ActivationKind::elu, real(CUDNN_ATTR_POINTWISE_ELU_ALPHA, 1), 0};
    case CUDNN_POINTWISE_SIGMOID_FWD:
      return Activation{ActivationKind::sigmoid, 0, 0};
    case CUDNN_POINTWISE_TANH_FWD:
      return Activation{ActivationKind::tanh, 0, 0};
    case CUDNN_POINTWISE_SWISH_FWD:
      return Activation{ActivationKind::swish, real(CUDNN_ATTR_POINTWISE_SWISH_BETA, 1), 0};
    case CUDNN_POINTWISE_GELU_FWD:
      return Activation{ActivationKind::gelu, 0, 0};
    case CUDNN_POINTWISE_GELU_APPROX_TANH_FWD:
      return Activation{ActivationKind::gelu_tanh, 0, 0};
    default:
      return std::nullopt;
  }
}

// One value per channel of out, everything else 1.
bool is_per_channel(const TensorDesc& desc, const TensorDesc& out, Pass pass) {
  const std::size_t channel = pass == Pass::wgrad ? 0 : 1;
  if (desc.dims.size() != out.dims.size()) return false;
  for (std::size_t i = 0; i < desc.dims.size(); ++i) {
    if (desc.dims[i] != (i == channel ? out.dims[i] : 1)) return false;
  }
  return true;
}

// Follows the pointwise operations from the convolution's output to the tensor that is stored.
class EpilogueReader {
 public:
  EpilogueReader(Convolution& read, std::vector<Node> pointwise) : read_(read), left_(std::move(pointwise)) {}

  Result<void> follow() {
    ConvProblem& problem = read_.problem;
    if (left_.empty()) return {};
    if (problem.beta != 0) return inexpressible(fmt::format("beta={} before an epilogue", problem.beta));
    TensorDesc& out = problem.pass == Pass::fprop ? problem.y : problem.pass == Pass::dgrad ? problem.x : problem.w;
    while (!left_.empty()) {
      if (!read_.out.is_virtual) return inexpressible("epilogue: a tensor in the middle is stored, too");
      CONVOY_CHECK(step());
    }
    if (read_.out.is_virtual) return inexpressible("epilogue: its last tensor is not stored");
    if (read_.out.desc.dims != out.dims) return inexpressible("epilogue: its output has other dims");
    out = read_.out.desc;
    if (z_ && (z_->type != out.type || z_->strides != out.strides)) {
      return inexpressible("added tensor: of another type or layout than out");
    }
    if (problem.epilogue.narrow_bias && bias_type_ != out.type) {
      return inexpressible(fmt::format("bias: it is {}; a problem's is {} or {}", name_of(bias_type_),
                                       name_of(problem.compute), name_of(out.type)));
    }
    return {};
  }

 private:
  Result<void> step() {
    const auto reader = std::find_if(left_.begin(), left_.end(), [&](const Node& node) {
      return uid_of(node, CUDNN_ATTR_OPERATION_POINTWISE_XDESC) == read_.out.uid ||
             uid_of(node, CUDNN_ATTR_OPERATION_POINTWISE_BDESC) == read_.out.uid;
    });
    if (reader == left_.end()) return inexpressible("epilogue: an operation that does not read the convolution");
    const Node operation = *reader;
    left_.erase(reader);
    const Node kind = operation->child(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    if (kind == nullptr) return inexpressible("pointwise: a descriptor that nobody filled here");
    CONVOY_TRY(const DataType precision,
               data_type_of(kind->value<cudnnDataType_t>(CUDNN_ATTR_POINTWISE_MATH_PREC).value_or(CUDNN_DATA_FLOAT),
                            "pointwise"));
    const DataType expected = read_.problem.compute == DataType::f64 ? DataType::f64 : DataType::f32;
    if (precision != expected) {
      return inexpressible(fmt::format("pointwise: computed in {}, not {}", name_of(precision), name_of(expected)));
    }
    const bool first = uid_of(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC) == read_.out.uid;
    const double own =
        operation->number(first ? CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1 : CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2)
            .value_or(1);
    const double others =
        operation->number(first ? CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2 : CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1)
            .value_or(1);
    const auto mode = kind->value<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
    if (!mode) return inexpressible("pointwise: no mode");
    const Node other =
        operation->child(first ? CUDNN_ATTR_OPERATION_POINTWISE_BDESC : CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
    CONVOY_CHECK(apply(*mode, *kind, own, other, others));
    CONVOY_TRY(Tensor next, tensor_of(operation->child(CUDNN_ATTR_OPERATION_POINTWISE_YDESC), "epilogue"));
    if (next.is_virtual && next.desc.type != expected) {
      return inexpressible(fmt::format("epilogue: rounded to {} in between", name_of(next.desc.type)));
    }
    read_.out = std::move(next);
    return {};
  }

  Result<void> apply(cudnnPointwiseMode_t mode, const Snapshot& kind, double own, const Node& other, double others) {
    ConvProblem& problem = read_.problem;
    Epilogue& epilogue = problem.epilogue;
    const bool activated = epilogue.activation.kind != ActivationKind::identity;
    if (mode == CUDNN_POINTWISE_ADD) {
      if (activated || scaled_) return inexpressible("pointwise ADD: after the activation");
      if (own != 1 && added_) return inexpressible("pointwise ADD: scales an earlier sum");
      problem.alpha *= own;
      added_ = true;
      CONVOY_TRY(const Tensor tensor, tensor_of(other, "added tensor"));
      return add(tensor, others);
    }
    if (mode == CUDNN_POINTWISE_MUL) {
      if (scaled_ || own != 1 || others != 1) return inexpressible("pointwise MUL: more than one scale");
      CONVOY_TRY(const Tensor tensor, tensor_of(other, "scale"));
      const bool one = tensor.desc.elements() == 1;
      if (tensor.desc.type != DataType::f32 || (!one && !is_per_channel(tensor.desc, read_.out.desc, problem.pass))) {
        return inexpressible("pointwise MUL: by something else than f32 scales of the channels");
      }
      epilogue.requantize = one ? Requantize::per_tensor : Requantize::per_channel;
      scaled_ = true;
      return {};
    }
    const auto activation = activation_of(mode, kind);
    if (!activation || activated || scaled_ || own != 1) {
      return inexpressible(fmt::format("pointwise mode {}: no epilogue here has it", static_cast<int>(mode)));
    }
    epilogue.activation = *activation;
    return {};
  }

  Result<void> add(const Tensor& tensor, double factor) {
    const TensorDesc& desc = tensor.desc;
    ConvProblem& problem = read_.problem;
    Epilogue& epilogue = problem.epilogue;
    const TensorDesc& out = problem.out();
    if (is_per_channel(desc, out, problem.pass) && desc.dims != out.dims) {
      if (epilogue.bias || factor != 1) return inexpressible("bias: a second one, or one with a factor");
      epilogue.bias = true;
      epilogue.narrow_bias = desc.type != problem.compute;
      bias_type_ = desc.type;
      read_.operands.bias = tensor.uid;
      return {};
    }
    if (desc.dims != out.dims) return inexpressible("added tensor: neither like out nor one value per channel");
    if (epilogue.takes_z()) return inexpressible("added tensor: a second one like out");
    epilogue.gamma = factor;
    epilogue.zero_z = factor == 0;
    z_ = desc;
    read_.operands.z = tensor.uid;
    return {};
  }

  static std::optional<std::int64_t> uid_of(const Node& operation, cudnnBackendAttributeName_t name) {
    const Node tensor = operation->child(name);
    return tensor == nullptr ? std::nullopt : tensor->value<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  }

  Convolution& read_;
  std::vector<Node> left_;
  std::optional<TensorDesc> z_;
  DataType bias_type_ = DataType::f32;
  bool added_ = false, scaled_ = false;
};

std::string_view name_of(cudnnPointwiseMode_t mode) {
  switch (mode) {
    case CUDNN_POINTWISE_ADD:
      return " ADD";
    case CUDNN_POINTWISE_MUL:
      return " MUL";
    case CUDNN_POINTWISE_RELU_FWD:
      return " RELU_FWD";
    default:
      return "";
  }
}

std::string name_of(const Snapshot& operation) {
  switch (operation.type()) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return "CONVOLUTION_FORWARD";
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return "CONVOLUTION_BACKWARD_DATA";
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return "CONVOLUTION_BACKWARD_FILTER";
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: {
      const Node kind = operation.child(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
      const auto mode = kind ? kind->value<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE) : std::nullopt;
      return fmt::format("POINTWISE{}", mode ? name_of(*mode) : "");
    }
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      return "MATMUL";
    case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR:
      return "NORM_FORWARD";
    case CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR:
      return "NORM_BACKWARD";
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      return "REDUCTION";
    default:
      return fmt::format("operation type {}", static_cast<int>(operation.type()));
  }
}

}  // namespace

Result<DataType> data_type_of(cudnnDataType_t type, std::string_view field) {
  switch (type) {
    case CUDNN_DATA_DOUBLE:
      return DataType::f64;
    case CUDNN_DATA_FLOAT:
      return DataType::f32;
    case CUDNN_DATA_HALF:
      return DataType::f16;
    case CUDNN_DATA_BFLOAT16:
      return DataType::bf16;
    case CUDNN_DATA_FP8_E4M3:
      return DataType::f8_e4m3;
    case CUDNN_DATA_FP8_E5M2:
      return DataType::f8_e5m2;
    case CUDNN_DATA_INT32:
      return DataType::s32;
    case CUDNN_DATA_INT8:
      return DataType::s8;
    case CUDNN_DATA_UINT8:
      return DataType::u8;
    default:
      return inexpressible(fmt::format("{}: cuDNN's data type {} has no counterpart", field, static_cast<int>(type)));
  }
}

std::string operations_of(const Snapshot& graph) {
  std::string text;
  for (const Node& operation : graph.children(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    text += (text.empty() ? "" : " + ") + (operation ? name_of(*operation) : "an operation that nobody described here");
  }
  return text;
}

Result<GraphProblem> graph_problem_of(const Snapshot& graph) {
  const ConvolutionOperation* names = nullptr;
  Node convolution;
  std::vector<Node> pointwise;
  for (const Node& operation : graph.children(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    if (operation == nullptr) return inexpressible("an operation that nobody described here");
    if (const auto* const found =
            std::ranges::find(cudnn::kConvolutionOperations, operation->type(), &ConvolutionOperation::type);
        found != std::end(cudnn::kConvolutionOperations)) {
      if (names != nullptr) return inexpressible("more than one convolution");
      names = found;
      convolution = operation;
    } else if (operation->type() == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) {
      pointwise.push_back(operation);
    } else {
      return inexpressible(name_of(*operation) + " is no part of a convolution problem");
    }
  }
  if (names == nullptr) return inexpressible("no convolution");
  CONVOY_TRY(Convolution read, convolution_of(*convolution, *names));
  CONVOY_CHECK(EpilogueReader(read, std::move(pointwise)).follow());
  CONVOY_CHECK(validate(read.problem));
  read.operands.out = read.out.uid;
  return GraphProblem{std::move(read.problem), read.operands};
}

Result<ConvProblem> problem_of(const Snapshot& graph) {
  CONVOY_TRY(GraphProblem read, graph_problem_of(graph));
  return std::move(read.problem);
}

}  // namespace convoy::interposer
