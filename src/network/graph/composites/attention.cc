// ONNX's Attention and TensorScatter, and the parts that ONNX Runtime's forms of it are made of as well.
#include "network/graph/composites/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "ops/support.h"

namespace convoy::network {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

// lowest, lowest + 1, ... as s64 of these dims.
Result<int> count_from(Expansion& e, std::int64_t lowest, const Dims& dims) {
  CONVOY_TRY(HostTensor tensor, HostTensor::allocate(TensorDesc::packed(DataType::s64, dims)));
  std::iota(tensor.as<std::int64_t>(), tensor.as<std::int64_t>() + tensor.desc.elements(), lowest);
  return e.constant_value(std::move(tensor));
}

Result<int> softmax(Expansion& e, int x, DataType type) {
  const DataType own = e.type(x);
  CONVOY_TRY(int y, e.cast(x, type));
  CONVOY_TRY(y, e.add("Softmax", {y}, {{"axis", std::int64_t{-1}}}));
  return e.cast(y, own);
}

}  // namespace

Result<int> both(Expansion& e, int a, int b) {
  if (a == kAbsent || b == kAbsent) return a == kAbsent ? b : a;
  return e.add("And", {a, b});
}

Result<int> sum_of(Expansion& e, int a, int b) {
  if (a == kAbsent || b == kAbsent) return a == kAbsent ? b : a;
  return e.add("Add", {a, b});
}

Result<int> bias_of(Expansion& e, int allowed, DataType type, double low) {
  if (allowed == kAbsent) return kAbsent;
  CONVOY_TRY(const int zero, e.scalar(type, 0));
  CONVOY_TRY(const int never, e.scalar(type, low));
  return e.add("Where", {allowed, zero, never});
}

Result<int> heads_apart(Expansion& e, int x, std::int64_t heads, const char* what) {
  const Dims dims = e.dims(x);
  if (heads < 1 || dims.size() != 3 || dims[2] % heads != 0) {
    return e.bad(fmt::format("{} has dims [{}], which are not [N, S, {} heads]", what, to_string(dims), heads));
  }
  CONVOY_TRY(const int apart, e.reshape(x, {dims[0], dims[1], heads, dims[2] / heads}));
  return e.transpose(apart, {0, 2, 1, 3});
}

Result<int> heads_together(Expansion& e, int x) {
  CONVOY_TRY(const int moved, e.transpose(x, {0, 2, 1, 3}));
  const Dims dims = e.dims(moved);
  return e.reshape(moved, {dims[0], dims[1], dims[2] * dims[3]});
}

Result<int> add_bounds(Expansion& e, const Bounds& b) {
  int allowed = kAbsent;
  if (!b.is_causal && b.left < 0 && b.right < 0) return allowed;
  // Where a query is among the keys, against where keys are.
  CONVOY_TRY(int place, count_from(e, b.offset, {b.queries, 1}));
  if (b.offsets != kAbsent) {
    CONVOY_TRY(place, e.add("Add", {place, b.offsets}));
  }
  CONVOY_TRY(const int keys, count_from(e, 0, {1, b.keys}));
  const auto bounded = [&](std::int64_t distance, const char* compare) -> Result<void> {
    CONVOY_TRY(const int by, e.scalar(DataType::s64, static_cast<double>(distance)));
    CONVOY_TRY(const int bound, e.add("Add", {place, by}));
    CONVOY_TRY(const int within, e.add(compare, {keys, bound}));
    CONVOY_TRY(allowed, both(e, allowed, within));
    return {};
  };
  if (b.is_causal) CONVOY_CHECK(bounded(0, "LessOrEqual"));
  if (b.right >= 0) CONVOY_CHECK(bounded(b.right, "LessOrEqual"));
  if (b.left >= 0) CONVOY_CHECK(bounded(-b.left, "GreaterOrEqual"));
  return allowed;
}

