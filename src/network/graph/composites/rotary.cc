// RotaryEmbedding of ONNX and of ONNX Runtime: pairs of elements turned by an angle that the position says.
#include <fmt/format.h>

#include <array>

#include "network/graph/composites/attention.h"

namespace convoy::network {

Result<int> add_rotation(Expansion& e, int x, int cos, int sin, std::int64_t dims, bool interleaved) {
  const Dims whole = e.dims(x);
  const std::int64_t size = whole[3], half = dims / 2;
  if (dims < 2 || dims % 2 != 0 || dims > size) {
    return e.bad(fmt::format("rotary_embedding_dim={} must be even and at most {}", dims, size));
  }
  for (const int table : {cos, sin}) {
    if (e.dims(table).back() != half) {
      return e.bad(fmt::format("the caches of cosines and sines have {} angles, half of {} are needed",
                               e.dims(table).back(), dims));
    }
  }
  CONVOY_TRY(const int turned, e.slice(x, 3, 0, dims));
  int a = kAbsent, b = kAbsent;
  if (interleaved) {
    CONVOY_TRY(const int pairs, e.reshape(turned, {whole[0], whole[1], whole[2], half, 2}));
    CONVOY_TRY(a, e.slice(pairs, 4, 0, 1));
    CONVOY_TRY(b, e.slice(pairs, 4, 1, 2));
    CONVOY_TRY(a, e.reshape(a, {whole[0], whole[1], whole[2], half}));
    CONVOY_TRY(b, e.reshape(b, {whole[0], whole[1], whole[2], half}));
  } else {
    CONVOY_TRY(a, e.slice(turned, 3, 0, half));
    CONVOY_TRY(b, e.slice(turned, 3, half, dims));
  }
  CONVOY_TRY(const int ac, e.add("Mul", {a, cos}));
  CONVOY_TRY(const int bs, e.add("Mul", {b, sin}));
  CONVOY_TRY(const int as, e.add("Mul", {a, sin}));
  CONVOY_TRY(const int bc, e.add("Mul", {b, cos}));
  CONVOY_TRY(int real, e.add("Sub", {ac, bs}));
  CONVOY_TRY(int imaginary, e.add("Add", {as, bc}));
  int y = kAbsent;
  if (interleaved) {
    const Dims pair{whole[0], whole[1], whole[2], half, 1};
    CONVOY_TRY(real, e.reshape(real, pair));
    CONVOY_TRY(imaginary, e.reshape(imaginary, pair));
    CONVOY_TRY(y, e.add("Concat", {real, imaginary}, {{"axis", std::int64_t{4}}}));
    CONVOY_TRY(y, e.reshape(y, {whole[0], whole[1], whole[2], dims}));
  } else {
    CONVOY_TRY(y, e.add("Concat", {real, imaginary}, {{"axis", std::int64_t{3}}}));
  }
  if (dims == size) return y;
  CONVOY_TRY(const int rest, e.slice(x, 3, dims, size));
  return e.add("Concat", {y, rest}, {{"axis", std::int64_t{3}}});
}

namespace {

// A cache [N or 1, S, angles], or one of all positions with those that are wanted, as [N or 1, S, 1, angles].
Result<int> angles(Expansion& e, int cache, int positions) {
  int found = cache;
  if (positions != kAbsent) {
    CONVOY_TRY(found, e.add("Gather", {cache, positions}));
  }
  const Dims dims = e.dims(found);
  if (dims.size() != 3) {
    return e.bad(
        fmt::format("a cache has dims [{}]; [N, S, angles] are needed, or [positions, angles] with position_ids",
                    to_string(e.dims(cache))));
  }
  return e.reshape(found, {dims[0], dims[1], 1, dims[2]});
}

// x [N, S, H * D] or [N, H, S, D]
Result<void> rotate(Expansion& e, int cos_input, int sin_input, int positions) {
  CONVOY_TRY(const std::int64_t heads, e.node().integer("num_heads", 0));
  CONVOY_TRY(std::int64_t dims, e.node().integer("rotary_embedding_dim", 0));
  CONVOY_TRY(const std::int64_t interleaved, e.node().integer("interleaved", 0));
  const Dims whole = e.dims(e.input(0));
  int x = e.input(0);
  CONVOY_TRY(const int cos, angles(e, e.input(cos_input), positions));
  CONVOY_TRY(const int sin, angles(e, e.input(sin_input), positions));
  if (whole.size() == 4) {
    CONVOY_TRY(x, e.transpose(x, {0, 2, 1, 3}));
  } else if (whole.size() == 3) {
    // Without a count of heads, ONNX Runtime's has it from the caches, which then turn whole heads.
    const std::int64_t size = heads > 0 ? whole[2] / heads : 2 * e.dims(cos)[3];
    if (size < 1 || whole[2] % size != 0 || (heads > 0 && whole[2] % heads != 0)) {
      return e.bad(fmt::format("num_heads={} does not divide the {} elements of input 0's last dim", heads, whole[2]));
    }
    CONVOY_TRY(x, e.reshape(x, {whole[0], whole[1], whole[2] / size, size}));
  } else {
    return e.bad("input 0 has dims [" + to_string(whole) + "]; 3 or 4 are needed");
  }
  if (dims == 0) dims = e.dims(x)[3];
  CONVOY_TRY(int y, add_rotation(e, x, cos, sin, dims, interleaved != 0));
  if (whole.size() == 4) {
    CONVOY_TRY(y, e.transpose(y, {0, 2, 1, 3}));
  } else {
    CONVOY_TRY(y, e.reshape(y, whole));
  }
  e.give(0, y);
  return {};
}

Result<void> rotary_embedding(Expansion& e) {
  CONVOY_CHECK(e.check_inputs(3, 4));
  return rotate(e, 1, 2, e.input(3));
}

// Positions [N, S], or one, where the first word stands.
Result<void> ort_rotary_embedding(Expansion& e) {
  CONVOY_CHECK(e.check_inputs(4, 4));
  CONVOY_TRY(const std::int64_t packed, e.node().integer("is_packed_batching", 0));
  if (packed != 0) return e.bad("is_packed_batching=1 is not supported");
  const Dims whole = e.dims(e.input(0));
  if (whole.size() != 3 && whole.size() != 4) return e.bad("input 0 must have 3 or 4 dims");
  const std::int64_t batch = whole[0], length = whole[whole.size() - 2];
  int positions = e.input(1);
  if (e.rank(positions) == 1) {
    CONVOY_CHECK(e.check_dims(1, "position_ids", {1}));
    std::vector<std::int64_t> count(static_cast<std::size_t>(length));
    for (std::size_t i = 0; i < count.size(); ++i) count[i] = static_cast<std::int64_t>(i);
    CONVOY_TRY(const int steps, e.integers(count));
    CONVOY_TRY(positions, e.add("Add", {steps, positions}));
    CONVOY_TRY(positions, e.reshape(positions, {1, length}));
  } else {
    CONVOY_CHECK(e.check_dims(1, "position_ids", {batch, length}));
  }
  return rotate(e, 2, 3, positions);
}

constexpr std::array kRotaryComposites{Composite{"RotaryEmbedding", rotary_embedding, ""},
                                       Composite{"RotaryEmbedding", ort_rotary_embedding}};

}  // namespace

std::span<const Composite> rotary_composites() { return kRotaryComposites; }

}  // namespace convoy::network
