#include "engines/onednn/request.h"

#include <cpuid.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <numeric>

#include "base/cpu.h"
#include "core/epilogue.h"
#include "core/hash.h"

namespace convoy::onednn {
namespace {

using Tag = dnnl::memory::format_tag;
using Type = dnnl::memory::data_type;

template <class... Args>
Refusal no(RefusalCode code, fmt::format_string<Args...> format, Args&&... args) {
  return {code, fmt::format(format, std::forward<Args>(args)...)};
}

// Describing a convolution takes oneDNN time that grows with the sizes: its search for a blocking tries each row
// length, and where a window hangs far over the edge it prepares a kernel for each place in a row, about 20 us each.
// The bounds keep a survey in milliseconds; its own 32-bit arithmetic on sizes stays far from its limits, too.
constexpr std::int64_t kMostWindow = 1 << 20;  // padding, stride, dilation, and the filter with its dilation
constexpr std::int64_t kMostSize = 1 << 16;    // of a spatial dimension
constexpr std::int64_t kMostPixels = 1 << 22;  // of a channel
constexpr std::int64_t kMostPixelsOfPointwise = 1 << 18;
constexpr std::int64_t kMostChannels = 1 << 16;
// A row longer than this takes short windows only.
constexpr std::int64_t kLongRow = 224;
constexpr std::int64_t kShortWindow = 16, kShortDilation = 2;

std::optional<Refusal> unfit_sizes(const ConvProblem& p) {
  for (const auto& [name, desc] : {std::pair{"x", &p.x}, {"y", &p.y}}) {
    std::int64_t pixels = 1;
    for (std::size_t i = 1; i < desc->dims.size(); ++i) {
      const std::int64_t size = desc->dims[i], most = i == 1 ? kMostChannels : kMostSize;
      if (size > most) {
        return no(RefusalCode::size, "{}.dims[{}]={}: oneDNN takes too long to plan beyond {}", name, i, size, most);
      }
      if (i > 1) pixels *= size;  // three of at most 2^16 each
    }
    const bool pointwise = std::all_of(p.w.dims.begin() + 2, p.w.dims.end(), [](auto size) { return size == 1; });
    const std::int64_t most = pointwise ? kMostPixelsOfPointwise : kMostPixels;
    if (pixels > most) {
      return no(RefusalCode::size, "{}.dims={}: oneDNN takes too long to plan beyond {} pixels{}", name,
                to_string(desc->dims), most, pointwise ? " with a filter of 1" : "");
    }
  }
  return std::nullopt;
}

// The last dimension is a row.
std::optional<Refusal> unfit_row(const ConvProblem& p) {
  const int i = p.spatial_dims() - 1;
  const std::int64_t row = std::max(p.x.dims[2 + i], p.y.dims[2 + i]);
  if (row <= kLongRow) return std::nullopt;
  const auto beyond = [&](RefusalCode code, const char* field, int index, std::int64_t value, std::int64_t most) {
    return no(code, "{}[{}]={} in rows of {}: oneDNN takes too long to plan beyond {}", field, index, value, row, most);
  };
  const std::int64_t window = (p.w.dims[2 + i] - 1) * p.dilation[i] + 1;
  if (p.dilation[i] > kShortDilation && window > 1) {
    return beyond(RefusalCode::dilation, "dilation", i, p.dilation[i], kShortDilation);
  }
  if (p.w.dims[2 + i] > kShortWindow) {
    return beyond(RefusalCode::filter, "w.dims", 2 + i, p.w.dims[2 + i], kShortWindow);
  }
  for (const auto& [name, padding] :
       {std::pair{"pre_padding", p.pre_padding[i]}, {"post_padding", p.post_padding[i]}}) {
    // dgrad is computed as fprop with what is missing of the window as its padding.
    const bool turned = p.pass == Pass::dgrad && p.stride[i] == 1;
    const std::int64_t over = turned ? std::max(padding, window - 1 - padding) : padding;
    if (over > (window - 1) / 2) {
      return no(RefusalCode::padding,
                "{}[{}]={} in rows of {}: oneDNN's {} takes too long to plan with a window of {} that hangs over the "
                "edge by more than half",
                name, i, padding, row, name_of(p.pass), window);
    }
  }
  return std::nullopt;
}

std::optional<Refusal> unfit_window(const ConvProblem& p) {
  for (int i = 0; i < p.spatial_dims(); ++i) {
    const std::array<std::pair<const char*, std::int64_t>, 4> values = {{{"pre_padding", p.pre_padding[i]},
                                                                         {"post_padding", p.post_padding[i]},
                                                                         {"stride", p.stride[i]},
                                                                         {"dilation", p.dilation[i]}}};
    for (const auto& [name, value] : values) {
      if (value > kMostWindow) {
        return no(RefusalCode::size, "{}[{}]={}: oneDNN's convolutions take at most {}", name, i, value, kMostWindow);
      }
    }
    if (p.w.dims[2 + i] > kMostWindow / p.dilation[i]) {
      return no(RefusalCode::size, "w.dims[{}]={} with dilation {}: oneDNN's convolutions take windows of at most {}",
                2 + i, p.w.dims[2 + i], p.dilation[i], kMostWindow);
    }
  }
  if (auto refusal = unfit_sizes(p)) return refusal;
  return unfit_row(p);
}

std::optional<Refusal> unfit_layout(const ConvProblem& p) {
  for (const auto& [name, desc] : {std::pair{"x", &p.x}, {"y", &p.y}}) {
    if (desc->channel_block == 1 || desc->is_packed(desc->channel_block == 8 ? Layout::nchw8c : Layout::nchw16c)) {
      continue;
    }
    return no(RefusalCode::layout, "{}.strides={} with channel blocks of {}: oneDNN takes packed blocked tensors only",
              name, to_string(desc->strides), desc->channel_block);
  }
  if (p.w.channel_block != 1) {
    return no(RefusalCode::layout, "w has channel blocks of {}: oneDNN is given weights without blocks",
              p.w.channel_block);
  }
  return std::nullopt;
}

std::optional<Refusal> unfit_epilogue(const ConvProblem& p) {
  const Epilogue& e = p.epilogue;
  if (p.pass != Pass::fprop) {
    const auto backward = [&](RefusalCode code, const std::string& field) {
      return no(code, "{}: oneDNN's {} has no epilogue", field, name_of(p.pass));
    };
    if (p.alpha != 1 || p.beta != 0) {
      return backward(RefusalCode::scaling, fmt::format("alpha={}, beta={}", p.alpha, p.beta));
    }
    if (e.bias) return backward(RefusalCode::epilogue, "bias=1");
    if (e.gamma != 0) return backward(RefusalCode::epilogue, fmt::format("gamma={}", e.gamma));
    if (e.activation.kind != ActivationKind::identity) {
      return backward(RefusalCode::epilogue, fmt::format("act={}", name_of(e.activation.kind)));
    }
    return std::nullopt;
  }
  if (p.w_zero_point != 0) {
    return no(RefusalCode::epilogue, "zp={},{},{}: oneDNN's convolution has no zero point of w", p.x_zero_point,
              p.w_zero_point, p.y_zero_point);
  }
  if (e.gamma != 0 && e.gamma != 1 && p.beta != 0) {
    return no(RefusalCode::epilogue,
              "gamma={} with beta={}: oneDNN scales what it adds from out only, and out holds one tensor", e.gamma,
              p.beta);
  }
  return std::nullopt;
}

// Asked once, with the first engine: after the end of oneDNN's statics it can't answer.
bool has_isa(unsigned bits) {
  static const auto all = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  return (all & bits) == bits;
}

// Of its levels oneDNN tells the highest only, and none has AVX-VNNI beside AVX-512 without FP16, as Zen 5 does: there
// the processor is asked.
bool has_avx_vnni() {
  if (has_isa(dnnl_cpu_isa_avx2_vnni)) return true;
  if (!has_isa(dnnl_cpu_isa_avx512_core_bf16) || detected_cpu_features().avx512_fp16) return false;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned avx_vnni = 1U << 4;  // Intel SDM volume 2, CPUID leaf 7, subleaf 1
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & avx_vnni) != 0;
}

std::optional<Refusal> unfit_types(const ConvProblem& p) {
  if (p.x.type != DataType::f16 && p.w.type != DataType::f16) return std::nullopt;
  if (has_isa(dnnl_cpu_isa_avx512_core_fp16) || has_isa(dnnl_cpu_isa_avx2_vnni_2)) return std::nullopt;
  return no(RefusalCode::data_type,
            "types x={} w={}: oneDNN has f16 on processors with AVX512-FP16 or AVX-NE-CONVERT only", name_of(p.x.type),
            name_of(p.w.type));
}

dnnl::memory::dims weights_dims(const ConvProblem& p) {
  dnnl::memory::dims dims = p.w.dims;
  if (p.groups == 1) return dims;
  dims[0] /= p.groups;
  dims.insert(dims.begin(), p.groups);
  return dims;
}

// A value a channel of y, as a post-op sees it.
dnnl::memory::desc per_channel(const ConvProblem& p, Type type, bool one_value = false) {
  dnnl::memory::dims dims(p.y.dims.size(), 1);
  dnnl::memory::dims strides(p.y.dims.size(), 1);
  if (!one_value) dims[1] = p.y.dims[1];
  strides[0] = dims[1];
  return {dims, type, strides};
}

struct Eltwise {
  dnnl::algorithm algorithm;
  float a, b;
};

// Precondition: neither identity nor prelu.
Eltwise eltwise_of(const Activation& activation) {
  using dnnl::algorithm;
  const auto a = static_cast<float>(activation.a);
  const auto b = static_cast<float>(activation.b);
  switch (activation.kind) {
    case ActivationKind::clip:
      return {algorithm::eltwise_clip, a, b};
    case ActivationKind::leaky_relu:
      return {algorithm::eltwise_relu, a, 0};
    case ActivationKind::elu:
      return {algorithm::eltwise_elu, a, 0};
    case ActivationKind::sigmoid:
      return {algorithm::eltwise_logistic, 0, 0};
    case ActivationKind::tanh:
      return {algorithm::eltwise_tanh, 0, 0};
    case ActivationKind::swish:
      return {algorithm::eltwise_swish, a, 0};
    case ActivationKind::hard_swish:
      return {algorithm::eltwise_hardswish, 1.0F / 6, 0.5F};
    case ActivationKind::hard_sigmoid:
      return {algorithm::eltwise_hardsigmoid, a, b};
    case ActivationKind::gelu:
      return {algorithm::eltwise_gelu_erf, 0, 0};
    case ActivationKind::gelu_tanh:
      return {algorithm::eltwise_gelu_tanh, 0, 0};
    case ActivationKind::mish:
      return {algorithm::eltwise_mish, 0, 0};
    default:
      return {algorithm::eltwise_relu, 0, 0};
  }
}

dnnl::memory::dims less_one(const Dims& dims) {
  dnnl::memory::dims less = dims;
  for (auto& dim : less) --dim;  // oneDNN counts the elements between
  return less;
}

}  // namespace

