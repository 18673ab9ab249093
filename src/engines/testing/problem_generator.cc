#include "engines/testing/problem_generator.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "core/empty.h"

namespace convoy::testing {
namespace {

// What a problem is built from. Any values within the limits of `draw` give a valid problem.
struct Recipe {
  Pass pass{};
  TypeCombination types{};
  int spatial = 2;
  std::int64_t batch = 1;
  std::int64_t groups = 1;
  std::int64_t c_per_group = 1;
  std::int64_t k_per_group = 1;
  std::array<std::int64_t, 3> output{1, 1, 1};  // wanted; more where padding alone would fill the input
  std::array<std::int64_t, 3> unused{};         // input positions past the last window, < stride
  std::array<std::int64_t, 3> filter{1, 1, 1};
  std::array<std::int64_t, 3> stride{1, 1, 1};
  std::array<std::int64_t, 3> dilation{1, 1, 1};
  std::array<std::int64_t, 3> pre{};
  std::array<std::int64_t, 3> post{};
  Layout x_layout = Layout::nchw;
  Layout y_layout = Layout::nchw;
  Layout w_layout = Layout::nchw;
  std::uint64_t strides_seed = 0;
  std::array<std::int64_t, 3> alignment{64, 64, 64};  // x, w, y
  ConvMode mode{};
  double alpha = 1;
  double beta = 0;
  Epilogue epilogue;
  std::array<std::int32_t, 3> zero_points{};
  bool x_zero_given = false;
  bool w_zero_given = false;
  bool gate = false;
};

class Drawer {
 public:
  Drawer(Random& random, const ProblemOptions& options) : random_(random), options_(options) {}

  Recipe draw() {
    Recipe recipe;
    recipe.pass = random_.pick(options_.passes);
    recipe.types = random_.pick(options_.types);
    if (options_.long_sums) prefer_exact_sums(recipe.types);
    if (recipe.types.compute == DataType::s32) recipe.pass = Pass::fprop;
    recipe.spatial = static_cast<int>(random_.integer(options_.min_spatial_dims, options_.max_spatial_dims));
    if (options_.min_spatial_dims <= 2 && options_.max_spatial_dims >= 2 && random_.chance(0.5)) recipe.spatial = 2;
    recipe.batch = random_.chance(0.5) ? 1 : random_.integer(1, 4);
    for (auto& output : recipe.output) {
      output = random_.integer(
          1, random_.chance(0.3) ? options_.max_output : std::min<std::int64_t>(10, options_.max_output));
    }
    if (random_.chance(0.04)) recipe.output[recipe.spatial - 1] = random_.integer(30, 8 * options_.max_output);
    draw_channels(recipe);
    draw_filter(recipe);
    draw_stride(recipe);
    draw_dilation(recipe);
    draw_padding(recipe);
    if (random_.chance(0.05)) fill_x_with_the_filter(recipe);
    if (options_.long_sums && recipe.types.compute == DataType::s32) lengthen_sums(recipe);
    draw_layouts(recipe);
    draw_alignment(recipe);
    draw_scaling(recipe);
    draw_epilogue(recipe);
    recipe.mode = options_.flipped && random_.chance(0.15) ? ConvMode::convolution : ConvMode::cross_correlation;
    return recipe;
  }

  // As a classifier's layers are: a result a channel.
  static void fill_x_with_the_filter(Recipe& recipe) {
    recipe.output.fill(1);
    recipe.unused.fill(0);
    recipe.pre.fill(0);
    recipe.post.fill(0);
    recipe.dilation.fill(1);
  }

