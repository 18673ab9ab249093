#include "core/testing/random_problem.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/checked.h"

namespace convoy::testing {
namespace {

// Mostly small, sometimes with any number of bits up to `bits`.
std::int64_t size_up_to(Random& random, int bits) {
  if (chance(random, 0.8)) return uniform(random, 1, 20);
  return uniform(random, 1, std::int64_t{1} << uniform(random, 1, bits));
}

double any_finite(Random& random) {
  if (chance(random, 0.5)) return static_cast<double>(uniform(random, -80, 80)) / 8;
  while (true) {
    const double value = std::bit_cast<double>(random());
    if (std::isfinite(value)) return value;
  }
}

// Strides of any order of the dims with any gaps; unit dims get any stride. Elements never overlap.
void make_strided(Random& random, TensorDesc& desc) {
  constexpr std::array<std::int64_t, 3> kBlocks = {1, 8, 16};
  desc.channel_block = kBlocks[uniform(random, 0, 2)];
  Dims order(desc.rank());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  std::int64_t stride = desc.channel_block;
  for (std::int64_t i : order) {
    const std::int64_t steps = i == 1 ? div_up(desc.dims[i], desc.channel_block) : desc.dims[i];
    if (steps == 1) {
      desc.strides[i] = uniform(random, 0, 1000);
      continue;
    }
    if (chance(random, 0.3)) stride = saturating_add(stride, uniform(random, 1, 5));
    desc.strides[i] = stride;
    stride = saturating_mul(stride, steps);
  }
}

void place(Random& random, TensorDesc& desc, bool is_out) {
  constexpr std::array<Layout, 4> kLayouts = {Layout::nchw, Layout::nhwc, Layout::nchw8c, Layout::nchw16c};
  desc = desc.with_layout(kLayouts[uniform(random, 0, 3)]);
  if (chance(random, 0.3)) make_strided(random, desc);
  if (!is_out && chance(random, 0.05)) desc.strides[uniform(random, 0, desc.rank() - 1)] = uniform(random, 1, 50);
  if (chance(random, 0.3)) desc.alignment = std::int64_t{1} << uniform(random, 0, 62);
}

void choose_types(Random& random, ConvProblem& p) {
  constexpr std::array<DataType, 5> kFloats = {DataType::f32, DataType::f16, DataType::bf16, DataType::f8_e4m3,
                                               DataType::f8_e5m2};
  constexpr std::array<DataType, 4> kSums = {DataType::s8, DataType::u8, DataType::s32, DataType::f32};
  const auto any_float = [&] { return chance(random, 0.5) ? DataType::f32 : kFloats[uniform(random, 0, 4)]; };
  if (p.pass == Pass::fprop && chance(random, 0.25)) {
    p.x.type = kSums[uniform(random, 0, 1)];
    p.w.type = kSums[uniform(random, 0, 1)];
    p.y.type = kSums[uniform(random, 0, 3)];
    p.compute = DataType::s32;
    p.epilogue.requantize = static_cast<Requantize>(uniform(random, 0, 2));
    const auto zero_point = [&](DataType type) {
      if (chance(random, 0.5) || (type != DataType::s8 && type != DataType::u8)) return std::int32_t{0};
      const std::int64_t shift = type == DataType::s8 ? 128 : 0;
      return static_cast<std::int32_t>(uniform(random, 0, 255) - shift);
    };
    p.x_zero_point = zero_point(p.x.type);
    p.w_zero_point = zero_point(p.w.type);
    if (p.epilogue.requantize != Requantize::none) p.y_zero_point = zero_point(p.y.type);
    const bool bytes = p.y.type == DataType::s8 || p.y.type == DataType::u8;
    if (bytes && p.epilogue.requantize != Requantize::none && chance(random, 0.3)) {
      const auto scale = [&] { return static_cast<double>(uniform(random, 1, 1 << 20)) / 65536; };
      p.epilogue.residual = {scale(), zero_point(p.y.type), scale(), zero_point(p.y.type)};
    }
    if (chance(random, 0.2)) p.x_zero_given = true, p.x_zero_point = 0;
    if (chance(random, 0.2)) p.w_zero_given = true, p.w_zero_point = 0;
  } else if (chance(random, 0.1)) {
    p.x.type = p.w.type = p.y.type = p.compute = DataType::f64;
  } else {
    p.x.type = any_float();
    p.w.type = any_float();
    p.y.type = any_float();
    p.compute = DataType::f32;
  }
}

void choose_epilogue(Random& random, ConvProblem& p) {
  p.mode = static_cast<ConvMode>(chance(random, 0.2));
  p.math = static_cast<MathMode>(chance(random, 0.7) ? 0 : uniform(random, 1, 2));
  if (chance(random, 0.2)) p.alpha = any_finite(random);
  if (chance(random, 0.2)) p.beta = any_finite(random);
  p.gate = p.pass == Pass::fprop && p.compute != DataType::s32 && chance(random, 0.1);
  if (!p.epilogue.residual && chance(random, 0.2)) p.epilogue.gamma = any_finite(random);
  p.epilogue.zero_z = !p.epilogue.adds_z() && chance(random, 0.1);
  p.epilogue.bias = chance(random, 0.4);
  const DataType out = p.out().type;
  p.epilogue.narrow_bias = p.epilogue.bias && (out == DataType::f16 || out == DataType::bf16) && chance(random, 0.3);
  p.epilogue.float_bias = p.epilogue.bias && p.compute == DataType::s32 && chance(random, 0.3);
  Activation& act = p.epilogue.activation;
  if (chance(random, 0.5)) return;
  act.kind = static_cast<ActivationKind>(uniform(random, 0, static_cast<int>(ActivationKind::mish)));
  if (has_parameter_a(act.kind)) act.a = any_finite(random);
  if (has_parameter_b(act.kind)) act.b = any_finite(random);
  if (act.kind == ActivationKind::clip) {
    if (act.a > act.b) std::swap(act.a, act.b);
    if (chance(random, 0.1)) act.a = -std::numeric_limits<double>::infinity();
    if (chance(random, 0.1)) act.b = std::numeric_limits<double>::infinity();
  }
}

ConvProblem attempt(Random& random) {
  ConvProblem p;
  p.pass = static_cast<Pass>(uniform(random, 0, 2));
  choose_types(random, p);
  choose_epilogue(random, p);
  const int spatial = static_cast<int>(uniform(random, 1, 3));
  const int bits = chance(random, 0.9) ? 8 : 24;
  p.groups = chance(random, 0.6) ? 1 : size_up_to(random, bits);
  const std::int64_t c_g = chance(random, 0.3) ? 1 : size_up_to(random, bits);
  const std::int64_t k_g = chance(random, 0.3) ? 1 : size_up_to(random, bits);
  p.x.dims = {size_up_to(random, bits), p.groups * c_g};
  p.w.dims = {p.groups * k_g, c_g};
  p.y.dims = {p.x.dims[0], p.w.dims[0]};
  for (int i = 0; i < spatial; ++i) {
    const std::int64_t filter = chance(random, 0.9) ? uniform(random, 1, 7) : size_up_to(random, bits);
    const std::int64_t dilation = chance(random, 0.8) ? 1 : size_up_to(random, bits);
    const std::int64_t reach = dilation * (filter - 1) + 1;
    const std::int64_t pre = chance(random, 0.4) ? 0 : uniform(random, 0, reach);
    const std::int64_t post = chance(random, 0.5) ? pre : uniform(random, 0, reach);
    const std::int64_t stride = chance(random, 0.6) ? 1 : size_up_to(random, bits);
    const std::int64_t least = std::max<std::int64_t>(1, reach - pre - post);
    const std::int64_t size = least + size_up_to(random, bits) - 1;
    p.x.dims.push_back(size);
    p.w.dims.push_back(filter);
    p.y.dims.push_back((size + pre + post - reach) / stride + 1);
    p.pre_padding.push_back(pre);
    p.post_padding.push_back(post);
    p.stride.push_back(stride);
    p.dilation.push_back(dilation);
  }
  place(random, p.x, p.pass == Pass::dgrad);
  place(random, p.w, p.pass == Pass::wgrad);
  place(random, p.y, p.pass == Pass::fprop);
  return p;
}

}  // namespace

std::int64_t uniform(Random& random, std::int64_t least, std::int64_t most) {
  // The remainder's bias is irrelevant here; std::uniform_int_distribution differs between standard libraries.
  return least + static_cast<std::int64_t>(random() % (static_cast<std::uint64_t>(most - least) + 1));
}

bool chance(Random& random, double probability) { return static_cast<double>(random() >> 11) * 0x1p-53 < probability; }

ConvProblem random_problem(Random& random) {
  while (true) {
    ConvProblem p = attempt(random);
    // Products of the rare large sizes may pass 64 bits.
    if (validate(p).ok()) return p;
  }
}

std::string mutated(Random& random, std::string text) {
  constexpr std::string_view kCharacters = ":,=x/.-+0123456789einfabp {}\n\t\\\"'\x7f";
  const auto at = [&] { return static_cast<std::size_t>(uniform(random, 0, static_cast<std::int64_t>(text.size()))); };
  for (std::int64_t edits = uniform(random, 1, 4); edits > 0; --edits) {
    const std::size_t begin = at(), length = static_cast<std::size_t>(uniform(random, 0, 12));
    switch (uniform(random, 0, 6)) {
      case 0:
        text.insert(begin, 1, kCharacters[uniform(random, 0, kCharacters.size() - 1)]);
        break;
      case 1:
        text.insert(begin, 1, static_cast<char>(uniform(random, 0, 255)));
        break;
      case 2:
        text.erase(begin, length);
        break;
      case 3:
        text.insert(at(), text.substr(begin, length));
        break;
      case 4:
        text.insert(begin, std::string(uniform(random, 1, 25), '9'));
        break;
      case 5:
        if (begin < text.size()) text[begin] = kCharacters[uniform(random, 0, kCharacters.size() - 1)];
        break;
      default:
        text.resize(begin);
    }
  }
  return text;
}

}  // namespace convoy::testing