AsOneImage::AsOneImage(const ConvProblem& problem) : given_(problem) {
  const auto is_pixel = [](const TensorDesc& desc) {
    return std::all_of(desc.dims.begin() + 2, desc.dims.end(), [](std::int64_t size) { return size == 1; });
  };
  const std::int64_t batch = problem.x.dims[0];
  if (problem.pass != Pass::fprop || problem.compute != DataType::s32 || problem.groups != 1) return;
  if (batch < 2 || batch > kMostSize || !is_pixel(problem.w) || !is_pixel(problem.x) || !is_pixel(problem.y)) return;
  if (!problem.x.is_packed(Layout::nhwc) || !problem.y.is_packed(Layout::nhwc)) return;
  // With padding a window may lie beside its pixel.
  for (const Dims& padding : {problem.pre_padding, problem.post_padding}) {
    if (std::ranges::any_of(padding, [](std::int64_t size) { return size != 0; })) return;
  }
  merged_ = problem;
  std::ranges::fill(merged_->stride, 1);
  for (TensorDesc* desc : {&merged_->x, &merged_->y}) {
    desc->dims[0] = 1;
    desc->dims[2] = batch;
    *desc = desc->with_layout(Layout::nhwc);
  }
}

bool is_depthwise(const ConvProblem& p) { return p.groups > 1 && p.w.dims[1] == 1 && p.w.dims[0] == p.groups; }

