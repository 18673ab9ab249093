#include "engines/onednn/known.h"

#include <fmt/format.h>

#include <algorithm>

#include "engines/onednn/request.h"

namespace convoy::onednn {
namespace {

bool is_depthwise(const ConvProblem& p) { return p.groups > 1 && p.w.dims[1] == 1 && p.w.dims[0] == p.groups; }

// Whether a post-operation reads something for each channel or element. A residual with another factor than 1 is what
// out holds before.
bool has_operands(const ConvProblem& p) {
  const Epilogue& epilogue = p.epilogue;
  return epilogue.requantize != Requantize::none || epilogue.activation.kind == ActivationKind::prelu ||
         epilogue.gamma == 1 || (p.alpha != 1 && epilogue.bias);
}

}  // namespace

std::optional<Refusal> known_wrong(const Implementation& implementation, const ConvProblem& p) {
  if (implementation.family == "ip" && p.epilogue.activation.kind == ActivationKind::prelu) {
    return Refusal{RefusalCode::epilogue, "act=prelu: oneDNN's inner product leaves it out: wrong results"};
  }
  if (implementation.family == "jit_bf16" && p.pass == Pass::wgrad && p.x.dims.back() < p.stride.back()) {
    return Refusal{RefusalCode::stride,
                   fmt::format("stride={}: oneDNN's wgrad in bf16 reads unset memory where rows of x "
                               "are shorter, here {}: wrong results",
                               to_string(p.stride), p.x.dims.back())};
  }
  constexpr std::int64_t vector = 16;
  const bool dilated = std::any_of(p.dilation.begin(), p.dilation.end(), [](std::int64_t step) { return step > 1; });
  if (implementation.family == "jit_bf16" && p.pass == Pass::wgrad && dilated && p.w.dims[1] % vector != 0) {
    return Refusal{
        RefusalCode::dilation,
        fmt::format("dilation={}: oneDNN's dilated wgrad in bf16 reads unset memory where channels don't fill "
                    "vectors of {}, here {}: wrong results",
                    to_string(p.dilation), vector, p.w.dims[1])};
  }
  const bool strided = std::any_of(p.stride.begin(), p.stride.end(), [](std::int64_t stride) { return stride > 1; });
  if (implementation.family.ends_with("1x1") && p.pass == Pass::wgrad && strided && p.w.dims[1] < vector) {
    return Refusal{RefusalCode::channels,
                   fmt::format("C/groups={}: oneDNN's strided wgrad for filters of 1 writes beyond its scratchpad "
                               "where channels don't fill a vector of {}: memory is overwritten",
                               p.w.dims[1], vector)};
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
  if (implementation.family == "jit_uni_int8" && implementation.level == "avx2_vnni" && is_depthwise(p) &&
      p.groups % 8 > 1 && has_operands(p)) {
    return Refusal{RefusalCode::groups,
                   fmt::format("groups={}: oneDNN's 8-bit depthwise code for AVX2 reads one of the last channels' "
                               "scales, slopes or residuals, where they don't fill a vector of 8: wrong results",
                               p.groups)};
  }
  if (p.compute != DataType::s32 || implementation.family == "ref") return std::nullopt;
  const std::string_view level = implementation.level;
  if (level.find("vnni") != std::string_view::npos || level == "amx") return std::nullopt;
  // The rows without a level take what the processor has, whatever the cap.
  if (level.empty() && (processor_has("avx512_vnni") || processor_has("avx2_vnni"))) return std::nullopt;
  return Refusal{RefusalCode::instruction_set,
                 fmt::format("types x={} w={}: oneDNN computes them without VNNI here, in sums "
                             "of 16 bits that saturate: wrong results",
                             convoy::name_of(p.x.type), convoy::name_of(p.w.type))};
}

}  // namespace convoy::onednn
