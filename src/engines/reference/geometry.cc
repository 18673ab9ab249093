#include "engines/reference/geometry.h"

namespace convoy::reference {
// Spatial dims are right-aligned: H and W of a 2D tensor are the last two, W of a 1D one the last.
Placement place(const TensorDesc& desc) {
  Placement placement;
  placement.dims.fill(1);
  placement.block = desc.channel_block;
  const int spatial = desc.spatial_dims();
  for (int i = 0; i < desc.rank(); ++i) {
    const int to = i < 2 ? i : 5 - spatial + (i - 2);
    placement.dims[to] = desc.dims[i];
    placement.strides[to] = desc.strides[i];
  }
  return placement;
}

Coords Placement::coords(std::int64_t index) const {
  Coords at;
  for (int i = 4; i >= 0; --i) {
    at[i] = index % dims[i];
    index /= dims[i];
  }
  return at;
}

Geometry::Geometry(const ConvProblem& problem)
    : pass(problem.pass),
      flipped(problem.mode == ConvMode::convolution),
      c_per_group(problem.in_channels() / problem.groups),
      k_per_group(problem.out_channels() / problem.groups),
      x(place(problem.x)),
      w(place(problem.w)),
      y(place(problem.y)) {
  const int spatial = problem.spatial_dims();
  for (int i = 0; i < spatial; ++i) {
    const int to = 3 - spatial + i;
    pre_padding[to] = problem.pre_padding[i];
    stride[to] = problem.stride[i];
    dilation[to] = problem.dilation[i];
  }
}

}  // namespace convoy::reference
