// Scaled dot product attention, which ONNX and ONNX Runtime have in several forms.
#pragma once

#include "network/graph/composite.h"

namespace convoy::network {

// softmax(scale * q * k^T, capped, + bias) * v, for each head. q is [N, H, S, D], k [N, G, T, D] and v [N, G, T, E];
// H / G heads of q share one of k and v, neighbours.
struct DotProductAttention {
  int q = kAbsent, k = kAbsent, v = kAbsent;
  double scale = 1;
  double softcap = 0;             // 0: none
  int bias = kAbsent;             // broadcasts to [N, H, S, T], -inf where nothing is attended
  bool empty_rows_are_0 = false;  // rows of the bias that are -inf everywhere give zeros instead of NaN
  DataType softmax_type = DataType::f32;
};
// Values [N, H, S, E] and [N, H, S, T].
struct AttentionResult {
  int y = kAbsent;
  int product = kAbsent, capped = kAbsent, biased = kAbsent, weights = kAbsent;
};
Result<AttentionResult> add_attention(Expansion& e, const DotProductAttention& a);

// [N, S, H * D] to [N, H, S, D], and back. The size divides (checked; `what` is the input's name).
Result<int> heads_apart(Expansion& e, int x, std::int64_t heads, const char* what);
Result<int> heads_together(Expansion& e, int x);

// Which keys j a query i may attend: j <= i + offset, and j within a window around i + offset. As booleans that
// broadcast to [N, 1, S, T], in the order of `add_bounds`; kAbsent: all of them.
struct Bounds {
  std::int64_t queries = 0, keys = 0;
  std::int64_t offset = 0;
  int offsets = kAbsent;  // instead, for each sample: s64 [N, 1, 1, 1]
  bool is_causal = false;
  std::int64_t left = -1, right = -1;  // -1: unbounded
};
Result<int> add_bounds(Expansion& e, const Bounds& bounds);

Result<int> both(Expansion& e, int a, int b);  // And of two of which either may be absent
// 0 where `allowed`, `low` elsewhere.
Result<int> bias_of(Expansion& e, int allowed, DataType type, double low);
Result<int> sum_of(Expansion& e, int a, int b);  // Add of two of which either may be absent

// rope(x) of [N, S, H, D]: the first `dims` elements of each head turned by angles of cos, sin [N or 1, S, 1, dims /
// 2].
Result<int> add_rotation(Expansion& e, int x, int cos, int sin, std::int64_t dims, bool interleaved);

}  // namespace convoy::network
