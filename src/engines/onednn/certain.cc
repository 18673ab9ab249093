#include "engines/onednn/certain.h"

#include <algorithm>

#include "engines/onednn/implementations.h"

namespace convoy::onednn {
namespace {

// Channels innermost in 1D and 2D, one group, more than one pixel (of one pixel the layout says nothing, and oneDNN
// takes it for another).
bool is_common(const ConvProblem& p) {
  if (p.pass != Pass::fprop || p.groups != 1 || p.spatial_dims() > 2) return false;
  const auto pixels = [](const TensorDesc& desc) {
    return desc.dims[2] * (desc.spatial_dims() > 1 ? desc.dims[3] : 1);
  };
  if (pixels(p.x) < 2 || pixels(p.y) < 2) return false;
  return p.x.is_packed(Layout::nhwc) && p.y.is_packed(Layout::nhwc);
}

bool fills_vectors(const ConvProblem& p) { return p.in_channels() >= 16 && p.out_channels() >= 16; }

bool is_unit(const ConvProblem& p) {
  return std::all_of(p.w.dims.begin() + 2, p.w.dims.end(), [](std::int64_t size) { return size == 1; });
}

bool is_padded(const ConvProblem& p) {
  const auto positive = [](std::int64_t padding) { return padding > 0; };
  return std::any_of(p.pre_padding.begin(), p.pre_padding.end(), positive) ||
         std::any_of(p.post_padding.begin(), p.post_padding.end(), positive);
}

bool is_strided(const ConvProblem& p) {
  return std::any_of(p.stride.begin(), p.stride.end(), [](std::int64_t stride) { return stride > 1; });
}

// Batch-reduce GEMM leaves filters of 1 without padding to its kind for them.
std::optional<bool> brgconv(bool pointwise, const ConvProblem& p) {
  if (!fills_vectors(p)) return std::nullopt;
  if (!is_unit(p)) return !pointwise;
  if (is_padded(p)) return std::nullopt;
  return pointwise;
}

// The kernels that are generated for f32, which take fewer epilogues.
std::optional<bool> f32_kernel(std::string_view family, const ConvProblem& p) {
  if (p.alpha != 1 || p.beta != 0 || (p.epilogue.gamma != 0 && p.epilogue.gamma != 1)) return std::nullopt;
  if (p.out_channels() < 16 || !is_ordinary(p)) return std::nullopt;
  if (family == "jit_1x1" && is_strided(p)) return std::nullopt;
  return true;
}

}  // namespace

bool is_known_processor() {
  static const bool known = [] {
    const CpuFeatures& cpu = cpu_features();
    return !cpu.avx512_bf16 && !cpu.avx512_fp16 && !cpu.amx_tile;
  }();
  return known;
}

bool is_ordinary(const ConvProblem& p) {
  for (int i = 0; i < p.spatial_dims(); ++i) {
    const std::int64_t window = (p.w.dims[2 + i] - 1) * p.dilation[i] + 1;
    if (window > std::min(p.x.dims[2 + i], p.y.dims[2 + i]) || p.stride[i] > window) return false;
    if (std::max(p.pre_padding[i], p.post_padding[i]) > (window - 1) / 2) return false;
  }
  return true;
}

std::optional<bool> certainly_offered(std::size_t row, const ConvProblem& problem) {
  const Implementation& implementation = implementations()[row];
  const std::string_view family = implementation.family, level = implementation.level;
  const bool integers = problem.compute == DataType::s32;
  if (!is_known_processor() || !is_common(problem) || (!integers && problem.x.type != DataType::f32))
    return std::nullopt;
  if (level == (integers ? "avx512_vnni" : "avx512") && family.starts_with("brgconv")) {
    return brgconv(family == "brgconv_1x1", problem);
  }
  const bool generated = level == "avx512" && (family == "jit" || family == "jit_1x1");
  return generated && !integers ? f32_kernel(family, problem) : std::nullopt;
}

}  // namespace convoy::onednn
