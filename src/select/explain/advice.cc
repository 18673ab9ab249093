#include "select/explain/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace convoy::selection {
namespace {

constexpr std::int64_t kFewestChannels = 32;
constexpr std::int64_t kVectorBytes = 16;
constexpr std::array<std::int64_t, 8> kGroupSizes = {1, 4, 8, 16, 32, 64, 128, 256};

bool on_tensor_cores(const ConvProblem& problem) {
  if (problem.x.type == DataType::f64) return false;
  return problem.x.type != DataType::f32 || problem.math != MathMode::strict;
}

std::string placement(const TensorDesc& desc) {
  return desc.layout() == Layout::strided ? "strided" : std::string(name_of(desc.layout(), desc.spatial_dims()));
}

}  // namespace

std::vector<Advice> advice_for_3d(const ConvProblem& problem) {
  if (problem.spatial_dims() != 3) return {};
  const bool last = problem.x.is_packed(Layout::nhwc) && problem.y.is_packed(Layout::nhwc);
  const std::int64_t in = problem.in_channels() / problem.groups, out = problem.out_channels() / problem.groups;
  const std::int64_t alignment = std::min({problem.x.alignment, problem.w.alignment, problem.y.alignment});
  std::vector<Advice> all = {
      {"layout", last,
       fmt::format("x={} y={}{}", placement(problem.x), placement(problem.y), last ? "" : ": ndhwc is faster")},
      {"channels", std::min(in, out) >= kFewestChannels,
       fmt::format("C/groups={} K/groups={}{}", in, out,
                   std::min(in, out) >= kFewestChannels ? "" : ": 32 or more fill the tensor cores")},
      {"alignment", alignment >= kVectorBytes,
       fmt::format("pointers={} bytes{}", alignment,
                   alignment >= kVectorBytes ? "" : ": 16 allow the widest loads and stores")},
  };
  const bool narrow = on_tensor_cores(problem);
  all.push_back({"precision", narrow,
                 fmt::format("x={} math={}{}", name_of(problem.x.type), name_of(problem.math),
                             narrow ? "" : ": bf16, f16, or f32 with --allow tf32 run on the tensor cores")});
  if (problem.groups == 1) return all;
  const bool even = in == out && std::ranges::find(kGroupSizes, in) != kGroupSizes.end();
  all.push_back({"groups", even,
                 fmt::format("C/groups={} K/groups={}{}", in, out,
                             even ? ""
                                  : fmt::format(": both the same, one of {}, have kernels for groups",
                                                fmt::join(kGroupSizes, ", ")))});
  return all;
}

}  // namespace convoy::selection