bool takes_no_wide_bias(const ConvProblem& p) {
  return p.pass == Pass::fprop && (p.x.type == DataType::bf16 || p.x.type == DataType::f16) && p.epilogue.bias &&
         p.alpha == 1 && is_depthwise(p);
}

std::vector<Form> forms_of(const ConvProblem& problem) {
  std::vector<Form> forms;
  const double gamma = problem.epilogue.gamma;
  for (const bool any : {false, true}) {
    for (const bool bias_after : {false, true}) {
      if (bias_after && !takes_no_wide_bias(problem)) continue;
      if (gamma == 0 || gamma == 1) forms.push_back({any, false, bias_after});
      if (gamma != 0 && problem.beta == 0) forms.push_back({any, true, bias_after});
    }
  }
  return forms;
}

bool processor_has(std::string_view level) {
  if (level == "avx512_vnni") return has_isa(dnnl_cpu_isa_avx512_core_vnni);
  if (level == "avx512_bf16") return has_isa(dnnl_cpu_isa_avx512_core_bf16);
  if (level == "avx512_fp16") return has_isa(dnnl_cpu_isa_avx512_core_fp16);
  if (level == "amx") return has_isa(dnnl_cpu_isa_avx512_core_amx);
  if (level == "avx2_vnni") return has_avx_vnni();
  return level != "avx2_vnni_2" || has_isa(dnnl_cpu_isa_avx2_vnni_2);
}