Result<AttentionResult> add_attention(Expansion& e, const DotProductAttention& a) {
  const Dims q_dims = e.dims(a.q), k_dims = e.dims(a.k), v_dims = e.dims(a.v);
  const std::int64_t batch = q_dims[0], heads = q_dims[1], queries = q_dims[2], depth = q_dims[3];
  const std::int64_t groups = k_dims[1], keys = k_dims[2], width = v_dims[3];
  if (k_dims[0] != batch || v_dims[0] != batch || v_dims[1] != groups || v_dims[2] != keys || k_dims[3] != depth ||
      groups < 1 || heads % groups != 0) {
    return e.bad(fmt::format("queries, keys and values of dims [{}], [{}] and [{}] (N, heads, S, size) do not fit",
                             to_string(q_dims), to_string(k_dims), to_string(v_dims)));
  }
  AttentionResult r;
  CONVOY_TRY(int q, e.scaled(a.q, a.scale));
  // Heads that share keys are more rows of one product.
  CONVOY_TRY(q, e.reshape(q, {batch, groups, heads / groups * queries, depth}));
  CONVOY_TRY(const int k, e.transpose(a.k, {0, 1, 3, 2}));
  CONVOY_TRY(const int product, e.add("MatMul", {q, k}));
  CONVOY_TRY(r.product, e.reshape(product, {batch, heads, queries, keys}));
  r.capped = r.product;
  if (a.softcap != 0) {
    CONVOY_TRY(const int small, e.scaled(r.product, 1 / a.softcap));
    CONVOY_TRY(const int bounded, e.add("Tanh", {small}));
    CONVOY_TRY(r.capped, e.scaled(bounded, a.softcap));
  }
  CONVOY_TRY(r.biased, sum_of(e, r.capped, a.bias));
  CONVOY_TRY(r.weights, softmax(e, r.biased, a.softmax_type));
  if (a.empty_rows_are_0 && a.bias != kAbsent) {
    CONVOY_TRY(const int axes, e.integers({-1}));
    CONVOY_TRY(const int most, e.add("ReduceMax", {a.bias, axes}));
    CONVOY_TRY(const int empty, e.add("IsInf", {most}, {{"detect_positive", std::int64_t{0}}}));
    CONVOY_TRY(const int zero, e.scalar(e.type(r.weights), 0));
    CONVOY_TRY(r.weights, e.add("Where", {empty, zero, r.weights}));
  }
  CONVOY_TRY(const int rows, e.reshape(r.weights, {batch, groups, heads / groups * queries, keys}));
  CONVOY_TRY(const int y, e.add("MatMul", {rows, a.v}));
  CONVOY_TRY(r.y, e.reshape(y, {batch, heads, queries, width}));
  return r;
}