  // Draws the field that `code` is about again, nearer to what is common. False where that can't help.
  bool repair(Recipe& recipe, RefusalCode code) {
    switch (code) {
      case RefusalCode::pass:
        recipe.pass = random_.pick(options_.passes);
        if (recipe.types.compute == DataType::s32) recipe.pass = Pass::fprop;
        return options_.passes.size() > 1;
      case RefusalCode::data_type:
        recipe.types = random_.pick(options_.types);
        if (recipe.types.compute == DataType::s32) recipe.pass = Pass::fprop;
        draw_epilogue(recipe);
        return true;
      case RefusalCode::layout: {
        const bool same = random_.chance(0.5);
        draw_layouts(recipe);
        if (same && options_.layouts.empty()) recipe.y_layout = recipe.x_layout;
        if (random_.chance(0.5)) recipe.w_layout = Layout::nchw;
        return true;
      }
      case RefusalCode::spatial_dims:
        recipe.spatial = static_cast<int>(random_.integer(options_.min_spatial_dims, options_.max_spatial_dims));
        return true;
      case RefusalCode::groups:
      case RefusalCode::channels:
        draw_channels(recipe);
        if (random_.chance(0.3)) recipe.groups = 1;
        if (random_.chance(0.5)) {
          recipe.c_per_group = round_up(recipe.c_per_group);
          recipe.k_per_group = round_up(recipe.k_per_group);
        }
        return true;
      case RefusalCode::filter:
        recipe.filter.fill(random_.chance(0.6) ? 3 : random_.integer(1, 7));
        if (random_.chance(0.3)) fill_x_with_the_filter(recipe);
        return true;
      case RefusalCode::stride:
        recipe.stride.fill(random_.chance(0.6) ? 1 : 2);
        recipe.unused.fill(0);
        return true;
      case RefusalCode::dilation:
        recipe.dilation.fill(random_.chance(0.8) ? 1 : 2);
        return true;
      case RefusalCode::padding:
        draw_padding(recipe);
        if (random_.chance(0.7)) recipe.post = recipe.pre;
        if (random_.chance(0.3)) recipe.pre.fill(0);
        return true;
      case RefusalCode::mode:
        recipe.mode = ConvMode::cross_correlation;
        return true;
      case RefusalCode::scaling:
        if (random_.chance(0.5))
          draw_scaling(recipe);
        else
          recipe.alpha = 1, recipe.beta = 0, recipe.gate = false;
        return true;
      case RefusalCode::epilogue: {
        const bool requantized = recipe.epilogue.requantize != Requantize::none;
        draw_epilogue(recipe);
        if (random_.chance(0.4)) {
          recipe.epilogue.activation = {};
          recipe.epilogue.gamma = 0;
          recipe.epilogue.residual.reset();
          recipe.zero_points[1] = 0;
          recipe.x_zero_given = recipe.w_zero_given = false;
        }
        if (requantized && random_.chance(0.3)) {
          recipe.epilogue.requantize = Requantize::none;
          recipe.epilogue.residual.reset();
          recipe.zero_points[2] = 0;
        }
        return true;
      }
      case RefusalCode::alignment:
        recipe.alignment.fill(64);
        return true;
      case RefusalCode::not_offered:  // any field may be at fault
        return repair(recipe, random_.pick({RefusalCode::data_type, RefusalCode::layout, RefusalCode::channels,
                                            RefusalCode::stride, RefusalCode::dilation, RefusalCode::padding,
                                            RefusalCode::epilogue, RefusalCode::filter, RefusalCode::size}));
      case RefusalCode::size:  // what is computed whole: one output position, more than one image
        recipe.batch = 2;
        recipe.stride.fill(1);
        for (int i = 0; i < 3; ++i) {
          recipe.output[i] = 1;
          recipe.pre[i] = recipe.post[i] = recipe.unused[i] = 0;
          recipe.dilation[i] = 1;
        }
        return true;
      default:
        return false;
    }
  }

