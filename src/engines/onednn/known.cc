#include "engines/onednn/known.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/integer_sums.h"
#include "engines/onednn/request.h"

namespace convoy::onednn {
namespace {

// Whether a post-operation reads something for each channel or element. A residual with another factor than 1 is what
// out holds before.
bool has_operands(const ConvProblem& p) {
  const Epilogue& epilogue = p.epilogue;
  return epilogue.requantize != Requantize::none || epilogue.activation.kind == ActivationKind::prelu ||
         epilogue.gamma == 1 || (p.alpha != 1 && epilogue.bias);
}

// Whether in some direction but along rows no output reaches any of x.
bool sees_padding_only(const ConvProblem& p) {
  for (int i = 0; i + 1 < p.spatial_dims(); ++i) {
    bool meets = false;
    for (std::int64_t tap = 0; tap < p.w.dims[2 + i] && !meets; ++tap) {
      // The outputs for which this tap is at 0 to the size of x.
      const std::int64_t begin = p.pre_padding[i] - tap * p.dilation[i], end = begin + p.x.dims[2 + i];
      const std::int64_t first = begin > 0 ? (begin + p.stride[i] - 1) / p.stride[i] : 0;
      meets = first < p.y.dims[2 + i] && first * p.stride[i] < end;
    }
    if (!meets) return true;
  }
  return false;
}

// Whether x is no larger than the window in some direction.
bool is_within_window(const ConvProblem& p) {
  for (int i = 0; i < p.spatial_dims(); ++i) {
    if (p.w.dims[2 + i] > 1 && p.x.dims[2 + i] <= p.w.dims[2 + i]) return true;
  }
  return false;
}

// Whether a filter of one position has padding to read.
bool one_tap_reads_padding(const ConvProblem& p) {
  bool padded = false;
  for (int i = 0; i < p.spatial_dims(); ++i) {
    if (p.w.dims[2 + i] != 1) return false;
    padded = padded || p.pre_padding[i] != 0 || p.post_padding[i] != 0;
  }
  return padded;
}

// Rows of AMX tiles that an image's pixels are split into: as many as divide them, 16 at most.
std::int64_t tiles_of_image(const ConvProblem& p) {
  std::int64_t pixels = 1;
  for (int i = 0; i < p.spatial_dims(); ++i) pixels *= p.y.dims[2 + i];
  std::int64_t rows = 16;
  while (rows > 1 && pixels % rows != 0) --rows;
  return pixels / rows;
}

// Whether products of bytes are summed in pairs in 16 bits. Rows without a level take what the processor has, whatever
// the cap.
bool saturates(const Implementation& implementation) {
  const std::string_view level = implementation.level;
  if (implementation.family == "ref" || level.find("vnni") != std::string_view::npos || level == "amx") return false;
  return !level.empty() || (!processor_has("avx512_vnni") && !processor_has("avx2_vnni"));
}

// Whether the window moves by more than 1 in some direction.
bool is_strided(const ConvProblem& p) {
  return std::any_of(p.stride.begin(), p.stride.end(), [](std::int64_t stride) { return stride > 1; });
}

constexpr std::int64_t kVector = 16;

std::optional<Refusal> wrong_gradients(const Implementation& implementation, const ConvProblem& p) {
  const bool jit =
      implementation.family == "jit_bf16" || (implementation.family == "jit" && implementation.level == "amx");
  const bool bf16_gradients = jit || implementation.family == "brgconv_bwd_w";
  if (bf16_gradients && p.pass == Pass::wgrad && p.x.dims.back() < p.stride.back()) {
    return Refusal{RefusalCode::stride,
                   fmt::format("stride={}: oneDNN's wgrad in bf16 reads unset memory where rows of x "
                               "are shorter, here {}: wrong results",
                               to_string(p.stride), p.x.dims.back())};
  }
  if (jit && p.pass == Pass::wgrad && is_within_window(p)) {
    return Refusal{RefusalCode::size,
                   fmt::format("x={}: oneDNN's wgrad in bf16 reads unset memory where x is no larger than the "
                               "window: wrong results",
                               to_string(p.x.dims))};
  }
  if (implementation.family == "jit_bf16_1x1" && p.pass == Pass::dgrad && p.w.dims[0] / p.groups % 2 != 0) {
    return Refusal{
        RefusalCode::channels,
        fmt::format("K/groups={}: oneDNN's dgrad in bf16 for filters of 1 takes filters in pairs, the last of "
                    "an odd number with what follows: wrong results",
                    p.w.dims[0] / p.groups)};
  }
  const bool dilated = std::any_of(p.dilation.begin(), p.dilation.end(), [](std::int64_t step) { return step > 1; });
  if (jit && p.pass == Pass::wgrad && dilated && p.w.dims[1] % kVector != 0) {
    return Refusal{
        RefusalCode::dilation,
        fmt::format("dilation={}: oneDNN's dilated wgrad in bf16 reads unset memory where channels don't fill "
                    "vectors of {}, here {}: wrong results",
                    to_string(p.dilation), kVector, p.w.dims[1])};
  }
  if (implementation.family.ends_with("1x1") && p.pass == Pass::wgrad && is_strided(p) && p.w.dims[1] < kVector) {
    return Refusal{RefusalCode::channels,
                   fmt::format("C/groups={}: oneDNN's strided wgrad for filters of 1 writes beyond its scratchpad "
                               "where channels don't fill a vector of {}: memory is overwritten",
                               p.w.dims[1], kVector)};
  }
  return std::nullopt;
}

std::optional<Refusal> wrong_on_amx(const Implementation& implementation, const ConvProblem& p) {
  if (implementation.level != "amx") return std::nullopt;
  if (implementation.family == "jit_1x1" && tiles_of_image(p) == 3) {
    return Refusal{RefusalCode::size,
                   fmt::format("y={}: oneDNN's AMX code for filters of 1 writes a fourth tile where an image's pixels "
                               "make three: memory is overwritten",
                               to_string(p.y.dims))};
  }
  if (implementation.family == "brgconv" && sees_padding_only(p)) {
    return Refusal{RefusalCode::padding,
                   fmt::format("pad={}/{}: no output meets x, where oneDNN's AMX code would crash the process",
                               to_string(p.pre_padding), to_string(p.post_padding))};
  }
  const std::int64_t pixel_bytes = p.w.dims[1] * static_cast<std::int64_t>(size_of(p.x.type));
  if (implementation.family == "brgconv_1x1" && p.spatial_dims() == 3 && p.y.dims[2] > 1 &&
      (is_strided(p) || pixel_bytes % 4 != 0)) {
    return Refusal{
        RefusalCode::spatial_dims,
        fmt::format("y={}: oneDNN's AMX code for filters of 1 loses its place between planes where it copies x, "
                    "here stride={} and {} bytes a pixel: wrong results",
                    to_string(p.y.dims), to_string(p.stride), pixel_bytes)};
  }
  if (implementation.family == "brgconv" && p.groups == 1 && p.w.dims.back() % 2 == 0 && p.stride.back() % 2 == 0 &&
      p.dilation.back() == 1 && pixel_bytes > 64 && pixel_bytes % 64 == 32) {
    return Refusal{
        RefusalCode::channels,
        fmt::format("C/groups={}: oneDNN's AMX code mixes up pixels that don't fill 64 bytes, here {} and 32, "
                    "where stride and window are even, here {} and {}: wrong results",
                    p.w.dims[1], pixel_bytes / 64 * 64, p.stride.back(), p.w.dims.back())};
  }
  if (implementation.family == "brgconv" && p.stride.back() >= 4 && p.w.dims.back() == p.stride.back() &&
      pixel_bytes % 64 != 0) {
    return Refusal{
        RefusalCode::channels,
        fmt::format("C/groups={}: oneDNN's AMX code mixes up pixels that don't fill 64 bytes, where the window "
                    "is as wide as the stride, here {}: wrong results",
                    p.w.dims[1], p.stride.back())};
  }
  return std::nullopt;
}

std::optional<Refusal> wrong_of_bytes(const Implementation& implementation, const ConvProblem& p) {
  if (implementation.family == "jit_uni_int8" && implementation.level == "avx2_vnni" && is_depthwise(p) &&
      p.groups % 8 > 1 && has_operands(p)) {
    return Refusal{RefusalCode::groups,
                   fmt::format("groups={}: oneDNN's 8-bit depthwise code for AVX2 reads one of the last channels' "
                               "scales, slopes or residuals, where they don't fill a vector of 8: wrong results",
                               p.groups)};
  }
  const bool compensated = p.x_zero_point != 0 || p.x.type == DataType::s8;
  if (implementation.family == "jit_uni_int8" && implementation.level == "avx2_vnni" && is_depthwise(p) &&
      compensated && p.w.elements() / p.w.dims[0] == 8) {
    return Refusal{
        RefusalCode::filter,
        fmt::format("w: oneDNN's 8-bit depthwise code for AVX2 loses what x={} with zp={} adds to sums, where "
                    "a filter has 8 taps: wrong results",
                    convoy::name_of(p.x.type), p.x_zero_point)};
  }
  if (implementation.family == "brdgmm_dw" && p.compute == DataType::s32 && compensated && one_tap_reads_padding(p) &&
      !is_linked_library()) {
    return Refusal{
        RefusalCode::padding,
        fmt::format("pad={}/{}: oneDNN 3.14's depthwise code for bytes reads unset memory where a filter of "
                    "1 reads padding and x={} with zp={}: wrong results",
                    to_string(p.pre_padding), to_string(p.post_padding), convoy::name_of(p.x.type), p.x_zero_point)};
  }
  if (implementation.family.starts_with("gemm_s8") && compensated && p.w.dims[0] / p.groups % kVector != 0) {
    return Refusal{
        RefusalCode::channels,
        fmt::format("K/groups={}: oneDNN's 8-bit GEMM takes wrong sums of the weights, which it needs for x={} and "
                    "zp={}, where filters don't fill vectors of {}: wrong results",
                    p.w.dims[0] / p.groups, convoy::name_of(p.x.type), p.x_zero_point, kVector)};
  }
  if (p.compute != DataType::s32) return std::nullopt;
  if (saturates(implementation)) {
    return Refusal{RefusalCode::instruction_set,
                   fmt::format("types x={} w={}: oneDNN computes them without VNNI here, in sums "
                               "of 16 bits that saturate: wrong results",
                               convoy::name_of(p.x.type), convoy::name_of(p.w.type))};
  }
  if (auto refusal = refuse_sums_in_f32(p, "oneDNN")) return refusal;
  const bool shifts = implementation.family == "jit_int8_1x1" || implementation.family == "jit_uni_int8_1x1";
  if (!shifts || p.x.type != DataType::s8) return std::nullopt;
  // They add 128 to x, and take the weights' sums times 128 away when the sum is f32.
  ConvProblem shifted = p;
  shifted.x.type = DataType::u8;
  shifted.x_zero_point = 0;
  shifted.x_zero_given = false;
  return refuse_sums_in_f32(shifted, "oneDNN adds 128 to x of s8 here, and");
}

}  // namespace

std::optional<Refusal> known_wrong(const Implementation& implementation, const ConvProblem& p) {
  if (implementation.family == "ip" && p.epilogue.activation.kind == ActivationKind::prelu) {
    return Refusal{RefusalCode::epilogue, "act=prelu: oneDNN's inner product leaves it out: wrong results"};
  }
  if (implementation.level == "sse41" && implementation.family != "jit" && p.compute == DataType::f32 &&
      p.pass == Pass::fprop && p.beta != 0) {
    constexpr std::int64_t operand = 16;
    const bool rows = implementation.shape == Shape::depthwise && p.groups % 4 != 0;
    if (rows || p.y.alignment < operand) {
      return Refusal{
          RefusalCode::alignment,
          fmt::format("beta={}: oneDNN's SSE4.1 code adds what out holds from memory, which must be aligned to "
                      "16 bytes, here {}: the process would crash",
                      p.beta,
                      rows ? fmt::format("rows of {} channels", p.groups) : fmt::format("align={}", p.y.alignment))};
    }
  }
  for (const auto wrong : {wrong_gradients, wrong_on_amx, wrong_of_bytes}) {
    if (auto refusal = wrong(implementation, p)) return refusal;
  }
  return std::nullopt;
}

}  // namespace convoy::onednn
