#include "engines/cpu/common/forward.h"

#include <algorithm>

#include "engines/cpu/common/problem.h"

namespace convoy::cpu {
namespace {

Axis fprop_axis(const ConvGeometry& g, int i) {
  Axis axis;
  axis.count = g.y_size[i];
  axis.in_size = g.x_size[i];
  axis.in_step = g.stride[i];
  for (std::int64_t r = 0; r < g.filter[i]; ++r) axis.taps.push_back({r * g.dilation[i] - g.pre[i], r});
  return axis;
}

// The phases of one axis: output h = start + u*j receives y[p]*w[r] with p*u = h + pre - r*dilation.
std::vector<Axis> dgrad_axes(const ConvGeometry& g, int i) {
  std::vector<Axis> axes;
  const std::int64_t u = g.stride[i];
  for (std::int64_t start = 0; start < std::min(u, g.x_size[i]); ++start) {
    Axis axis;
    axis.count = (g.x_size[i] - start + u - 1) / u;
    axis.out_start = start;
    axis.out_step = u;
    axis.in_size = g.y_size[i];
    for (std::int64_t r = g.filter[i] - 1; r >= 0; --r) {
      const std::int64_t at = start + g.pre[i] - r * g.dilation[i];
      if (at % u == 0) axis.taps.push_back({at / u, r});
    }
    axes.push_back(std::move(axis));
  }
  return axes;
}

bool is_identity(const Axis& axis) {
  return axis.in_step == 1 && axis.out_step == 1 && axis.out_start == 0 && axis.count == axis.in_size &&
         axis.taps.size() == 1 && axis.taps[0].offset == 0;
}

}  // namespace

std::int64_t phase_count(const ConvProblem& problem) {
  if (problem.pass != Pass::dgrad) return 1;
  std::int64_t count = 1;
  for (int i = 0; i < problem.spatial_dims(); ++i) {
    count *= std::clamp<std::int64_t>(std::min(problem.stride[i], problem.x.dims[2 + i]), 1, 1 << 20);
  }
  return count;
}

ForwardConv forward_view(const ConvProblem& problem) {
  const ConvGeometry g = flat_geometry(problem);
  const bool fprop = problem.pass == Pass::fprop;
  ForwardConv conv{};
  conv.batch = g.batch;
  conv.groups = g.groups;
  conv.in_channels = fprop ? g.group_channels : g.group_filters;
  conv.out_channels = fprop ? g.group_filters : g.group_channels;
  conv.in = fprop ? g.x : g.y;
  conv.out = fprop ? g.y : g.x;
  conv.w_origin = g.w.origin;
  conv.w_group = g.group_filters * g.w.out;
  conv.w_out = fprop ? g.w.out : g.w.in;
  conv.w_in = fprop ? g.w.in : g.w.out;
  std::copy(g.w.spatial, g.w.spatial + 3, conv.w_spatial);
  if (fprop) {
    conv.phases.push_back({{fprop_axis(g, 0), fprop_axis(g, 1), fprop_axis(g, 2)}});
    return conv;
  }
  for (const Axis& d : dgrad_axes(g, 0)) {
    for (const Axis& h : dgrad_axes(g, 1)) {
      for (const Axis& w : dgrad_axes(g, 2)) conv.phases.push_back({{d, h, w}});
    }
  }
  return conv;
}

void merge_axes(ForwardConv& conv) {
  if (conv.phases.size() != 1) return;
  Phase& phase = conv.phases[0];
  if (!is_identity(phase.axis[2])) return;
  for (int i = 1; i >= 0; --i) {
    Axis& outer = phase.axis[i];
    Axis& row = phase.axis[2];
    const bool linear = outer.count == 1 || (conv.in.spatial[i] == row.count * conv.in.spatial[2] &&
                                             conv.out.spatial[i] == row.count * conv.out.spatial[2]);
    if (!is_identity(outer) || !linear) return;
    row.count *= outer.count;
    row.in_size = row.count;
    outer.count = outer.in_size = 1;
  }
  Axis& row = phase.axis[2];
  if (conv.batch > 1 && conv.in.batch == row.count * conv.in.spatial[2] &&
      conv.out.batch == row.count * conv.out.spatial[2]) {
    row.count *= conv.batch;
    row.in_size = row.count;
    conv.batch = 1;
  }
}

}  // namespace convoy::cpu