  ConvProblem build(Recipe recipe) {
    shrink(recipe);
    ConvProblem problem;
    problem.pass = recipe.pass;
    Dims x = {recipe.batch, recipe.groups * recipe.c_per_group};
    Dims w = {recipe.groups * recipe.k_per_group, recipe.c_per_group};
    Dims y = {recipe.batch, recipe.groups * recipe.k_per_group};
    for (int i = 0; i < recipe.spatial; ++i) {
      const std::int64_t output = output_size(recipe, i);
      x.push_back(input_size(recipe, i, output));
      w.push_back(recipe.filter[i]);
      y.push_back(output);
      problem.pre_padding.push_back(recipe.pre[i]);
      problem.post_padding.push_back(recipe.post[i]);
      problem.stride.push_back(recipe.stride[i]);
      problem.dilation.push_back(recipe.dilation[i]);
    }
    Random strides(recipe.strides_seed);
    problem.x = describe(recipe.types.x, x, recipe.x_layout, recipe.alignment[0], strides);
    problem.w = describe(recipe.types.w, w, recipe.w_layout, recipe.alignment[1], strides);
    problem.y = describe(recipe.types.y, y, recipe.y_layout, recipe.alignment[2], strides);
    problem.groups = recipe.groups;
    problem.mode = recipe.mode;
    problem.compute = recipe.types.compute;
    problem.alpha = recipe.alpha;
    problem.beta = recipe.beta;
    problem.epilogue = recipe.epilogue;
    problem.x_zero_point = recipe.zero_points[0];
    problem.w_zero_point = recipe.zero_points[1];
    problem.y_zero_point = recipe.zero_points[2];
    problem.x_zero_given = recipe.x_zero_given;
    problem.w_zero_given = recipe.w_zero_given;
    problem.gate = recipe.gate && problem.pass == Pass::fprop && is_floating(problem.x.type);
    return problem;
  }

 private:
  static std::int64_t input_size(const Recipe& recipe, int i, std::int64_t output) {
    const std::int64_t window = recipe.dilation[i] * (recipe.filter[i] - 1) + 1;
    const std::int64_t unused = std::min(recipe.unused[i], recipe.stride[i] - 1);
    return (output - 1) * recipe.stride[i] + window + unused - recipe.pre[i] - recipe.post[i];
  }

  // The output size wanted, or the least with an input that is not empty.
  static std::int64_t output_size(const Recipe& recipe, int i) {
    std::int64_t output = recipe.output[i];
    while (input_size(recipe, i, output) < 1) ++output;
    return output;
  }

  static std::int64_t round_up(std::int64_t channels) { return (channels + 15) / 16 * 16; }

  std::int64_t channel_count(std::int64_t most) {
    if (random_.chance(options_.odd_sizes)) return random_.integer(1, most);
    const std::int64_t step = random_.pick({4, 8, 16, 32});
    return step <= most ? step * random_.integer(1, most / step) : random_.integer(1, most);
  }

  void draw_channels(Recipe& recipe) {
    const double kind = random_.unit();
    if (kind < 0.08) {  // more channels than one block of any engine
      recipe.groups = 1;
      recipe.c_per_group = channel_count(16);
      recipe.k_per_group = channel_count(16);
      (random_.chance(0.5) ? recipe.c_per_group : recipe.k_per_group) = channel_count(12 * options_.max_channels);
      for (auto& output : recipe.output) output = std::min<std::int64_t>(output, 4);
    } else if (!options_.groups || kind < 0.55) {
      recipe.groups = 1;
      recipe.c_per_group = channel_count(options_.max_channels);
      recipe.k_per_group = channel_count(options_.max_channels);
    } else if (kind < 0.8) {  // depthwise, at times with a multiplier
      recipe.groups = std::max<std::int64_t>(2, channel_count(options_.max_channels));
      recipe.c_per_group = 1;
      recipe.k_per_group = random_.chance(0.8) ? 1 : random_.integer(1, 3);
    } else {
      recipe.groups = random_.integer(2, 6);
      recipe.c_per_group = channel_count(std::max<std::int64_t>(1, options_.max_channels / recipe.groups));
      recipe.k_per_group = channel_count(std::max<std::int64_t>(1, options_.max_channels / recipe.groups));
    }
  }

  void prefer_exact_sums(TypeCombination& types) {
    for (int i = 0; i < 2 && types.compute == DataType::s32 && types.y != DataType::s32; ++i) {
      types = random_.pick(options_.types);
    }
  }

  // Around 2^24, beyond it, and beyond 2^31, where all products are the largest of u8 and s8. Windows that see padding
  // leave little of them.
  void lengthen_sums(Recipe& recipe) {
    const std::int64_t products =
        random_.pick({random_.integer(400, 700), random_.integer(1000, 4000), random_.integer(66000, 70000)});
    std::int64_t taps = 1;
    for (int i = 0; i < recipe.spatial; ++i) taps *= recipe.filter[i];
    recipe.batch = recipe.groups = 1;
    recipe.c_per_group = (products + taps - 1) / taps;
    recipe.k_per_group = random_.integer(1, 3);
    recipe.output = {1, 1, 1};
    recipe.output[recipe.spatial - 1] = random_.integer(1, 4);
    if (products < 10000 && random_.chance(0.2)) return;
    recipe.pre.fill(0);
    recipe.post.fill(0);
  }

