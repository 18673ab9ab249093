// ONNX Runtime's attention: with the projections of queries, keys and values (Attention, QAttention), or behind them
// (MultiHeadAttention).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "network/graph/composites/attention.h"

namespace convoy::network {
namespace {

// What masks add to the scores: `filter` where a key is masked.
//   [N, T] or [N, S, T]  0 masks
//   [N]                  how many keys there are
//   [2N]                 likewise, and then how many are left out before
Result<int> bias_of_mask(Expansion& e, int mask, std::int64_t batch, std::int64_t keys, DataType type, double filter) {
  if (mask == kAbsent) return kAbsent;
  const Dims dims = e.dims(mask);
  CONVOY_TRY(const int zero, e.scalar(e.type(mask), 0));
  if (dims.size() == 2 || dims.size() == 3) {
    CONVOY_TRY(int allowed, e.add("Greater", {mask, zero}));
    CONVOY_TRY(allowed, e.reshape(allowed, dims.size() == 2 ? Dims{dims[0], 1, 1, dims[1]}
                                                            : Dims{dims[0], 1, dims[1], dims[2]}));
    return bias_of(e, allowed, type, filter);
  }
  if (dims != Dims{batch} && dims != Dims{2 * batch}) {
    return e.bad(
        fmt::format("a mask of dims [{}] is not supported: [N, T], [N, S, T], [N] and [2 N] are", to_string(dims)));
  }
  CONVOY_TRY(HostTensor count, HostTensor::allocate(TensorDesc::packed(e.type(mask), {1, 1, 1, keys})));
  for (std::int64_t i = 0; i < keys; ++i) {
    store_from_double(count.desc.type, count.data.get(), i, static_cast<double>(i));
  }
  const int places = e.constant_value(std::move(count));
  CONVOY_TRY(const int ends, e.slice(mask, 0, 0, batch));
  CONVOY_TRY(const int ends_apart, e.reshape(ends, {batch, 1, 1, 1}));
  CONVOY_TRY(int allowed, e.add("Less", {places, ends_apart}));
  if (dims[0] != batch) {
    CONVOY_TRY(const int starts, e.slice(mask, 0, batch, 2 * batch));
    CONVOY_TRY(const int starts_apart, e.reshape(starts, {batch, 1, 1, 1}));
    CONVOY_TRY(const int begun, e.add("GreaterOrEqual", {places, starts_apart}));
    CONVOY_TRY(allowed, both(e, allowed, begun));
  }
  return bias_of(e, allowed, type, filter);
}

struct Operands {
  int q = kAbsent, k = kAbsent, v = kAbsent;  // [N, H, S, D]
  int mask = kAbsent, bias = kAbsent;
  std::int64_t past = 0;  // of the keys
};

// The attributes that all have, and the result as [N, S, H * D].
Result<void> give_attention(Expansion& e, const Operands& of) {
  const Dims q = e.dims(of.q), k = e.dims(of.k);
  const DataType type = e.type(of.q);
  CONVOY_TRY(const double filter, e.node().real("mask_filter_value", -10000));
  CONVOY_TRY(const std::int64_t causal, e.node().integer("unidirectional", 0));
  CONVOY_TRY(double scale, e.node().real("scale", 0));
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, q[3])));
  CONVOY_TRY(const int allowed,
             add_bounds(e, {.queries = q[2], .keys = k[2], .offset = of.past, .is_causal = causal != 0}));
  CONVOY_TRY(const int bound, bias_of(e, allowed, type, std::numeric_limits<float>::lowest()));
  CONVOY_TRY(const int masked, bias_of_mask(e, of.mask, q[0], k[2], type, filter));
  CONVOY_TRY(int bias, sum_of(e, masked, bound));
  CONVOY_TRY(bias, sum_of(e, bias, of.bias));
  CONVOY_TRY(const AttentionResult r,
             add_attention(e, {.q = of.q, .k = of.k, .v = of.v, .scale = scale, .bias = bias, .softmax_type = type}));
  CONVOY_TRY(const int y, heads_together(e, r.y));
  e.give(0, y);
  return {};
}

Result<int> behind_past(Expansion& e, int past, int now) {
  if (past == kAbsent) return now;
  return e.add("Concat", {past, now}, {{"axis", std::int64_t{2}}});
}

