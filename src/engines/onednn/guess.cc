#include "engines/onednn/guess.h"

#include <algorithm>

#include "engines/onednn/certain.h"
#include "engines/onednn/implementations.h"

namespace convoy::onednn {
namespace {

bool all_are(const Dims& dims, std::int64_t value, std::size_t from = 0) {
  return std::all_of(dims.begin() + static_cast<std::ptrdiff_t>(from), dims.end(),
                     [&](std::int64_t dim) { return dim == value; });
}

bool channels_last(const TensorDesc& desc) { return desc.is_packed(Layout::nhwc); }
bool channels_first(const TensorDesc& desc) { return desc.is_packed(Layout::nchw); }

// Epilogues that every row takes.
bool plain(const ConvProblem& p) {
  const ActivationKind kind = p.epilogue.activation.kind;
  return p.alpha == 1 && p.beta == 0 && p.epilogue.gamma == 0 &&
         (kind == ActivationKind::identity || kind == ActivationKind::relu) && p.w_zero_point == 0;
}

bool channels_fill_vectors(const ConvProblem& p) { return p.in_channels() % 16 == 0 && p.out_channels() % 16 == 0; }

}  // namespace

std::optional<Guess> guess(std::size_t index, const ConvProblem& p) {
  const Implementation& row = implementations()[index];
  const bool pointwise = all_are(p.w.dims, 1, 2);
  const bool depthwise = p.groups > 1 && p.w.dims[1] == 1 && p.w.dims[0] == p.groups;
  const bool lowered = row.family.starts_with("gemm") || row.family == "ref";  // these take any layout
  switch (row.shape) {
    case Shape::any:
      // Left to the rows for filters of 1 and for depthwise problems.
      if (row.family == "brg_fwd" && !all_are(p.stride, 1)) return std::nullopt;
      if (row.family == "brgconv_strided" && all_are(p.stride, 1)) return std::nullopt;
      // Takes a hundred times as long for some of these.
      if (row.family == "jit" && row.level == "avx2" && p.pass == Pass::wgrad && p.groups > 1) return std::nullopt;
      if (row.family.starts_with("brg") && (depthwise || (pointwise && row.passes == kFprop))) return std::nullopt;
      break;
    case Shape::pointwise:
      if (!pointwise) return std::nullopt;
      break;
    case Shape::depthwise:
      if (!depthwise) return std::nullopt;
      break;
    case Shape::whole_window:
      if (!all_are(p.y.dims, 1, 2)) return std::nullopt;
      break;
  }
  const std::optional<bool> offered = certainly_offered(index, p);
  if (offered == false) return std::nullopt;
  if (offered == true) return Guess{false, 0, p.epilogue.gamma == 0};  // a residual may be copied
  Guess guess;
  const bool last = channels_last(p.x) && channels_last(p.y);
  const bool blocked = p.x.channel_block > 1 && p.y.channel_block > 1;
  const bool first = channels_first(p.x) && channels_first(p.y) && !last;
  guess.any_layout = lowered ? row.family == "gemm_s8u8s32" && !last : !last && !blocked;
  if (guess.any_layout) guess.copied_bytes = p.x.bytes() + p.y.bytes() * (p.epilogue.gamma != 0 ? 2 : 1);

  const std::int64_t channels = p.w.dims[1];
  const bool usual = is_known_processor() && p.x.type == DataType::f32 && row.level != "sse41" &&
                     p.spatial_dims() == 2 && all_are(p.dilation, 1) &&
                     (row.shape == Shape::pointwise || is_ordinary(p)) && plain(p) && p.math == MathMode::strict &&
                     (last || first) && p.batch() <= 1024;
  // Of one pixel the layout says nothing; strided gradients are offered for some sizes only.
  if (!usual || all_are(p.x.dims, 1, 2) || all_are(p.y.dims, 1, 2)) return guess;
  if (p.pass == Pass::dgrad && !all_are(p.stride, 1)) return guess;
  if (row.shape == Shape::pointwise) {
    const bool whole = channels_fill_vectors(p) || (last && p.pass == Pass::fprop && channels % 16 == 0);
    const bool even = p.x.dims[2] == p.y.dims[2] * p.stride[0] && p.x.dims[3] == p.y.dims[3] * p.stride[1];
    const bool strided_rows = row.family == "jit_1x1" && p.pass == Pass::fprop && last && even;
    guess.certain = p.groups == 1 && (all_are(p.stride, 1) || strided_rows) && all_are(p.pre_padding, 0) &&
                    all_are(p.post_padding, 0) && whole;
  } else if (row.shape == Shape::depthwise) {
    guess.certain = p.pass == Pass::fprop && last && channels_fill_vectors(p) && p.w.dims[2] <= 7 && p.w.dims[3] <= 7;
  } else if (row.shape == Shape::any && p.groups == 1) {
    const bool few_filters = last && p.pass == Pass::fprop && pointwise && channels % 16 == 0 && row.level == "avx512";
    const bool square = few_filters || (channels_fill_vectors(p) && p.w.dims[2] <= 7 && p.w.dims[3] <= 7);
    guess.certain =
        (lowered && p.pass != Pass::dgrad && !guess.any_layout) || (row.family.starts_with("jit") && square);
  }
  return guess;
}

}  // namespace convoy::onednn
