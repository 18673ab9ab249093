#include "engines/cudnn/limits.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <utility>
#include <vector>

namespace convoy::cudnn {
bool is_fp8(DataType type) { return type == DataType::f8_e4m3 || type == DataType::f8_e5m2; }

namespace {

constexpr int kFirstFp8Architecture = 89;
constexpr int kFirstBf16Architecture = 80;
constexpr std::int64_t kVectorBytes = 16;  // what a tensor-core kernel loads at once

struct Named {
  const char* name;
  const TensorDesc& desc;
};
std::array<Named, 3> tensors(const ConvProblem& p) { return {{{"x", p.x}, {"w", p.w}, {"y", p.y}}}; }

bool uses(const ConvProblem& p, DataType type) { return p.x.type == type || p.w.type == type || p.y.type == type; }

std::optional<Refusal> too_old(const ConvProblem& p, const CudaDevice& device) {
  const bool fp8 = is_fp8(p.x.type) || is_fp8(p.w.type) || is_fp8(p.y.type);
  const int needed = fp8 ? kFirstFp8Architecture : uses(p, DataType::bf16) ? kFirstBf16Architecture : 0;
  if (device.architecture >= needed) return std::nullopt;
  return Refusal{RefusalCode::device, fmt::format("device={} (sm_{}): cuDNN computes {} from sm_{} on", device.name,
                                                  device.architecture, fp8 ? "fp8" : "bf16", needed)};
}

}  // namespace

std::optional<Refusal> outside_limits(const ConvProblem& p, const CudaDevice& device) {
  for (const auto& [name, desc] : tensors(p)) {
    if (desc.channel_block != 1) {
      return Refusal{RefusalCode::layout,
                     fmt::format("{}: blocks of {} channels are a layout of CPU engines; cuDNN's own blocked layouts, "
                                 "NC/4HW4 and NC/32HW32 of s8, have blocks of 4 and 32",
                                 name, desc.channel_block)};
    }
    for (std::size_t i = 0; i < desc.dims.size(); ++i) {
      if (desc.dims[i] > std::numeric_limits<std::int32_t>::max()) {
        return Refusal{RefusalCode::size,
                       fmt::format("{}.dims[{}]={}: cuDNN's sizes have 32 bits", name, i, desc.dims[i])};
      }
    }
    if (desc.alignment < static_cast<std::int64_t>(size_of(desc.type))) {
      return Refusal{RefusalCode::alignment, fmt::format("{}: pointers aligned to {} bytes, less than an element of {}",
                                                         name, desc.alignment, convoy::name_of(desc.type))};
    }
  }
  // Engines for f64 and integers are few; the mixtures that none computes are refused by cuDNN engine by engine.
  if (p.compute == DataType::s32 && p.w.type != DataType::s8) {
    return Refusal{RefusalCode::data_type,
                   fmt::format("types x={} w={}: cuDNN's integer convolutions take w in s8 only",
                               convoy::name_of(p.x.type), convoy::name_of(p.w.type))};
  }
  return too_old(p, device);
}

std::string unmet_advice(const ConvProblem& p, const CudaDevice& device) {
  std::vector<std::string> unmet;
  const auto channels = [&](std::int64_t multiple, std::string_view why) {
    const std::int64_t c = p.w.dims[1], k = p.w.dims[0] / p.groups;
    const char* group = p.groups > 1 ? " of a group" : "";
    if (c % multiple != 0)
      unmet.push_back(fmt::format("{} input channels{}, no multiple of {} ({})", c, group, multiple, why));
    if (k % multiple != 0)
      unmet.push_back(fmt::format("{} output channels{}, no multiple of {} ({})", k, group, multiple, why));
  };
  switch (p.x.type) {
    case DataType::f16:
    case DataType::bf16:
      channels(8, "16-bit tensor cores");
      break;
    case DataType::f32:
      if (p.math != MathMode::strict) channels(4, "tf32 tensor cores");
      break;
    case DataType::f8_e4m3:
    case DataType::f8_e5m2:
      channels(16, "fp8 tensor cores");
      break;
    case DataType::s8:
    case DataType::u8:
      channels(4, "8-bit integer products in fours");
      break;
    default:
      break;
  }
  const bool channels_last = p.x.is_packed(Layout::nhwc) && p.w.is_packed(Layout::nhwc) && p.y.is_packed(Layout::nhwc);
  const bool needs_channels_last = size_of(p.x.type) == 1 || p.spatial_dims() == 3;
  if (!channels_last && !p.x.is_packed(Layout::nchw)) unmet.push_back("x is neither packed nchw nor packed nhwc");
  if (!channels_last && p.x.is_packed(Layout::nhwc)) unmet.push_back("x is nhwc, w or y is not");
  if (!channels_last && needs_channels_last) {
    unmet.push_back(fmt::format("not all of x, w and y are {}", convoy::name_of(Layout::nhwc, p.spatial_dims())));
  }
  // "Recommended settings for 3D convolutions" of cuDNN's guide; the other two are said here for all.
  if (p.spatial_dims() == 3 && (p.w.dims[1] < 32 || p.w.dims[0] / p.groups < 32)) {
    unmet.push_back(
        fmt::format("{} input and {} output channels in 3D, which wants 32", p.w.dims[1], p.w.dims[0] / p.groups));
  }
  for (const auto& [name, desc] : tensors(p)) {
    if (desc.alignment < kVectorBytes) {
      unmet.push_back(fmt::format("{} aligned to {} bytes, less than {}", name, desc.alignment, kVectorBytes));
    }
  }
  const bool scaled = p.alpha != 1 || p.beta != 0 || (p.epilogue.gamma != 0 && p.epilogue.gamma != 1);
  if (scaled && (p.epilogue.bias || p.epilogue.activation.kind != ActivationKind::identity)) {
    unmet.push_back("factors other than 1 in a fused graph");
  }
  if (p.epilogue.requantize != Requantize::none && device.architecture < 80) {
    unmet.push_back(fmt::format("sm_{}: fused graphs are compiled from sm_80 on", device.architecture));
  }
  std::string text;
  for (const std::string& each : unmet) text += (text.empty() ? "" : "; ") + each;
  return text;
}

}  // namespace convoy::cudnn