// Of queries, keys and values side by side, [N, S, sizes]; past is [2, N, H, P, D], and so is what is present.
Result<void> of_projected(Expansion& e, int projected, const std::vector<std::int64_t>& sizes, int mask, int past,
                          int bias) {
  CONVOY_TRY(const std::int64_t heads, e.node().integer("num_heads", 0));
  for (const char* flag : {"do_rotary", "past_present_share_buffer"}) {
    CONVOY_TRY(const std::int64_t value, e.node().integer(flag, 0));
    if (value != 0) return e.bad(std::string(flag) + "=1 is not supported");
  }
  CONVOY_TRY(const int split, e.integers(sizes));
  CONVOY_TRY(const std::vector<int> parts, e.add_many("Split", {projected, split}, {{"axis", std::int64_t{2}}}, 3));
  Operands of{.mask = mask, .bias = bias};
  CONVOY_TRY(of.q, heads_apart(e, parts[0], heads, "queries"));
  CONVOY_TRY(of.k, heads_apart(e, parts[1], heads, "keys"));
  CONVOY_TRY(of.v, heads_apart(e, parts[2], heads, "values"));
  if (past != kAbsent) {
    const Dims dims = e.dims(past);
    if (dims.size() != 5 || dims[0] != 2)
      return e.bad("past has dims [" + to_string(dims) + "], [2, N, H, P, D] is needed");
    of.past = dims[3];
    const Dims one(dims.begin() + 1, dims.end());
    std::array<int, 2> pasts{};
    for (int i = 0; i < 2; ++i) {
      CONVOY_TRY(const int half, e.slice(past, 0, i, i + 1));
      CONVOY_TRY(pasts[static_cast<std::size_t>(i)], e.reshape(half, one));
    }
    CONVOY_TRY(of.k, behind_past(e, pasts[0], of.k));
    CONVOY_TRY(of.v, behind_past(e, pasts[1], of.v));
  }
  if (e.wants(1)) {
    Dims stacked = e.dims(of.k);
    stacked.insert(stacked.begin(), 1);
    if (e.dims(of.v) != e.dims(of.k)) return e.bad("keys and values of different sizes have no common 'present'");
    CONVOY_TRY(const int k, e.reshape(of.k, stacked));
    CONVOY_TRY(const int v, e.reshape(of.v, stacked));
    CONVOY_TRY(const int present, e.add("Concat", {k, v}, {{"axis", std::int64_t{0}}}));
    e.give(1, present);
  }
  return give_attention(e, of);
}

Result<void> projected_attention(Expansion& e) {
  constexpr int kBias = 2, kMask = 3, kPast = 4, kAttentionBias = 5;
  CONVOY_CHECK(e.check_inputs(2, 7));
  CONVOY_CHECK(e.check_dims(0, "input", {-1, -1, -1}));
  CONVOY_CHECK(e.check_dims(1, "weights", {e.dims(e.input(0))[2], -1}));
  const std::int64_t width = e.dims(e.input(1))[1];
  CONVOY_TRY(const std::vector<std::int64_t> sizes, e.node().integers("qkv_hidden_sizes", Dims(3, width / 3)));
  const auto fits = [&](std::int64_t size) { return size >= 0 && size <= width; };
  if (sizes.size() != 3 || !std::ranges::all_of(sizes, fits) ||
      std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) != width) {
    return e.bad(
        fmt::format("qkv_hidden_sizes=[{}] do not sum up to the {} columns of weights", to_string(sizes), width));
  }
  CONVOY_TRY(int projected, e.add("MatMul", {e.input(0), e.input(1)}));
  CONVOY_TRY(projected, sum_of(e, projected, e.input(kBias)));
  return of_projected(e, projected, sizes, e.input(kMask), e.input(kPast), e.input(kAttentionBias));
}

// The projection is a product of bytes.
Result<void> qattention(Expansion& e) {
  constexpr int kBias = 2, kInputScale = 3, kWeightScale = 4, kMask = 5, kInputZero = 6, kWeightZero = 7, kPast = 8;
  CONVOY_CHECK(e.check_inputs(5, 9));
  CONVOY_CHECK(e.check_dims(0, "input", {-1, -1, -1}));
  CONVOY_CHECK(e.check_dims(1, "weight", {e.dims(e.input(0))[2], -1}));
  const std::int64_t width = e.dims(e.input(1))[1];
  if (width % 3 != 0) return e.bad(fmt::format("weight has {} columns, not three times as many as heads have", width));
  CONVOY_TRY(const int scale, e.add("Mul", {e.input(kInputScale), e.input(kWeightScale)}));
  CONVOY_TRY(int projected,
             e.add("MatMulInteger", {e.input(0), e.input(1), e.input(kInputZero), e.input(kWeightZero)}));
  CONVOY_TRY(projected, e.cast(projected, DataType::f32));
  CONVOY_TRY(projected, e.add("Mul", {projected, scale}));
  CONVOY_TRY(projected, e.add("Add", {projected, e.input(kBias)}));
  return of_projected(e, projected, Dims(3, width / 3), e.input(kMask), e.input(kPast), kAbsent);
}