Isa processor_isa() {
  if (has_isa(dnnl_cpu_isa_avx512_core)) return Isa::avx512;
  return has_isa(dnnl_cpu_isa_avx2) ? Isa::avx2 : Isa::portable;
}

std::uint64_t kind_of_use(const ConvProblem& p, std::size_t row) {
  Hash hash;
  hash.add(row, p.pass, p.x.type, p.w.type, p.y.type, p.spatial_dims(), p.groups > 1);
  return hash.value();
}

std::optional<Refusal> inexpressible(const ConvProblem& problem) {
  if (auto refusal = unfit_types(problem)) return refusal;
  if (auto refusal = unfit_layout(problem)) return refusal;
  if (auto refusal = unfit_epilogue(problem)) return refusal;
  return unfit_window(problem);
}

std::optional<std::string_view> precision_note(const ConvProblem& problem) {
  if (problem.x.type != DataType::f32 || problem.math == MathMode::strict) return std::nullopt;
  return problem.math == MathMode::tf32 ? note::tf32 : note::down_convert_inputs;
}

bool loses_special_values(const ConvProblem& problem) {
  const ActivationKind kind = problem.epilogue.activation.kind;
  constexpr ActivationKind kLossy[] = {ActivationKind::relu, ActivationKind::clip, ActivationKind::sigmoid,
                                       ActivationKind::hard_sigmoid, ActivationKind::gelu};
  return problem.compute != DataType::s32 && std::ranges::find(kLossy, kind) != std::end(kLossy);
}

std::optional<Layout> common_layout(const ConvProblem& p) {
  const auto fits = [&](Layout layout) { return p.x.is_packed(layout) && p.y.is_packed(layout); };
  if (!fits(Layout::nhwc)) return fits(Layout::nchw) ? std::optional(Layout::nchw) : std::nullopt;
  if (!fits(Layout::nchw)) return Layout::nhwc;
  const auto spelled = [&](Layout layout) { return p.x.strides == p.x.with_layout(layout).strides; };
  return spelled(Layout::nchw) && !spelled(Layout::nhwc) ? Layout::nchw : Layout::nhwc;
}

