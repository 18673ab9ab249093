// A problem with its spatial dims brought to three, and the terms of each output's sum: the formula of convolution.h
// and its two transposes, written as plain loops.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "convoy/convolution.h"

namespace convoy::reference {

using Coords = std::array<std::int64_t, 5>;  // N, C, D, H, W; K, C, T, R, S for the filter

// Where the elements of a tensor lie: TensorDesc's formula for rank 5.
struct Placement {
  Coords dims{};
  Coords strides{};
  std::int64_t block = 1;

  std::int64_t offset(std::int64_t n, std::int64_t c, std::int64_t d, std::int64_t h, std::int64_t w) const {
    const std::int64_t channel = block == 1 ? c * strides[1] : c / block * strides[1] + c % block;
    return n * strides[0] + channel + d * strides[2] + h * strides[3] + w * strides[4];
  }
  std::int64_t offset(const Coords& at) const { return offset(at[0], at[1], at[2], at[3], at[4]); }
  std::int64_t elements() const { return dims[0] * dims[1] * dims[2] * dims[3] * dims[4]; }
  Coords coords(std::int64_t index) const;  // of the row-major index
};

Placement place(const TensorDesc& desc);

struct Geometry {
  Pass pass = Pass::fprop;
  bool flipped = false;
  std::int64_t c_per_group = 1;
  std::int64_t k_per_group = 1;
  std::array<std::int64_t, 3> pre_padding{};
  std::array<std::int64_t, 3> stride{1, 1, 1};
  std::array<std::int64_t, 3> dilation{1, 1, 1};
  Placement x, w, y;

  explicit Geometry(const ConvProblem& problem);
  const Placement& out() const { return pass == Pass::fprop ? y : pass == Pass::dgrad ? x : w; }
  // The channel that bias, slopes and scales are indexed by.
  std::int64_t channel(const Coords& at) const { return pass == Pass::wgrad ? at[0] : at[1]; }

  // Where tap `r` of dimension `i` is stored.
  std::int64_t stored_tap(int i, std::int64_t r) const { return flipped ? w.dims[2 + i] - 1 - r : r; }
  // The position in x that output position `p` meets through tap `r`; outside [0, x.dims) it is padding.
  std::int64_t input_position(int i, std::int64_t p, std::int64_t r) const {
    return p * stride[i] + r * dilation[i] - pre_padding[i];
  }
  // The position in y that meets input position `h` through tap `r`, or -1 where there is none.
  std::int64_t output_position(int i, std::int64_t h, std::int64_t r) const {
    const std::int64_t numerator = h + pre_padding[i] - r * dilation[i];
    if (numerator < 0 || numerator % stride[i] != 0) return -1;
    const std::int64_t p = numerator / stride[i];
    return p < y.dims[2 + i] ? p : -1;
  }
};

// False where a visitor that says so has seen enough; one that returns nothing sees all.
template <class Visit>
bool go_on(Visit& visit, std::int64_t a, std::int64_t b) {
  if constexpr (std::is_void_v<decltype(visit(a, b))>) {
    visit(a, b);
    return true;
  } else {
    return visit(a, b);
  }
}

// Calls visit(offset in x, offset in w) for every product in the sum of fprop's output y[at].
template <class Visit>
void for_each_fprop_term(const Geometry& g, const Coords& at, Visit visit) {
  const std::int64_t first_channel = at[1] / g.k_per_group * g.c_per_group;
  for (std::int64_t c = 0; c < g.c_per_group; ++c) {
    for (std::int64_t t = 0; t < g.w.dims[2]; ++t) {
      const std::int64_t d = g.input_position(0, at[2], t);
      if (d < 0 || d >= g.x.dims[2]) continue;
      for (std::int64_t r = 0; r < g.w.dims[3]; ++r) {
        const std::int64_t h = g.input_position(1, at[3], r);
        if (h < 0 || h >= g.x.dims[3]) continue;
        for (std::int64_t s = 0; s < g.w.dims[4]; ++s) {
          const std::int64_t w = g.input_position(2, at[4], s);
          if (w < 0 || w >= g.x.dims[4]) continue;
          if (!go_on(visit, g.x.offset(at[0], first_channel + c, d, h, w),
                     g.w.offset(at[1], c, g.stored_tap(0, t), g.stored_tap(1, r), g.stored_tap(2, s)))) {
            return;
          }
        }
      }
    }
  }
}

// Calls visit(offset in y, offset in w) for every product in the sum of dgrad's output x[at].
template <class Visit>
void for_each_dgrad_term(const Geometry& g, const Coords& at, Visit visit) {
  const std::int64_t first_channel = at[1] / g.c_per_group * g.k_per_group;
  const std::int64_t c = at[1] % g.c_per_group;
  for (std::int64_t k = first_channel; k < first_channel + g.k_per_group; ++k) {
    for (std::int64_t t = 0; t < g.w.dims[2]; ++t) {
      const std::int64_t o = g.output_position(0, at[2], t);
      if (o < 0) continue;
      for (std::int64_t r = 0; r < g.w.dims[3]; ++r) {
        const std::int64_t p = g.output_position(1, at[3], r);
        if (p < 0) continue;
        for (std::int64_t s = 0; s < g.w.dims[4]; ++s) {
          const std::int64_t q = g.output_position(2, at[4], s);
          if (q < 0) continue;
          if (!go_on(visit, g.y.offset(at[0], k, o, p, q),
                     g.w.offset(k, c, g.stored_tap(0, t), g.stored_tap(1, r), g.stored_tap(2, s)))) {
            return;
          }
        }
      }
    }
  }
}

// Calls visit(offset in x, offset in y) for every product in the sum of wgrad's output w[at].
template <class Visit>
void for_each_wgrad_term(const Geometry& g, const Coords& at, Visit visit) {
  const std::int64_t k = at[0];
  const std::int64_t c = k / g.k_per_group * g.c_per_group + at[1];
  const std::int64_t t = g.stored_tap(0, at[2]);  // the flip is its own inverse
  const std::int64_t r = g.stored_tap(1, at[3]);
  const std::int64_t s = g.stored_tap(2, at[4]);
  for (std::int64_t n = 0; n < g.x.dims[0]; ++n) {
    for (std::int64_t o = 0; o < g.y.dims[2]; ++o) {
      const std::int64_t d = g.input_position(0, o, t);
      if (d < 0 || d >= g.x.dims[2]) continue;
      for (std::int64_t p = 0; p < g.y.dims[3]; ++p) {
        const std::int64_t h = g.input_position(1, p, r);
        if (h < 0 || h >= g.x.dims[3]) continue;
        for (std::int64_t q = 0; q < g.y.dims[4]; ++q) {
          const std::int64_t w = g.input_position(2, q, s);
          if (w < 0 || w >= g.x.dims[4]) continue;
          if (!go_on(visit, g.x.offset(n, c, d, h, w), g.y.offset(n, k, o, p, q))) return;
        }
      }
    }
  }
}

template <class Visit>
void for_each_term(const Geometry& g, const Coords& at, Visit visit) {
  switch (g.pass) {
    case Pass::fprop:
      return for_each_fprop_term(g, at, visit);
    case Pass::dgrad:
      return for_each_dgrad_term(g, at, visit);
    case Pass::wgrad:
      return for_each_wgrad_term(g, at, visit);
  }
}

}  // namespace convoy::reference