  void draw_filter(Recipe& recipe) {
    const double kind = random_.unit();
    if (kind < 0.25) {
      recipe.filter.fill(1);
    } else if (kind < 0.6) {
      recipe.filter.fill(3);
    } else if (kind < 0.75) {
      recipe.filter.fill(random_.integer(1, 7));
    } else {
      for (auto& size : recipe.filter) size = random_.integer(1, 5);
    }
  }

  void draw_stride(Recipe& recipe) {
    recipe.stride.fill(1);
    if (!options_.strided || random_.chance(0.55)) return;
    const bool same = random_.chance(0.6);
    recipe.stride.fill(random_.integer(1, 3));
    for (int i = 0; i < 3; ++i) {
      if (!same) recipe.stride[i] = random_.integer(1, 4);
      recipe.unused[i] = random_.integer(0, recipe.stride[i] - 1);
    }
  }

  void draw_dilation(Recipe& recipe) {
    recipe.dilation.fill(1);
    if (!options_.dilated || random_.chance(0.75)) return;
    for (auto& dilation : recipe.dilation) dilation = random_.integer(1, 3);
  }

  void draw_padding(Recipe& recipe) {
    const double kind = random_.unit();
    for (int i = 0; i < 3; ++i) {
      const std::int64_t window = recipe.dilation[i] * (recipe.filter[i] - 1) + 1;
      if (kind < 0.25) {
        recipe.pre[i] = recipe.post[i] = 0;
      } else if (kind < 0.65) {  // keeps the size at stride 1
        recipe.pre[i] = (window - 1) / 2;
        recipe.post[i] = window - 1 - recipe.pre[i];
      } else {
        const std::int64_t most = kind < 0.9 ? window - 1 : window + 1;  // some windows see padding only
        recipe.pre[i] = random_.integer(0, most);
        recipe.post[i] = random_.integer(0, most);
      }
    }
  }

  Layout any_layout() {
    return random_.pick({Layout::nchw, Layout::nhwc, Layout::nchw8c, Layout::nchw16c, Layout::strided});
  }

  void draw_layouts(Recipe& recipe) {
    if (options_.layouts.empty()) {
      recipe.x_layout = any_layout();
      recipe.y_layout = random_.chance(0.5) ? recipe.x_layout : any_layout();
    } else {
      const LayoutPair pair = random_.pick(options_.layouts);
      recipe.x_layout = pair.x;
      recipe.y_layout = pair.y;
    }
    recipe.w_layout = Layout::nchw;
    if (options_.any_weight_strides && random_.chance(0.4)) {
      recipe.w_layout = random_.pick({Layout::nhwc, Layout::strided});
    }
    recipe.strides_seed = random_.next();
  }

  void draw_alignment(Recipe& recipe) {
    recipe.alignment.fill(64);
    if (!options_.any_alignment || random_.chance(0.75)) return;
    for (auto& alignment : recipe.alignment) alignment = random_.pick({0, 16, 32, 64});  // 0: an element
  }

  void draw_scaling(Recipe& recipe) {
    recipe.alpha = 1;
    recipe.beta = 0;
    recipe.gate = options_.gate && random_.chance(0.3);
    if (!options_.alpha_beta || random_.chance(0.7)) return;
    recipe.alpha = options_.exact ? random_.pick({1.0, 2.0, -1.0}) : random_.pick({1.0, 0.5, -1.25, 3.0});
    recipe.beta = options_.exact ? random_.pick({0.0, 1.0, -1.0}) : random_.pick({0.0, 1.0, -0.75, 0.5});
  }