dnnl::memory::desc as_given(const ConvProblem& problem, const TensorDesc& desc) {
  const Type type = *data_type_of(desc.type);
  if (const auto common = common_layout(problem)) return {desc.dims, type, desc.with_layout(*common).strides};
  if (desc.channel_block == 1) return {desc.dims, type, desc.strides};
  static constexpr Tag kTags[2][3] = {{Tag::nCw8c, Tag::nChw8c, Tag::nCdhw8c},
                                      {Tag::nCw16c, Tag::nChw16c, Tag::nCdhw16c}};
  return {desc.dims, type, kTags[desc.channel_block == 16 ? 1 : 0][desc.dims.size() - 3]};
}

dnnl::memory::desc weights_as_given(const ConvProblem& p) {
  dnnl::memory::dims strides = p.w.strides;
  const dnnl::memory::dims dims = weights_dims(p);
  if (p.groups > 1) strides.insert(strides.begin(), dims[1] * p.w.strides[0]);
  return {dims, *data_type_of(p.w.type), strides};
}

Request::Request(const ConvProblem& problem, Form form) : problem_(problem), form_(form) {
  const auto activation = [&](const TensorDesc& desc) {
    return form.any_layout ? dnnl::memory::desc(desc.dims, *data_type_of(desc.type), Tag::any)
                           : as_given(problem, desc);
  };
  x_ = activation(problem.x);
  y_ = activation(problem.y);
  w_ = dnnl::memory::desc(weights_dims(problem), *data_type_of(problem.w.type), Tag::any);
  set_attributes();
}

// out = act(alpha*conv + beta*out + bias + gamma*z) * scale, rounded, plus zero point, in this order. The zero point is
// added to a value already rounded: added before, it would turn the ties. A quantized residual meets t - zero_point,
// clipped to what a byte holds, in units of z, which oneDNN adds as it is.
void Request::set_attributes() {
  const ConvProblem& p = problem_;
  const Epilogue& e = p.epilogue;
  attributes_.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (p.x.type == DataType::f32 && p.math != MathMode::strict) {
    attributes_.set_fpmath_mode(p.math == MathMode::tf32 ? dnnl::fpmath_mode::tf32 : dnnl::fpmath_mode::bf16);
  }
  if (p.pass != Pass::fprop) return;

  dnnl::post_ops ops;
  const auto binary = [&](dnnl::algorithm algorithm, const dnnl::memory::desc& asked, Source source,
                          const dnnl::memory::desc& given) {
    extras_.push_back({DNNL_ARG_ATTR_MULTIPLE_POST_OP(ops.len()) | DNNL_ARG_SRC_1, source, given});
    ops.append_binary(algorithm, asked);
  };
  const Type bias_type = *data_type_of(p.bias_type());
  const bool bias_after = p.alpha != 1 || form_.bias_after_sum;
  if (e.bias && !bias_after) {
    bias_ = dnnl::memory::desc({p.out_channels()}, bias_type, Tag::a);
    extras_.push_back({DNNL_ARG_BIAS, Source::bias, bias_});
  }
  if (p.alpha != 1) ops.append_eltwise(dnnl::algorithm::eltwise_linear, static_cast<float>(p.alpha), 0);
  if (p.beta != 0) ops.append_sum(static_cast<float>(p.beta));
  if (e.bias && bias_after) {
    const auto desc = per_channel(p, bias_type);
    binary(dnnl::algorithm::binary_add, desc, Source::bias, desc);
  }
  if (e.gamma != 0) {
    if (form_.residual_by_sum) {
      ops.append_sum(static_cast<float>(e.gamma));
    } else {
      binary(dnnl::algorithm::binary_add, y_, Source::z, as_given(p, p.y));
    }
  }
  if (e.activation.kind == ActivationKind::prelu) {
    extras_.push_back({DNNL_ARG_ATTR_MULTIPLE_POST_OP(ops.len()) | DNNL_ARG_WEIGHTS, Source::slopes,
                       dnnl::memory::desc({p.out_channels()}, Type::f32, Tag::a)});
    ops.append_prelu(1 << 1);
  } else if (e.activation.kind != ActivationKind::identity) {
    const Eltwise eltwise = eltwise_of(e.activation);
    ops.append_eltwise(eltwise.algorithm, eltwise.a, eltwise.b);
  }
  if (e.requantize != Requantize::none) {
    const auto desc = per_channel(p, Type::f32, e.requantize == Requantize::per_tensor);
    binary(dnnl::algorithm::binary_mul, desc, Source::scales, desc);
  }
  if (e.residual) {
    const QuantizedResidual& r = *e.residual;
    const auto [low, high] = byte_limits(p.y.type);
    const auto eltwise = [&](dnnl::algorithm algorithm, double a, double b) {
      ops.append_eltwise(algorithm, static_cast<float>(a), static_cast<float>(b));
    };
    eltwise(dnnl::algorithm::eltwise_round, 0, 0);
    eltwise(dnnl::algorithm::eltwise_clip, low - r.zero_point, high - r.zero_point);
    eltwise(dnnl::algorithm::eltwise_linear, r.scale / r.z_scale, -r.z_zero_point);
    binary(dnnl::algorithm::binary_add, y_, Source::z, as_given(p, p.y));
    eltwise(dnnl::algorithm::eltwise_linear, r.z_scale, 0);
  }
  const dnnl::memory::desc one({1}, Type::s32, Tag::a);
  if (p.x_zero_point != 0) {
    attributes_.set_zero_points_mask(DNNL_ARG_SRC, 0);
    extras_.push_back({DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC, Source::x_zero_point, one});
  }
  if (p.y_zero_point != 0) {
    ops.append_eltwise(dnnl::algorithm::eltwise_round, 0, 0);
    attributes_.set_zero_points_mask(DNNL_ARG_DST, 0);
    extras_.push_back({DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_DST, Source::y_zero_point, one});
  }
  attributes_.set_post_ops(ops);
}

