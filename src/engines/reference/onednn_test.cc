// The oracle against an independent implementation, oneDNN: random problems of all three passes, 1D to 3D, groups,
// dilation, asymmetric padding, f32, bf16 and 8-bit integers, and the activations that both know.
#include <omp.h>

#include <map>
#include <optional>

#include "device/onednn_api.h"
#include "engines/reference/testing/literals.h"
#include "engines/testing/conv_data.h"
#include "engines/testing/problem_generator.h"

namespace convoy::reference_testing {
namespace {

using testing::ConvData;
using testing::Fill;

const dnnl::engine& cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::memory::data_type type_of(DataType type) {
  switch (type) {
    case DataType::bf16:
      return dnnl::memory::data_type::bf16;
    case DataType::s8:
      return dnnl::memory::data_type::s8;
    case DataType::u8:
      return dnnl::memory::data_type::u8;
    case DataType::s32:
      return dnnl::memory::data_type::s32;
    default:
      return dnnl::memory::data_type::f32;
  }
}

// A row-major tensor of oneDNN; weights get oneDNN's group dim.
struct Operand {
  TensorDesc desc;
  HostTensor data;
  dnnl::memory memory;

  Operand(const TensorDesc& from, const void* values, std::int64_t groups_of_weights) {
    desc = TensorDesc::packed(from.type, from.dims);
    data = *HostTensor::zeros(desc);
    if (values != nullptr) copy_tensor(from, values, desc, data.data.get());
    dnnl::memory::dims dims(from.dims.begin(), from.dims.end());
    if (groups_of_weights > 0) {
      dims[0] /= groups_of_weights;
      dims.insert(dims.begin(), groups_of_weights);
    }
    dnnl::memory::dims strides(dims.size(), 1);
    for (int i = static_cast<int>(dims.size()) - 2; i >= 0; --i) strides[i] = strides[i + 1] * dims[i + 1];
    memory = dnnl::memory(dnnl::memory::desc(dims, type_of(from.type), strides), cpu(), data.data.get());
  }
  dnnl::memory::desc md() const { return memory.get_desc(); }
};

// oneDNN's name for an activation, with its parameters; none where it has no such.
std::optional<dnnl::post_ops> post_ops_of(const Activation& activation) {
  using dnnl::algorithm;
  const std::map<ActivationKind, std::tuple<algorithm, float, float>> names = {
      {ActivationKind::relu, {algorithm::eltwise_relu, 0, 0}},
      {ActivationKind::clip, {algorithm::eltwise_clip, activation.a, activation.b}},
      {ActivationKind::leaky_relu, {algorithm::eltwise_relu, activation.a, 0}},
      {ActivationKind::elu, {algorithm::eltwise_elu, activation.a, 0}},
      {ActivationKind::sigmoid, {algorithm::eltwise_logistic, 0, 0}},
      {ActivationKind::tanh, {algorithm::eltwise_tanh, 0, 0}},
      {ActivationKind::swish, {algorithm::eltwise_swish, activation.a, 0}},
      {ActivationKind::hard_swish, {algorithm::eltwise_hardswish, 1.0F / 6, 0.5F}},
      {ActivationKind::hard_sigmoid, {algorithm::eltwise_hardsigmoid, activation.a, activation.b}},
      {ActivationKind::gelu, {algorithm::eltwise_gelu_erf, 0, 0}},
      {ActivationKind::gelu_tanh, {algorithm::eltwise_gelu_tanh, 0, 0}},
      {ActivationKind::mish, {algorithm::eltwise_mish, 0, 0}},
  };
  dnnl::post_ops ops;
  if (activation.kind == ActivationKind::identity) return ops;
  const auto found = names.find(activation.kind);
  if (found == names.end()) return std::nullopt;
  const auto& [kind, a, b] = found->second;
  ops.append_eltwise(kind, a, b);
  return ops;
}

dnnl::memory::dims offset_dims(const Dims& dims, std::int64_t offset) {
  dnnl::memory::dims shifted(dims.begin(), dims.end());
  for (auto& dim : shifted) dim += offset;
  return shifted;
}

// What oneDNN computes, in the layout of problem.out(); none where it has no such convolution.
std::optional<HostTensor> onednn_result(const ConvProblem& p, const ConvArgs& args) {
  const auto ops = post_ops_of(p.epilogue.activation);
  if (!ops) return std::nullopt;
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(*ops);
  Operand x(p.x, p.pass == Pass::dgrad ? nullptr : args.x, 0);
  Operand w(p.w, p.pass == Pass::wgrad ? nullptr : args.w, p.groups);
  Operand y(p.y, p.pass == Pass::fprop ? nullptr : args.y, 0);
  const auto strides = offset_dims(p.stride, 0);
  const auto dilations = offset_dims(p.dilation, -1);
  const auto pre = offset_dims(p.pre_padding, 0);
  const auto post = offset_dims(p.post_padding, 0);
  const auto direct = dnnl::algorithm::convolution_direct;
  dnnl::stream stream(cpu());
  try {
    dnnl::memory::desc bias_desc;
    dnnl::memory bias;
    if (p.epilogue.bias) {
      bias_desc = dnnl::memory::desc({p.out_channels()}, type_of(p.bias_type()), dnnl::memory::format_tag::a);
      bias = dnnl::memory(bias_desc, cpu(), const_cast<void*>(args.bias));
    }
    const bool training = p.pass != Pass::fprop;
    const dnnl::convolution_forward::primitive_desc forward(
        cpu(), training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference, direct, x.md(),
        w.md(), bias_desc, y.md(), strides, dilations, pre, post, attributes);
    if (p.pass == Pass::fprop) {
      std::unordered_map<int, dnnl::memory> run = {
          {DNNL_ARG_SRC, x.memory}, {DNNL_ARG_WEIGHTS, w.memory}, {DNNL_ARG_DST, y.memory}};
      if (p.epilogue.bias) run[DNNL_ARG_BIAS] = bias;
      dnnl::convolution_forward(forward).execute(stream, run);
    } else if (p.pass == Pass::dgrad) {
      const dnnl::convolution_backward_data::primitive_desc backward(cpu(), direct, x.md(), w.md(), y.md(), strides,
                                                                     dilations, pre, post, forward);
      dnnl::convolution_backward_data(backward).execute(
          stream, {{DNNL_ARG_DIFF_SRC, x.memory}, {DNNL_ARG_WEIGHTS, w.memory}, {DNNL_ARG_DIFF_DST, y.memory}});
    } else {
      const dnnl::convolution_backward_weights::primitive_desc backward(cpu(), direct, x.md(), w.md(), y.md(), strides,
                                                                        dilations, pre, post, forward);
      dnnl::convolution_backward_weights(backward).execute(
          stream, {{DNNL_ARG_SRC, x.memory}, {DNNL_ARG_DIFF_WEIGHTS, w.memory}, {DNNL_ARG_DIFF_DST, y.memory}});
    }
    stream.wait();
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_unimplemented || error.status == dnnl_invalid_arguments) return std::nullopt;
    ADD_FAILURE() << print(p) << ": " << error.message;
    return std::nullopt;
  }
  const Operand& out = p.pass == Pass::fprop ? y : p.pass == Pass::dgrad ? x : w;
  return *converted(out.data, p.out());
}

// Compares `wanted` random problems; those that oneDNN does not have are passed over.
void compare(const testing::ProblemOptions& options, std::uint64_t seed, int wanted, Fill fill) {
  testing::Random random(seed);
  omp_set_num_threads(1);  // oneDNN's own: the problems are tiny
  const auto team = make_cpu_team(1);
  int compared = 0;
  for (int tried = 0; compared < wanted && tried < 4 * wanted; ++tried) {
    const ConvProblem problem = testing::random_problem(random, options);
    const ConvData data(problem, random.next(), fill);
    const std::optional<HostTensor> theirs = onednn_result(problem, data.args());
    if (!theirs) continue;
    ++compared;
    const Verification verification = verify_with_reference(problem, data.args(), theirs->data.get(), {}, *team);
    ASSERT_TRUE(verification.ok()) << print(problem) << "\nout[" << to_string(verification.worst) << "]: oneDNN "
                                   << verification.actual << ", the oracle " << verification.expected << ", "
                                   << verification.max_error << " tolerances";
  }
  EXPECT_EQ(compared, wanted);
}

// What oneDNN's convolution has: no flip, no scaling, no residual.
testing::ProblemOptions options_of(std::vector<Pass> passes, TypeCombination types) {
  testing::ProblemOptions options;
  options.passes = std::move(passes);
  options.types = {types};
  options.flipped = options.alpha_beta = options.residual = options.requantize = options.zero_points = false;
  options.given_zero_points = false;
  options.bias = false;
  options.activations = {ActivationKind::identity};
  options.max_products = 200'000;
  options.max_channels = 40;
  return options;
}

constexpr TypeCombination kF32{DataType::f32, DataType::f32, DataType::f32, DataType::f32};
constexpr TypeCombination kBf16{DataType::bf16, DataType::bf16, DataType::bf16, DataType::f32};

TEST(OracleAndOneDnn, F32Fprop) {
  testing::ProblemOptions options = options_of({Pass::fprop}, kF32);
  options.bias = true;
  compare(options, 1, 120, Fill::normal);
}
TEST(OracleAndOneDnn, F32Dgrad) { compare(options_of({Pass::dgrad}, kF32), 2, 100, Fill::normal); }
TEST(OracleAndOneDnn, F32Wgrad) { compare(options_of({Pass::wgrad}, kF32), 3, 100, Fill::normal); }

TEST(OracleAndOneDnn, F32Activations) {
  testing::ProblemOptions options = options_of({Pass::fprop}, kF32);
  options.bias = true;
  options.activations.clear();
  options.max_products = 50'000;
  compare(options, 4, 150, Fill::normal);
}

TEST(OracleAndOneDnn, Bf16) {
  if (cpu_features().isa < Isa::avx512) GTEST_SKIP() << "oneDNN needs AVX-512 for bf16";
  compare(options_of({Pass::fprop, Pass::dgrad, Pass::wgrad}, kBf16), 5, 100, Fill::normal);
}

TEST(OracleAndOneDnn, Integers) {
  for (const DataType x : {DataType::u8, DataType::s8}) {
    testing::ProblemOptions options = options_of({Pass::fprop}, {x, DataType::s8, DataType::s32, DataType::s32});
    options.bias = true;
    compare(options, 6, 50, Fill::normal);
  }
}

}  // namespace
}  // namespace convoy::reference_testing
