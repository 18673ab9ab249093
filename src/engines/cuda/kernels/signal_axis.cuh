// A 1D convolution in segments, as the kernels for long filters of signals see it (depthwise_signal*.cu).
//
// A segment is TILES tiles of TILE outputs that lie `out_phases` apart: where outputs `dilation` apart share inputs, or
// a stride's dgrad has outputs of several kinds, every such phase is a signal of its own. In the same way inputs lie
// `in_phases` apart, so that output q of a tile meets tap s of a phase at input q + s of it.
#pragma once

#include "axis.cuh"
#include "problem.h"

namespace {

constexpr bool along_h = IN_H > 1 || OUT_H > 1 || TAPS_H > 1;  // which of the two axes is the signal's
constexpr int taps = TAPS_H * TAPS_W;
constexpr int stride = along_h ? STRIDE_H : STRIDE_W;
constexpr int dilation = along_h ? DILATION_H : DILATION_W;
constexpr int pad = along_h ? PAD_H : PAD_W;

// SPARSE: few taps, far apart, each of which reads its own inputs of one unbroken row.
constexpr int in_phases = TRANSPOSED || SPARSE ? 1 : stride * dilation;
constexpr int out_phases = TRANSPOSED ? stride : SPARSE ? 1 : dilation;
constexpr int item_phases = TRANSPOSED || SPARSE ? 1 : dilation;  // rows of tiles in a plane
constexpr int items_plane = item_phases * TILES;
constexpr int phase_taps = ceil_div(GROUP_TAPS, stride);
CONVOY_CONSTEXPR int taps_of_phase(int phase) { return (GROUP_TAPS - phase + stride - 1) / stride; }

// Position j of a segment's rows, counted over all phases, is input j - lead + segment*step + base.
constexpr int segment_tiles = TILES * TILE;
constexpr int in_base = TRANSPOSED ? floor_div(pad, stride) - (phase_taps - 1) : -pad;
constexpr int out_base = TRANSPOSED ? floor_div(pad, stride) * stride - pad : 0;
// With a lead, positions in fours are inputs in fours: pieces of 16 bytes.
constexpr int lead = in_phases == 1 ? in_base - floor_div(in_base, 4) * 4 : 0;
constexpr int in_reach = SPARSE ? (taps - 1) * dilation : phase_taps - 1;

struct In {
  static constexpr int length = along_h ? IN_H : IN_W;
  static constexpr long long stride_n = IN_STRIDE_N, stride_c = IN_STRIDE_C;
  static constexpr long long step = along_h ? IN_STRIDE_H : IN_STRIDE_W;
  static constexpr int phases = in_phases;
  static constexpr int base = in_base - lead;
  static constexpr int positions = lead + segment_tiles + in_reach;  // of a phase
  static constexpr int sharing = MULTIPLIER;                         // planes that read one row
};
struct Out {
  static constexpr int length = along_h ? OUT_H : OUT_W;
  static constexpr long long stride_n = OUT_STRIDE_N, stride_c = OUT_STRIDE_C;
  static constexpr long long step = along_h ? OUT_STRIDE_H : OUT_STRIDE_W;
  static constexpr int phases = out_phases;
  static constexpr int base = out_base;
  static constexpr int positions = segment_tiles;
  static constexpr int sharing = 1;
};
constexpr int segments = ceil_div(ceil_div(Out::length - out_base, out_phases), segment_tiles);
constexpr int groups = ceil_div(OUT_C, PLANES);
constexpr int tap_groups = ceil_div(taps, GROUP_TAPS);

}  // namespace
