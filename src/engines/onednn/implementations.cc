#include "engines/onednn/implementations.h"

#include <algorithm>

namespace convoy::onednn {
namespace {

// In oneDNN's order of preference. The rates are what one Sapphire Rapids core reached (2.3 GHz, AVX-512 with VNNI, no
// AMX), rounded; where it has no such instructions they are guesses from the ceilings of a core that has them.
constexpr Implementation kImplementations[] = {
    // family, level, passes, types, shape, f32, half, int8
    {"brdgmm_dw", "avx512", kFprop, kFloat, Shape::depthwise, 20, 20, 20},
    {"brdgmm_dw", "avx512_vnni", kFprop, kInt8, Shape::depthwise, 20, 20, 20},
    {"brdgmm_dw", "avx2_vnni_2", kFprop, kHalf, Shape::depthwise, 1, 15, 1},
    {"brdgmm_dw", "avx2", kFprop, kF32, Shape::depthwise, 15, 1, 1},
    {"ip", "", kEveryPass, kEveryType, Shape::whole_window, 20, 20, 20},
    {"brgconv_1x1", "amx", kFprop, kEveryType, Shape::pointwise, 120, 900, 1500},
    {"brgconv", "amx", kFprop, kEveryType, Shape::any, 120, 900, 1500},
    {"jit_1x1", "amx", kFprop, kBf16 | kInt8, Shape::pointwise, 1, 900, 1500},
    {"jit", "amx", kEveryPass, kBf16 | kInt8, Shape::any, 1, 900, 1500},
    {"brgconv_1x1", "avx512_vnni", kFprop, kInt8, Shape::pointwise, 1, 1, 400},
    {"brgconv", "avx512_vnni", kFprop, kInt8, Shape::any, 1, 1, 400},
    {"brgconv_1x1", "avx512", kFprop, kEveryType, Shape::pointwise, 120, 60, 150},
    {"brgconv", "avx512", kFprop, kEveryType, Shape::any, 120, 60, 150},
    {"brg_fwd", "amx", kDgrad, kFloat, Shape::any, 120, 900, 1},
    {"brgconv_strided", "amx", kDgrad, kFloat, Shape::any, 120, 900, 1},
    {"brg_fwd", "avx512", kDgrad, kFloat, Shape::any, 120, 60, 1},
    {"brgconv_strided", "avx512", kDgrad, kFloat, Shape::any, 120, 60, 1},
    {"brgconv_bwd_w", "amx", kWgrad, kHalf, Shape::any, 1, 900, 1},
    {"jit_dw", "avx512", kEveryPass, kF32 | kBf16, Shape::depthwise, 20, 20, 20},
    {"jit_1x1", "avx512", kEveryPass, kF32, Shape::pointwise, 120, 1, 1},
    {"jit", "avx512", kEveryPass, kF32, Shape::any, 120, 1, 1},
    {"jit_bf16_1x1", "avx512", kEveryPass, kBf16, Shape::pointwise, 1, 60, 1},
    {"jit_bf16", "avx512", kEveryPass, kBf16, Shape::any, 1, 60, 1},
    {"jit_int8_1x1", "avx512_vnni", kFprop, kInt8, Shape::pointwise, 1, 1, 400},
    {"jit_int8", "avx512_vnni", kFprop, kInt8, Shape::any, 1, 1, 400},
    {"jit_int8_1x1", "avx512", kFprop, kInt8, Shape::pointwise, 1, 1, 150},
    {"jit_int8", "avx512", kFprop, kInt8, Shape::any, 1, 1, 150},
    {"brgconv_1x1", "avx2_vnni_2", kFprop, kHalf | kInt8, Shape::pointwise, 1, 50, 200},
    {"brgconv", "avx2_vnni_2", kFprop, kHalf | kInt8, Shape::any, 1, 50, 200},
    {"brgconv_1x1", "avx2_vnni", kFprop, kInt8, Shape::pointwise, 1, 1, 200},
    {"brgconv", "avx2_vnni", kFprop, kInt8, Shape::any, 1, 1, 200},
    {"brgconv_1x1", "avx2", kFprop, kF32, Shape::pointwise, 60, 1, 1},
    {"brgconv", "avx2", kFprop, kF32, Shape::any, 60, 1, 1},
    {"brg_fwd", "avx2_vnni_2", kDgrad, kHalf, Shape::any, 1, 50, 1},
    {"brgconv_strided", "avx2_vnni_2", kDgrad, kHalf, Shape::any, 1, 50, 1},
    {"brg_fwd", "avx2", kDgrad, kF32, Shape::any, 60, 1, 1},
    {"brgconv_strided", "avx2", kDgrad, kF32, Shape::any, 60, 1, 1},
    {"jit_dw", "avx2", kEveryPass, kF32, Shape::depthwise, 15, 1, 1},
    {"jit_1x1", "avx2", kEveryPass, kF32, Shape::pointwise, 60, 1, 1},
    {"jit", "avx2", kEveryPass, kF32, Shape::any, 60, 1, 1},
    {"jit_uni_int8_1x1", "avx2_vnni", kFprop, kInt8, Shape::pointwise, 1, 1, 200},
    {"jit_uni_int8", "avx2_vnni", kFprop, kInt8, Shape::any, 1, 1, 200},
    {"jit_uni_int8_1x1", "avx2", kFprop, kInt8, Shape::pointwise, 1, 1, 80},
    {"jit_uni_int8", "avx2", kFprop, kInt8, Shape::any, 1, 1, 80},
    {"jit_dw", "sse41", kEveryPass, kF32, Shape::depthwise, 8, 1, 1},
    {"jit_1x1", "sse41", kFprop, kF32, Shape::pointwise, 20, 1, 1},
    {"jit", "sse41", kFprop, kF32, Shape::any, 20, 1, 1},
    {"jit_uni_int8_1x1", "sse41", kFprop, kInt8, Shape::pointwise, 1, 1, 30},
    {"jit_uni_int8", "sse41", kFprop, kInt8, Shape::any, 1, 1, 30},
    {"gemm", "", kEveryPass, kF32 | kBf16, Shape::any, 80, 40, 1},
    {"gemm_s8u8s32", "", kFprop, kInt8, Shape::any, 1, 1, 150},
    {"gemm_s8s8s32", "", kFprop, kInt8, Shape::any, 1, 1, 150},
    {"ref", "", kEveryPass, kEveryType, Shape::any, 0.05F, 0.05F, 0.05F},
};

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> starts) {
  return std::any_of(starts.begin(), starts.end(), [&](std::string_view start) { return text.starts_with(start); });
}

std::string join_name(std::string_view family, std::string_view level) {
  std::string name = "onednn.";
  name += family;
  if (!level.empty()) name.append("_").append(level);
  return name;
}

// Later versions call some families otherwise.
std::string_view name_in_3_2(std::string_view family) {
  if (family == "brg_conv_fwd") return "brgconv";
  if (family == "brg_conv_bwd") return "brg_fwd";
  return family;
}

struct Described {
  std::string_view family, level;
};

Described take_apart(std::string_view description) {
  description = description.substr(0, description.find('+'));
  if (description.starts_with("x64:")) description.remove_prefix(4);
  const std::size_t colon = description.find(':');
  const std::string_view family = name_in_3_2(description.substr(0, colon));
  std::string_view level = colon == std::string_view::npos ? std::string_view{} : description.substr(colon + 1);
  if (starts_with_any(level, {"any", "jit"})) level = {};
  if (starts_with_any(level, {"avx512_core_amx", "avx10_1_512_amx"})) return {family, "amx"};
  if (level == "avx512_core_vnni") return {family, "avx512_vnni"};
  if (starts_with_any(level, {"avx512_core", "avx10_1_512"})) return {family, "avx512"};
  return {family, level};
}

}  // namespace

std::string Implementation::name() const { return join_name(family, level); }

Isa Implementation::min_isa() const {
  if (starts_with_any(level, {"avx512", "amx"})) return Isa::avx512;
  return level.starts_with("avx2") ? Isa::avx2 : Isa::portable;
}

bool CpuFeatures::*Implementation::needs() const {
  if (level == "amx") return &CpuFeatures::amx_tile;
  return level == "avx512_vnni" ? &CpuFeatures::avx512_vnni : nullptr;
}

std::span<const Implementation> implementations() { return kImplementations; }

std::string name_of_implementation(std::string_view description) {
  const Described described = take_apart(description);
  return join_name(described.family, described.level);
}

std::size_t row_of_implementation(std::string_view description) {
  const Described described = take_apart(description);
  const auto found = std::find_if(
      std::begin(kImplementations), std::end(kImplementations),
      [&](const Implementation& row) { return row.family == described.family && row.level == described.level; });
  return static_cast<std::size_t>(found - std::begin(kImplementations));
}

}  // namespace convoy::onednn