  void draw_epilogue(Recipe& recipe) {
    const bool integers = recipe.types.compute == DataType::s32;
    recipe.epilogue = {};
    recipe.zero_points = {};
    recipe.x_zero_given = recipe.w_zero_given = false;
    recipe.epilogue.bias = options_.bias && random_.chance(0.5);
    const TypeCombination& types = recipe.types;
    const DataType out = recipe.pass == Pass::fprop ? types.y : recipe.pass == Pass::dgrad ? types.x : types.w;
    recipe.epilogue.narrow_bias = recipe.epilogue.bias && options_.narrow_bias &&
                                  (out == DataType::f16 || out == DataType::bf16) && random_.chance(0.3);
    recipe.epilogue.float_bias = recipe.epilogue.bias && options_.float_bias && integers && random_.chance(0.4);
    if (options_.residual && random_.chance(0.2)) {
      recipe.epilogue.gamma = options_.exact ? random_.pick({1.0, 2.0}) : random_.pick({1.0, 0.5, -2.0});
    }
    if (random_.chance(0.5)) recipe.epilogue.activation = random_activation(integers);
    if (!integers) return;
    if (options_.requantize && random_.chance(0.7)) {
      recipe.epilogue.requantize = random_.pick({Requantize::per_tensor, Requantize::per_channel});
    }
    if (options_.zero_points && random_.chance(0.5)) {
      recipe.zero_points[0] = random_zero_point(recipe.types.x);
      recipe.zero_points[1] = random_.chance(0.5) ? random_zero_point(recipe.types.w) : 0;
      if (recipe.epilogue.requantize != Requantize::none) recipe.zero_points[2] = random_zero_point(recipe.types.y);
    }
    if (options_.quantized_residual && recipe.epilogue.requantize != Requantize::none &&
        (types.y == DataType::s8 || types.y == DataType::u8) && random_.chance(0.3)) {
      recipe.epilogue.gamma = 0;
      const auto zero_point = [&] { return options_.zero_points ? random_zero_point(types.y) : 0; };
      const auto scales = options_.exact ? std::array{1.0, 0.5, 0.25} : std::array{0.7, 0.5, 1.3};
      const auto scale = [&] { return scales[static_cast<std::size_t>(random_.integer(0, 2))]; };
      recipe.epilogue.residual = {scale(), zero_point(), scale(), zero_point()};
    }
    if (options_.given_zero_points && random_.chance(0.3)) {
      recipe.x_zero_given = random_.chance(0.6);
      recipe.w_zero_given = random_.chance(0.6);
      if (recipe.x_zero_given) recipe.zero_points[0] = 0;
      if (recipe.w_zero_given) recipe.zero_points[1] = 0;
    }
  }

  std::int32_t random_zero_point(DataType type) {
    if (type == DataType::s8) return static_cast<std::int32_t>(random_.integer(-128, 127));
    if (type == DataType::u8) return static_cast<std::int32_t>(random_.integer(0, 255));
    return 0;
  }

  Activation random_activation(bool integers) {
    std::vector<ActivationKind> kinds = options_.activations;
    if (kinds.empty()) {
      for (int kind = 1; kind <= static_cast<int>(ActivationKind::mish); ++kind) {
        kinds.push_back(static_cast<ActivationKind>(kind));
      }
    }
    if (options_.exact) {
      std::erase_if(kinds, [](ActivationKind kind) {
        return kind != ActivationKind::relu && kind != ActivationKind::clip && kind != ActivationKind::leaky_relu &&
               kind != ActivationKind::prelu;
      });
    }
    if (kinds.empty()) return {};
    Activation activation;
    activation.kind = random_.pick(kinds);
    const bool coarse = options_.exact || integers;
    switch (activation.kind) {
      case ActivationKind::clip:
        activation.a = coarse ? random_.pick({0.0, -8.0}) : random_.pick({0.0, -0.75});
        activation.b = coarse ? random_.pick({6.0, 20.0}) : random_.pick({6.0, 1.5});
        break;
      case ActivationKind::leaky_relu:
        activation.a = options_.exact ? random_.pick({0.5, 0.25}) : random_.pick({0.01, 0.3});
        break;
      case ActivationKind::elu:
        activation.a = random_.pick({1.0, 0.5});
        break;
      case ActivationKind::swish:
        activation.a = random_.pick({1.0, 1.5});
        break;
      case ActivationKind::hard_sigmoid:
        activation.a = random_.pick({0.2, 1.0 / 6});
        activation.b = 0.5;
        break;
      default:
        break;
    }
    return activation;
  }