// The C functions: the C++ classes ask for a forward description as a hint, which oneDNN does not need, and which does
// not exist for some combinations of types.
dnnl::primitive_desc Request::first() const {
  const ConvProblem& p = problem_;
  const dnnl::memory::dims dilation = less_one(p.dilation);
  const dnnl_dim_t *strides = p.stride.data(), *dilates = dilation.data();
  const dnnl_dim_t *pre = p.pre_padding.data(), *post = p.post_padding.data();
  const dnnl_engine_t engine = cpu_engine().get();
  const auto direct = dnnl_convolution_direct;
  dnnl_primitive_desc_t description = nullptr;
  dnnl_status_t status = dnnl_unimplemented;
  switch (p.pass) {
    case Pass::fprop:
      status = dnnl_convolution_forward_primitive_desc_create(&description, engine, dnnl_forward_inference, direct,
                                                              x_.get(), w_.get(), bias_.get(true), y_.get(), strides,
                                                              dilates, pre, post, attributes_.get());
      break;
    case Pass::dgrad:
      status = dnnl_convolution_backward_data_primitive_desc_create(&description, engine, direct, x_.get(), w_.get(),
                                                                    y_.get(), strides, dilates, pre, post, nullptr,
                                                                    attributes_.get());
      break;
    case Pass::wgrad:
      status = dnnl_convolution_backward_weights_primitive_desc_create(&description, engine, direct, x_.get(), w_.get(),
                                                                       nullptr, y_.get(), strides, dilates, pre, post,
                                                                       nullptr, attributes_.get());
      break;
  }
  dnnl::primitive_desc first;
  if (status == dnnl_unimplemented || status == dnnl_invalid_arguments) return first;
  dnnl::error::wrap_c_api(status, "oneDNN could not describe a convolution");
  first.reset(description);
  return first;
}

std::string format_of(const dnnl::memory::desc& desc, const char* letters) {
  if (desc.get_format_kind() != dnnl::memory::format_kind::blocked) return "opaque";
  const auto strides = desc.get_strides();
  const auto blocks = desc.get_inner_blks();
  const auto blocked = desc.get_inner_idxs();
  std::vector<int> order(strides.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return strides[a] > strides[b]; });
  std::string text;
  for (const int dim : order) {
    const bool inside = std::find(blocked.begin(), blocked.end(), dim) != blocked.end();
    text += static_cast<char>(inside ? std::toupper(letters[dim]) : letters[dim]);
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) text += fmt::format("{}{}", blocks[i], letters[blocked[i]]);
  return text;
}

}  // namespace convoy::onednn
