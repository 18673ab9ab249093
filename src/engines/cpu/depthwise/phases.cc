#include "engines/cpu/depthwise/phases.h"

#include <algorithm>
#include <numeric>

namespace convoy::cpu {
namespace {

// [inner_begin, inner_end), for taps in ascending order.
void find_inner(DepthwisePhase& phase) {
  if (phase.taps == 0) {
    phase.inner_begin = 0;
    phase.inner_end = phase.count;
    return;
  }
  const std::int64_t last = phase.delta + (phase.taps - 1) * phase.delta_step;
  phase.inner_begin = std::clamp<std::int64_t>(ceil_div(-phase.delta, phase.src_step), 0, phase.count);
  const std::int64_t room = phase.src_size - last;  // src_step*j < room
  phase.inner_end = std::clamp<std::int64_t>(ceil_div(room, phase.src_step), 0, phase.count);
  phase.inner_end = std::max(phase.inner_end, phase.inner_begin);
}

DepthwisePhase fprop_phase(const ConvGeometry& g, int i) {
  DepthwisePhase phase{};
  phase.out_step = 1;
  phase.count = g.y_size[i];
  phase.src_step = g.stride[i];
  phase.src_size = g.x_size[i];
  phase.tap_step = 1;
  phase.taps = g.filter[i];
  phase.delta = -g.pre[i];
  phase.delta_step = g.dilation[i];
  find_inner(phase);
  return phase;
}

// Position h = stride*j + f of x meets position (h + pre - r*dilation) / stride of y where that is whole: for every
// (stride / gcd(stride, dilation))-th tap from the first one that fits.
DepthwisePhase dgrad_phase(const ConvGeometry& g, int i, std::int64_t f) {
  const std::int64_t stride = g.stride[i];
  DepthwisePhase phase{};
  phase.out_offset = f;
  phase.out_step = stride;
  phase.count = (g.x_size[i] - f + stride - 1) / stride;
  phase.src_step = 1;
  phase.src_size = g.y_size[i];
  const std::int64_t common = std::gcd(stride, g.dilation[i]);
  phase.tap_step = stride / common;
  phase.delta_step = -(g.dilation[i] / common);
  std::int64_t r = 0;
  while (r < g.filter[i] && r < phase.tap_step && (f + g.pre[i] - r * g.dilation[i]) % stride != 0) ++r;
  const bool none = r >= g.filter[i] || r >= phase.tap_step;
  phase.taps = none ? 0 : (g.filter[i] - r + phase.tap_step - 1) / phase.tap_step;
  if (phase.taps > 0) {
    // From the last tap to the first, so that source positions ascend.
    phase.first_tap = r + (phase.taps - 1) * phase.tap_step;
    phase.delta = (f + g.pre[i] - phase.first_tap * g.dilation[i]) / stride;
    phase.delta_step = -phase.delta_step;
    phase.tap_step = -phase.tap_step;
  }
  find_inner(phase);
  return phase;
}

}  // namespace

std::array<std::vector<DepthwisePhase>, 3> depthwise_phases(const ConvGeometry& g, Pass pass) {
  std::array<std::vector<DepthwisePhase>, 3> phases;
  for (int i = 0; i < 3; ++i) {
    if (pass == Pass::fprop) {
      phases[i].push_back(fprop_phase(g, i));
    } else {
      for (std::int64_t f = 0; f < std::min(g.stride[i], g.x_size[i]); ++f) phases[i].push_back(dgrad_phase(g, i, f));
    }
  }
  return phases;
}

TapRange taps_inside(const DepthwisePhase& phase, std::int64_t j) {
  const std::int64_t base = phase.src_step * j + phase.delta;
  if (phase.taps == 0) return {};
  const std::int64_t first = std::clamp<std::int64_t>(ceil_div(-base, phase.delta_step), 0, phase.taps);
  const std::int64_t end = std::clamp<std::int64_t>(ceil_div(phase.src_size - base, phase.delta_step), 0, phase.taps);
  return {first, std::max<std::int64_t>(end - first, 0)};
}

Reach reach_of(const std::vector<DepthwisePhase>& phases) {
  Reach reach;
  bool any = false;
  for (const DepthwisePhase& phase : phases) {
    if (phase.taps == 0) continue;
    const std::int64_t high = phase.delta + (phase.taps - 1) * phase.delta_step;
    reach.low = any ? std::min(reach.low, phase.delta) : phase.delta;
    reach.high = any ? std::max(reach.high, high) : high;
    any = true;
  }
  return reach;
}

}  // namespace convoy::cpu