// Part `index` of `count` along dim 3 of [N, S, H, count, D], as [N, H, S, D].
Result<int> packed_part(Expansion& e, int packed, std::int64_t index) {
  const Dims dims = e.dims(packed);
  CONVOY_TRY(const int part, e.slice(packed, 3, index, index + 1));
  CONVOY_TRY(const int apart, e.reshape(part, {dims[0], dims[1], dims[2], dims[4]}));
  return e.transpose(apart, {0, 2, 1, 3});
}

// Queries [N, S, H * D], keys and values likewise or with heads apart; or packed, together.
Result<void> multi_head_attention(Expansion& e) {
  constexpr int kBias = 3, kMask = 4, kAttentionBias = 5, kPastKey = 6, kPastValue = 7;
  CONVOY_CHECK(e.check_inputs(1, 8));
  CONVOY_TRY(const std::int64_t heads, e.node().integer("num_heads", 0));
  Operands of{.mask = e.input(kMask), .bias = e.input(kAttentionBias)};
  std::array<int, 3> parts{e.input(0), e.input(1), e.input(2)};
  const char* names[] = {"query", "key", "value"};
  if (e.rank(parts[0]) == 5) {  // all three packed
    CONVOY_CHECK(e.check_dims(0, "query", {-1, -1, heads, 3, -1}));
    if (e.has(kBias)) return e.bad("a bias of packed queries, keys and values is not supported");
    for (std::int64_t i = 0; i < 3; ++i) {
      CONVOY_TRY(parts[static_cast<std::size_t>(i)], packed_part(e, e.input(0), i));
    }
  } else {
    if (parts[1] == kAbsent) return e.bad("input 1 (key) is absent");
    const bool is_packed = e.rank(parts[1]) == 5;
    if (is_packed) {
      CONVOY_CHECK(e.check_dims(1, "key", {-1, -1, heads, 2, -1}));
      if (e.has(kBias)) return e.bad("a bias of packed keys and values is not supported");
      const int packed = parts[1];
      CONVOY_TRY(parts[1], packed_part(e, packed, 0));
      CONVOY_TRY(parts[2], packed_part(e, packed, 1));
    } else if (parts[2] == kAbsent) {
      return e.bad("input 2 (value) is absent");
    }
    std::int64_t from = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      if (e.rank(parts[i]) == 4) continue;  // heads are apart, and no bias is added
      if (e.rank(parts[i]) != 3) return e.bad(fmt::format("input {} ({}) must have 3 dims", i, names[i]));
      const std::int64_t width = e.dims(parts[i])[2];
      if (e.has(kBias)) {
        CONVOY_TRY(const int bias, e.slice(e.input(kBias), 0, from, from + width));
        CONVOY_TRY(parts[i], e.add("Add", {parts[i], bias}));
        from += width;
      }
      CONVOY_TRY(parts[i], heads_apart(e, parts[i], heads, names[i]));
    }
  }
  if (e.has(kPastKey) != e.has(kPastValue)) return e.bad("past_key and past_value must be given together");
  if (e.has(kPastKey)) {
    CONVOY_CHECK(e.check_dims(kPastKey, "past_key", {-1, heads, -1, -1}));
    of.past = e.dims(e.input(kPastKey))[2];
  }
  of.q = parts[0];
  CONVOY_TRY(of.k, behind_past(e, e.input(kPastKey), parts[1]));
  CONVOY_TRY(of.v, behind_past(e, e.input(kPastValue), parts[2]));
  e.give(1, of.k);
  e.give(2, of.v);
  return give_attention(e, of);
}

constexpr std::array kOrtAttentionComposites{
    Composite{"Attention", projected_attention},
    Composite{"MultiHeadAttention", multi_head_attention},
    Composite{"QAttention", qattention},
};

}  // namespace

std::span<const Composite> ort_attention_composites() { return kOrtAttentionComposites; }

}  // namespace convoy::network