  // Halves the largest size until the problem is small enough.
  void shrink(Recipe& recipe) {
    for (;;) {
      double products = static_cast<double>(recipe.batch * recipe.groups * recipe.k_per_group * recipe.c_per_group);
      for (int i = 0; i < recipe.spatial; ++i)
        products *= static_cast<double>(recipe.filter[i] * output_size(recipe, i));
      if (products <= static_cast<double>(options_.max_products)) return;
      std::vector<std::int64_t*> sizes = {&recipe.batch, &recipe.groups, &recipe.c_per_group, &recipe.k_per_group};
      for (int i = 0; i < recipe.spatial; ++i) sizes.push_back(&recipe.output[i]);
      std::int64_t* largest = *std::max_element(sizes.begin(), sizes.end(), [](auto* a, auto* b) { return *a < *b; });
      if (*largest == 1) return;
      // Multiples of a vector stay multiples as long as they can.
      *largest = *largest % 32 == 0 || *largest % 2 == 0 ? *largest / 2 : (*largest + 1) / 2;
    }
  }

  TensorDesc describe(DataType type, const Dims& dims, Layout layout, std::int64_t alignment, Random& strides) {
    TensorDesc desc;
    if (layout != Layout::strided) {
      desc = TensorDesc::packed(type, dims, layout);
    } else {
      // Any order of the dims, with gaps between elements and between rows.
      desc = TensorDesc::packed(type, dims, Layout::nchw);
      std::vector<int> order(dims.size());
      std::iota(order.begin(), order.end(), 0);
      for (std::size_t i = order.size(); i > 1; --i) {
        std::swap(order[i - 1], order[strides.integer(0, static_cast<std::int64_t>(i) - 1)]);
      }
      std::int64_t step = strides.pick({1, 1, 2, 3});
      for (const int dim : order) {
        desc.strides[dim] = step;
        step = step * dims[dim] + strides.integer(0, 3);
      }
    }
    desc.alignment = std::max<std::int64_t>(alignment, static_cast<std::int64_t>(size_of(type)));
    return desc;
  }

  Random& random_;
  const ProblemOptions& options_;
};

}  // namespace

ProblemOptions options_for(const EngineInfo& info) {
  ProblemOptions options;
  options.passes = info.passes;
  if (!info.types.empty()) options.types = info.types;
  options.layouts = info.layouts;
  options.any_weight_strides = info.any_weight_strides;
  options.min_spatial_dims = info.min_spatial_dims;
  options.max_spatial_dims = info.max_spatial_dims;
  options.groups = info.groups;
  options.strided = info.strided;
  options.dilated = info.dilated;
  options.flipped = info.flipped;
  options.alpha_beta = info.alpha_beta;
  options.bias = info.bias;
  options.narrow_bias = info.narrow_bias;
  options.float_bias = info.float_bias;
  options.residual = info.residual;
  options.activations = info.activations;
  options.requantize = info.requantize;
  options.quantized_residual = info.quantized_residual;
  options.zero_points = info.zero_points;
  options.given_zero_points = info.given_zero_points;
  options.gate = info.gate;
  return options;
}

ConvProblem random_problem(Random& random, const ProblemOptions& options) {
  Drawer drawer(random, options);
  return drawer.build(drawer.draw());
}

std::optional<ConvProblem> random_problem_for(Random& random, const Engine& engine, const PlanRequest& request,
                                              const ProblemOptions& options, Acceptance& acceptance, int attempts) {
  constexpr int repairs = 24;
  Drawer drawer(random, options);
  for (int attempt = 0; attempt < attempts;) {
    Recipe recipe = drawer.draw();
    for (int repair = 0; repair < repairs && attempt < attempts; ++repair) {
      ++attempt;
      ConvProblem problem = drawer.build(recipe);
      if (takes_empty(engine) && !engine.info().oracle) problem.x.dims[0] = problem.y.dims[0] = 0;
      ++acceptance.tried;
      const std::optional<Refusal> refusal = refuse(engine, problem, request);
      if (!refusal) {
        ++acceptance.accepted;
        return problem;
      }
      ++acceptance.refusals[std::string(name_of(refusal->code))];
      if (!drawer.repair(recipe, refusal->code)) break;
    }
  }
  return std::nullopt;
}

}  // namespace convoy::testing
