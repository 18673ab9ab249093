#include "engines/onednn/certain.h"

#include <algorithm>

#include "engines/onednn/implementations.h"

namespace convoy::onednn {
namespace {

// Channels innermost in 1D and 2D, one group, enough channels for vectors, more than one pixel (of one pixel the layout
// says nothing, and oneDNN takes it for another).
bool is_common(const ConvProblem& p) {
  if (p.pass != Pass::fprop || p.groups != 1 || p.spatial_dims() > 2) return false;
  if (p.in_channels() < 16 || p.out_channels() < 16) return false;
  const auto pixels = [](const TensorDesc& desc) {
    return desc.dims[2] * (desc.spatial_dims() > 1 ? desc.dims[3] : 1);
  };
  if (pixels(p.x) < 2 || pixels(p.y) < 2) return false;
  return p.x.is_packed(Layout::nhwc) && p.y.is_packed(Layout::nhwc);
}

bool is_unit(const ConvProblem& p) {
  return std::all_of(p.w.dims.begin() + 2, p.w.dims.end(), [](std::int64_t size) { return size == 1; });
}

bool is_padded(const ConvProblem& p) {
  const auto positive = [](std::int64_t padding) { return padding > 0; };
  return std::any_of(p.pre_padding.begin(), p.pre_padding.end(), positive) ||
         std::any_of(p.post_padding.begin(), p.post_padding.end(), positive);
}

}  // namespace

std::optional<bool> certainly_offered(std::size_t row, const ConvProblem& problem) {
  const Implementation& implementation = implementations()[row];
  const bool integers = problem.compute == DataType::s32;
  if (implementation.level != (integers ? "avx512_vnni" : "avx512")) return std::nullopt;
  const bool pointwise = implementation.family == "brgconv_1x1";
  if (!pointwise && implementation.family != "brgconv") return std::nullopt;
  if (!integers && problem.x.type != DataType::f32) return std::nullopt;
  if (!is_common(problem)) return std::nullopt;
  if (!is_unit(problem)) return pointwise ? std::optional(false) : std::optional(true);
  if (is_padded(problem)) return std::nullopt;
  return pointwise;
}

}  // namespace convoy::onednn
