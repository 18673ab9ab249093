#include "engines/cpu/common/problem.h"

#include <limits>

namespace convoy::cpu {
namespace {

static_assert(static_cast<int>(ActivationKind::identity) == kIdentity);
static_assert(static_cast<int>(ActivationKind::relu) == kRelu);
static_assert(static_cast<int>(ActivationKind::clip) == kClip);
static_assert(static_cast<int>(ActivationKind::leaky_relu) == kLeakyRelu);
static_assert(static_cast<int>(ActivationKind::prelu) == kPrelu);
static_assert(static_cast<int>(ActivationKind::elu) == kElu);
static_assert(static_cast<int>(ActivationKind::sigmoid) == kSigmoid);
static_assert(static_cast<int>(ActivationKind::tanh) == kTanh);
static_assert(static_cast<int>(ActivationKind::swish) == kSwish);
static_assert(static_cast<int>(ActivationKind::hard_swish) == kHardSwish);
static_assert(static_cast<int>(ActivationKind::hard_sigmoid) == kHardSigmoid);
static_assert(static_cast<int>(ActivationKind::gelu) == kGelu);
static_assert(static_cast<int>(ActivationKind::gelu_tanh) == kGeluTanh);
static_assert(static_cast<int>(ActivationKind::mish) == kMish);

ActivationView view_of(const TensorDesc& desc) {
  ActivationView view{desc.strides[0], desc.strides[1], {0, 0, 0}, desc.channel_block};
  const int dims = desc.spatial_dims();
  for (int i = 0; i < dims; ++i) view.spatial[3 - dims + i] = desc.strides[2 + i];
  return view;
}

}  // namespace

ConvGeometry flat_geometry(const ConvProblem& problem) {
  ConvGeometry g{};
  g.batch = problem.batch();
  g.groups = problem.groups;
  g.channels = problem.in_channels();
  g.filters = problem.out_channels();
  g.group_channels = g.channels / g.groups;
  g.group_filters = g.filters / g.groups;
  g.x = view_of(problem.x);
  g.y = view_of(problem.y);
  g.w = {0, problem.w.strides[0], problem.w.strides[1], {0, 0, 0}};
  g.taps = 1;
  const int dims = problem.spatial_dims();
  for (int i = 0; i < 3; ++i) {
    const int from = i - (3 - dims);  // index into the problem's spatial dims
    const bool real = from >= 0;
    g.x_size[i] = real ? problem.x.dims[2 + from] : 1;
    g.y_size[i] = real ? problem.y.dims[2 + from] : 1;
    g.filter[i] = real ? problem.w.dims[2 + from] : 1;
    g.stride[i] = real ? problem.stride[from] : 1;
    g.dilation[i] = real ? problem.dilation[from] : 1;
    g.pre[i] = real ? problem.pre_padding[from] : 0;
    g.post[i] = real ? problem.post_padding[from] : 0;
    g.w.spatial[i] = real ? problem.w.strides[2 + from] : 0;
    g.taps *= g.filter[i];
    if (problem.mode == ConvMode::convolution) {
      g.w.origin += (g.filter[i] - 1) * g.w.spatial[i];
      g.w.spatial[i] = -g.w.spatial[i];
    }
  }
  return g;
}

template <class Real>
EpilogueArgsOf<Real> make_epilogue(const ConvProblem& problem, const ConvArgs& args) {
  const Activation& act = problem.epilogue.activation;
  EpilogueArgsOf<Real> e{};
  e.alpha = static_cast<Real>(problem.alpha);
  e.beta = static_cast<Real>(problem.beta);
  e.gamma = static_cast<Real>(problem.epilogue.gamma);
  e.bias = problem.epilogue.bias ? static_cast<const Real*>(args.bias) : nullptr;
  e.slopes = args.slopes;
  e.activation = static_cast<std::int32_t>(act.kind);
  e.a = static_cast<Real>(act.a);
  e.b = static_cast<Real>(act.b);
  const Real infinity = std::numeric_limits<Real>::infinity();
  e.low = act.kind == ActivationKind::relu ? Real{0} : act.kind == ActivationKind::clip ? e.a : -infinity;
  e.high = act.kind == ActivationKind::clip ? e.b : infinity;
  e.fast = e.beta == 0 && (act.kind == ActivationKind::identity || act.kind == ActivationKind::relu ||
                           act.kind == ActivationKind::clip);
  e.plain = e.fast && e.alpha == 1 && e.bias == nullptr && e.gamma == 0 && act.kind == ActivationKind::identity;
  return e;
}

template EpilogueArgsOf<float> make_epilogue(const ConvProblem& problem, const ConvArgs& args);
template EpilogueArgsOf<double> make_epilogue(const ConvProblem& problem, const ConvArgs& args);

EngineInfo own_engine(std::string name, int revision, std::string summary) {
  EngineInfo info;
  info.name = std::move(name);
  info.revision = revision;
  info.summary = std::move(summary);
  info.min_isa = Isa::avx2;
  info.any_weight_strides = true;
  info.max_spatial_dims = 3;
  info.flipped = true;
  info.deterministic = info.thread_invariant = true;
  info.max_elements = EngineInfo::any_size;
  return info;
}

}  // namespace convoy::cpu