namespace {

struct OnnxAttention {
  DotProductAttention of;
  bool is_flat = false;  // [N, S, H * D]
  std::int64_t past = 0;
};

constexpr int kMask = 3, kPastKey = 4, kPastValue = 5, kValid = 6;

// q, k and v with heads of their own, k and v behind those of the past.
Result<OnnxAttention> read_operands(Expansion& e) {
  OnnxAttention a;
  const int rank = e.rank(e.input(0));
  a.is_flat = rank == 3;
  for (int i = 0; i < 3; ++i) {
    if (e.rank(e.input(i)) != rank || (rank != 3 && rank != 4)) {
      return e.bad("inputs Q, K and V must all have 3 dims, or all 4");
    }
  }
  CONVOY_TRY(const std::int64_t q_heads, e.node().integer("q_num_heads", 0));
  CONVOY_TRY(const std::int64_t kv_heads, e.node().integer("kv_num_heads", 0));
  if (a.is_flat && (q_heads < 1 || kv_heads < 1)) {
    return e.bad(fmt::format("q_num_heads={}, kv_num_heads={}: inputs of 3 dims need both", q_heads, kv_heads));
  }
  const char* names[] = {"Q", "K", "V"};
  std::array<int, 3> operands{e.input(0), e.input(1), e.input(2)};
  for (std::size_t i = 0; a.is_flat && i < 3; ++i) {
    CONVOY_TRY(operands[i], heads_apart(e, operands[i], i == 0 ? q_heads : kv_heads, names[i]));
  }
  if (e.has(kPastKey) != e.has(kPastValue)) return e.bad("past_key and past_value must be given together");
  if (e.has(kPastKey)) {
    if (e.has(kValid)) return e.bad("nonpad_kv_seqlen and past_key can't be given together");
    a.past = e.rank(e.input(kPastKey)) == 4 ? e.dims(e.input(kPastKey))[2] : 0;
    for (const int i : {1, 2}) {
      const auto operand = static_cast<std::size_t>(i);
      const int past = e.input(i == 1 ? kPastKey : kPastValue);
      CONVOY_TRY(operands[operand], e.add("Concat", {past, operands[operand]}, {{"axis", std::int64_t{2}}}));
    }
  }
  a.of = {.q = operands[0], .k = operands[1], .v = operands[2]};
  return a;
}

// The mask as a bias, as long as the keys: -inf behind its end.
Result<int> bias_of_mask(Expansion& e, DataType type, std::int64_t keys) {
  if (!e.has(kMask)) return kAbsent;
  int bias = e.input(kMask);
  const Dims dims = e.dims(bias);
  if (dims.empty() || dims.size() > 4) return e.bad("attn_mask has dims [" + to_string(dims) + "], it needs 1 to 4");
  if (e.type(bias) == DataType::boolean) {
    CONVOY_TRY(bias, bias_of(e, bias, type, kNever));
  } else {
    CONVOY_TRY(bias, e.cast(bias, type));
  }
  const std::int64_t missing = keys - dims.back();
  if (missing <= 0 || dims.back() == 1) return bias;
  std::vector<std::int64_t> pads(2 * dims.size(), 0);
  pads.back() = missing;
  CONVOY_TRY(const int amounts, e.integers(pads));
  CONVOY_TRY(const int never, e.scalar(type, kNever));
  return e.add("Pad", {bias, amounts, never});
}

Result<int> bias_of(Expansion& e, const OnnxAttention& a) {
  const DataType type = e.type(a.of.q);
  Bounds bounds{.queries = e.dims(a.of.q)[2], .keys = e.dims(a.of.k)[2], .offset = a.past};
  CONVOY_TRY(const std::int64_t causal, e.node().integer("is_causal", 0));
  CONVOY_TRY(bounds.left, e.node().integer("left_window_size", -1));
  CONVOY_TRY(bounds.right, e.node().integer("right_window_size", -1));
  if (bounds.left < -1 || bounds.right < -1) {
    return e.bad(fmt::format("left_window_size={}, right_window_size={}: -1 is the least", bounds.left, bounds.right));
  }
  bounds.is_causal = causal != 0;
  int valid = kAbsent;  // keys that are there
  if (e.has(kValid)) {
    const std::int64_t batch = e.dims(a.of.q)[0];
    CONVOY_CHECK(e.check_dims(kValid, "nonpad_kv_seqlen", {batch}));
    CONVOY_TRY(const int lengths, e.reshape(e.input(kValid), {batch, 1, 1, 1}));
    CONVOY_TRY(const int queries, e.scalar(DataType::s64, static_cast<double>(bounds.queries)));
    CONVOY_TRY(bounds.offsets, e.add("Sub", {lengths, queries}));
    CONVOY_TRY(const int keys, count_from(e, 0, {1, bounds.keys}));
    CONVOY_TRY(valid, e.add("Less", {keys, lengths}));
  }
  CONVOY_TRY(int allowed, add_bounds(e, bounds));
  CONVOY_TRY(allowed, both(e, allowed, valid));
  CONVOY_TRY(const int bias, bias_of_mask(e, type, bounds.keys));
  CONVOY_TRY(const int bound, bias_of(e, allowed, type, kNever));
  return sum_of(e, bias, bound);
}

Result<void> attention(Expansion& e) {
  CONVOY_CHECK(e.check_inputs(3, e.node().opset < 24 ? 6 : 7));
  CONVOY_TRY(OnnxAttention a, read_operands(e));
  const std::int64_t size = e.dims(a.of.q)[3];
  CONVOY_TRY(a.of.scale, e.node().real("scale", size > 0 ? 1 / std::sqrt(static_cast<double>(size)) : 1));
  CONVOY_TRY(a.of.softcap, e.node().real("softcap", 0));
  if (a.of.softcap < 0) return e.bad(fmt::format("softcap={} is negative", a.of.softcap));
  CONVOY_TRY(a.of.bias, bias_of(e, a));
  a.of.empty_rows_are_0 = true;
  a.of.softmax_type = e.type(a.of.q);
  if (e.node().has("softmax_precision")) {
    CONVOY_TRY(const std::int64_t precision, e.node().integer("softmax_precision", 0));
    CONVOY_TRY(a.of.softmax_type, ops::data_type_of_onnx(e.node(), precision, "softmax_precision"));
    if (!is_floating(a.of.softmax_type)) return e.bad(fmt::format("softmax_precision={} is no float", precision));
  }
  CONVOY_TRY(const AttentionResult r, add_attention(e, a.of));
  int y = r.y;
  if (a.is_flat) {
    CONVOY_TRY(y, heads_together(e, y));
  }
  e.give(0, y);
  e.give(1, a.of.k);
  e.give(2, a.of.v);
  CONVOY_TRY(const std::int64_t mode, e.node().integer("qk_matmul_output_mode", 0));
  if (mode < 0 || mode > 3) return e.bad(fmt::format("qk_matmul_output_mode={} is not 0 to 3", mode));
  e.give(3, std::array{r.product, r.capped, r.biased, r.weights}[static_cast<std::size_t>(mode)]);
  return {};
}

// Attention's cache with an update put at `write_indices`, for each sample, along an axis.
Result<void> tensor_scatter(Expansion& e) {
  CONVOY_CHECK(e.check_inputs(2, 3));
  CONVOY_TRY(const std::string mode, e.node().text("mode", "linear"));
  if (mode != "linear" && mode != "circular") return e.bad("mode='" + mode + "' is not linear or circular");
  const Dims dims = e.dims(e.input(1)), cache = e.dims(e.input(0));
  CONVOY_TRY(std::int64_t axis, e.node().integer("axis", -2));
  const auto rank = static_cast<std::int64_t>(dims.size());
  if (axis < -rank || axis >= rank) return e.bad(fmt::format("axis={} is out of range for {} dims", axis, rank));
  if (axis < 0) axis += rank;
  if (axis == 0) return e.bad("axis=0 is that of the samples");
  Dims wanted = cache;
  if (cache.size() == dims.size()) wanted[axis] = std::min(dims[axis], cache[axis]);
  CONVOY_CHECK(e.check_dims(1, "update", wanted));
  Dims along(dims.size(), 1), samples(dims.size(), 1);
  along[axis] = dims[axis];
  samples[0] = dims[0];
  CONVOY_TRY(int places, count_from(e, 0, along));
  if (e.has(2)) {
    CONVOY_CHECK(e.check_dims(2, "write_indices", {dims[0]}));
    CONVOY_TRY(const int starts, e.reshape(e.input(2), samples));
    CONVOY_TRY(places, e.add("Add", {places, starts}));
  }
  if (mode == "circular") {
    CONVOY_TRY(const int length, e.scalar(DataType::s64, static_cast<double>(cache[axis])));
    CONVOY_TRY(places, e.add("Mod", {places, length}));
  }
  CONVOY_TRY(const int shape, e.integers(dims));
  CONVOY_TRY(places, e.add("Expand", {places, shape}));
  CONVOY_TRY(const int y, e.add("ScatterElements", {e.input(0), places, e.input(1)}, {{"axis", axis}}));
  e.give(0, y);
  return {};
}

constexpr std::array kAttentionComposites{Composite{"Attention", attention, ""},
                                          Composite{"TensorScatter", tensor_scatter, ""}};

}  // namespace

std::span<const Composite> attention_composites() { return kAttentionComposites; }

}  // namespace convoy::network
