#include "engines/cpu/common/panels.h"

#include "engines/cpu/common/problem.h"

namespace convoy::cpu {

std::vector<PanelChunk> chunk_panels(std::int64_t panels, std::int64_t groups, double panel_bytes, double bytes) {
  std::vector<PanelChunk> chunks;
  if (panels == 0) return chunks;
  const std::int64_t of_group = panels / groups;
  const double fitting = std::min(1e9, bytes / std::max(1.0, panel_bytes));
  const auto fit = std::max<std::int64_t>(1, static_cast<std::int64_t>(fitting));
  if (fit >= of_group) {
    const std::int64_t together = fit / of_group;
    for (std::int64_t g = 0; g < groups; g += together) {
      const std::int64_t end = std::min(groups, g + together);
      chunks.push_back({g * of_group, end * of_group, g, end});
    }
    return chunks;
  }
  const std::int64_t each = ceil_div(of_group, ceil_div(of_group, fit));
  for (std::int64_t g = 0; g < groups; ++g) {
    for (std::int64_t p = 0; p < of_group; p += each) {
      chunks.push_back({g * of_group + p, g * of_group + std::min(of_group, p + each), g, g + 1});
    }
  }
  return chunks;
}

std::int64_t most_groups(const std::vector<PanelChunk>& chunks) {
  std::int64_t groups = 1;
  for (const PanelChunk& chunk : chunks) groups = std::max(groups, chunk.group_end - chunk.group_begin);
  return groups;
}

Blocks equal_blocks(std::int64_t count, std::int64_t most, std::int64_t tile, std::int64_t multiple) {
  if (count <= 0) return {std::max<std::int64_t>(most, 1), 0};
  const std::int64_t wanted = ceil_div(ceil_div(count, most), multiple) * multiple;
  const std::int64_t each = ceil_div(count, std::min(wanted, ceil_div(count, tile)));
  const std::int64_t size = ceil_div(each, tile) * tile;
  return {size, ceil_div(count, size)};
}

template <class Real>
PhaseJob<Real> make_phase_job(const ConvProblem& problem, const ConvArgs& args, const void* packed) {
  PhaseJob<Real> job{};
  job.in = static_cast<const Real*>(problem.pass == Pass::fprop ? args.x : args.y);
  job.out = static_cast<Real*>(args.out);
  job.packed = static_cast<const Real*>(packed);
  job.epilogue = make_epilogue<Real>(problem, args);
  job.z = job.epilogue.gamma != 0 ? static_cast<const Real*>(args.z) : job.out;
  return job;
}

template PhaseJob<float> make_phase_job(const ConvProblem& problem, const ConvArgs& args, const void* packed);
template PhaseJob<double> make_phase_job(const ConvProblem& problem, const ConvArgs& args, const void* packed);

}  // namespace convoy::cpu
