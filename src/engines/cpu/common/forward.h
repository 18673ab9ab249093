// fprop and dgrad as one kind of problem: a forward convolution whose taps have explicit input offsets.
//
// fprop is one phase. dgrad (a transposed convolution's forward pass) with stride u is one phase for each residue of
// the output position modulo u, each a stride-1 convolution over the taps that reach it, so that nothing is scattered:
//   output position  out_start + j*out_step  reads input position  j*in_step + offset  for each tap, j in [0, count).
// Not for per-ISA units (it brings in the standard library).
#pragma once

#include <cstdint>
#include <vector>

#include "convoy/convolution.h"
#include "engines/cpu/common/geometry.h"

namespace convoy::cpu {

struct AxisTap {
  std::int64_t offset;  // input position at j = 0; negative or beyond the input where padding is read
  std::int64_t filter;  // index into the filter (before mode=convolution turns it around, see WeightView)
};

struct Axis {
  std::int64_t count = 1;
  std::int64_t out_start = 0;
  std::int64_t out_step = 1;
  std::int64_t in_size = 1;
  std::int64_t in_step = 1;
  std::vector<AxisTap> taps;  // by ascending offset; may be empty in dgrad

  std::int64_t min_offset() const { return taps.empty() ? 0 : taps.front().offset; }
  std::int64_t max_offset() const { return taps.empty() ? 0 : taps.back().offset; }
  bool reads_padding() const {
    return !taps.empty() && count > 0 && (min_offset() < 0 || (count - 1) * in_step + max_offset() >= in_size);
  }
};

struct Phase {
  Axis axis[3];
  std::int64_t taps() const {
    return static_cast<std::int64_t>(axis[0].taps.size() * axis[1].taps.size() * axis[2].taps.size());
  }
};

struct ForwardConv {
  std::int64_t batch;
  std::int64_t groups;
  std::int64_t in_channels;   // a group's
  std::int64_t out_channels;  // a group's
  ActivationView in;
  ActivationView out;
  // Weight of (group, output channel, input channel, tap):
  //   origin + group*w_group + ko*w_out + ci*w_in + sum_i tap[i].filter*w_spatial[i]
  std::int64_t w_origin, w_group, w_out, w_in;
  std::int64_t w_spatial[3];
  std::vector<Phase> phases;  // those with at least one output position
};

// How many phases forward_view makes at most; engines refuse absurd strides by it before asking for them.
std::int64_t phase_count(const ConvProblem& problem);

// Precondition: validate(problem) passed, pass is fprop or dgrad.
ForwardConv forward_view(const ConvProblem& problem);

// Joins spatial axes (into the W axis) where the problem is 1x1, unpadded and of stride 1 and memory allows it, and
// then the batch too: one long row of positions.
void merge_axes(ForwardConv& conv);

}  // namespace convoy::cpu
