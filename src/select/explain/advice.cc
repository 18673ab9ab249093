#include "select/explain/advice.h"

#include <fmt/format.h>

#include <algorithm>

namespace convoy::selection {
namespace {

constexpr std::int64_t fewest_channels = 32;
constexpr std::int64_t vector_bytes = 16;

std::string placement(const TensorDesc& desc) {
  return desc.layout() == Layout::strided ? "strided" : std::string(name_of(desc.layout(), desc.spatial_dims()));
}

}  // namespace

std::vector<Advice> advice_for_3d(const ConvProblem& problem) {
  if (problem.spatial_dims() != 3) return {};
  const bool last = problem.x.is_packed(Layout::nhwc) && problem.y.is_packed(Layout::nhwc);
  const std::int64_t in = problem.in_channels() / problem.groups, out = problem.out_channels() / problem.groups;
  const std::int64_t alignment = std::min({problem.x.alignment, problem.w.alignment, problem.y.alignment});
  return {
      {"layout", last,
       fmt::format("x={} y={}{}", placement(problem.x), placement(problem.y), last ? "" : ": ndhwc is faster")},
      {"channels", std::min(in, out) >= fewest_channels,
       fmt::format("C/groups={} K/groups={}{}", in, out,
                   std::min(in, out) >= fewest_channels ? "" : ": 32 or more fill the tensor cores")},
      {"alignment", alignment >= vector_bytes,
       fmt::format("pointers={} bytes{}", alignment,
                   alignment >= vector_bytes ? "" : ": 16 allow the widest loads and stores")},
  };
}

}  // namespace convoy::selection
