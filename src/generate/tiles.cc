// Tiles in shared memory.
#include <fmt/format.h>

#include "generate/writer.h"

namespace convoy::generate {

// A block moves a tile of the first load through shared memory, so that both sides are touched in runs.
void Writer::transpose() {
  const Access& from = space_.loads[static_cast<std::size_t>(schedule_.tiled)];
  const std::string type = element_name(from.type);
  const int tile = schedule_.tile, along = kept_ - 1, across = schedule_.across,
            threads = static_cast<int>(kernel_.block);
  kernel_.schedule = fmt::format("transpose{{tile={}}}", tile);
  text_ += fmt::format("  __shared__ {} tile[{}][{}];\n", type, tile,
                       tile + static_cast<int>(4 / size_of(from.type)) + (size_of(from.type) > 4 ? 1 : 0));
  const auto tiles = [&](int dim) { return (space_.size(dim) + tile - 1) / tile; };
  text_ += fmt::format(
      "  const I a0 = static_cast<I>(blockIdx.x % {0}u) * {2}, b0 = static_cast<I>(blockIdx.x / {0}u % {1}u) * {2};\n"
      "  U rest = blockIdx.x / {3}u;\n",
      tiles(along), tiles(across), tile, tiles(along) * tiles(across));
  outer_positions(along, across);
  const auto each = [&](const char* fast, const char* slow, int fast_dim, int slow_dim) {
    text_ += fmt::format(
        "  for (int e = threadIdx.x; e < {0}; e += {1}) {{\n    const int {2} = e % {3}, {4} = e / {3};\n"
        "    const I p{5} = {2}0 + {2}, p{6} = {4}0 + {4};\n"
        "    if (p{5} >= static_cast<I>({7}) || p{6} >= static_cast<I>({8})) continue;\n",
        tile * tile, threads, fast, tile, slow, fast_dim, slow_dim, space_.size(fast_dim), space_.size(slow_dim));
  };
  each("b", "a", across, along);
  text_ += fmt::format("    tile[a][b] = x{}[{}];\n  }}\n  __syncthreads();\n",
                       computation_.loads[static_cast<std::size_t>(schedule_.tiled)].input, place(from).offset);
  each("a", "b", along, across);
  text_ += fmt::format("    const C v{}[1] = {{value_of<C>(tile[a][b])}};\n", schedule_.tiled);
  std::vector<const Body*> bodies;
  for (const Body& body : results_) bodies.push_back(&body);
  for (const int value : needed(bodies, false, {schedule_.tiled})) load(value, "    ");
  store(0, "    ");
  text_ += "  }\n";
}

void Writer::outer_positions(int one, int other) {
  std::vector<int> dims;
  for (int d = kept_ - 1; d >= 0; --d) {
    if (d != one && d != other) dims.push_back(d);
  }
  for (const int d : dims) {
    text_ += d == dims.back() ? fmt::format("  const I p{} = static_cast<I>(rest);\n", d)
                              : fmt::format(
                                    "  const I p{0} = static_cast<I>(rest % static_cast<U>({1}));\n"
                                    "  rest /= static_cast<U>({1});\n",
                                    d, space_.size(d));
  }
}

// 16 x 16 threads; thread (y, x) has rows y, y + 16 .. and columns x, x + 16 .. of the tile.
void Writer::product() {
  constexpr int kDeep = 16;  // folded positions at a time
  const int tile = schedule_.tile, each = tile / 16, m = schedule_.product_rows, n = schedule_.columns, k = kept_;
  kernel_.schedule = fmt::format("product{{tile={}}}", tile);
  const auto tiles = [&](int dim) { return (space_.size(dim) + tile - 1) / tile; };
  text_ += fmt::format(
      "  __shared__ C left[{0}][{1}], right[{0}][{1}];\n"
      "  const int x = threadIdx.x % 16, y = threadIdx.x / 16;\n"
      "  const I n0 = static_cast<I>(blockIdx.x % {2}u) * {4}, m0 = static_cast<I>(blockIdx.x / {2}u % {3}u) * {4};\n"
      "  U rest = blockIdx.x / {5}u;\n",
      kDeep, tile + 1, tiles(n), tiles(m), tile, tiles(n) * tiles(m));
  outer_positions(m, n);
  text_ += fmt::format("  C sums[{0}][{0}];\n  for (int i = 0; i < {0}; ++i) fill<{0}>(sums[i], {1});\n", each,
                       starts_[0].of([](int) { return std::string(); }));
  text_ += fmt::format("  for (I k0 = 0; k0 < static_cast<I>({}); k0 += {}) {{\n", space_.size(k), kDeep);
  // A side is read along what is closest together there.
  const auto side = [&](const char* to, int load, int dim, const char* first) {
    const Access& access = space_.loads[static_cast<std::size_t>(load)];
    const bool deep_first = access.strides[static_cast<std::size_t>(k)] == 1;
    const std::string fast = fmt::format("e % {}", deep_first ? kDeep : tile),
                      slow = fmt::format("e / {}", deep_first ? kDeep : tile);
    text_ += fmt::format(
        "    for (int e = threadIdx.x; e < {0}; e += 256) {{\n      const int d = {1}, i = {2};\n"
        "      const I p{3} = k0 + d, p{4} = {5} + i;\n"
        "      {6}[d][i] = p{3} < static_cast<I>({7}) && p{4} < static_cast<I>({8}) ? value_of<C>(x{9}[{10}]) : "
        "static_cast<C>(0);\n    }}\n",
        kDeep * tile, deep_first ? fast : slow, deep_first ? slow : fast, k, dim, first, to, space_.size(k),
        space_.size(dim), computation_.loads[static_cast<std::size_t>(load)].input, place(access).offset);
  };
  side("left", schedule_.left, m, "m0");
  side("right", schedule_.right, n, "n0");
  text_ += fmt::format(
      "    __syncthreads();\n    _Pragma(\"unroll\") for (int d = 0; d < {0}; ++d) {{\n      C a[{1}], b[{1}];\n"
      "      _Pragma(\"unroll\") for (int i = 0; i < {1}; ++i) a[i] = left[d][y + 16 * i];\n"
      "      _Pragma(\"unroll\") for (int i = 0; i < {1}; ++i) b[i] = right[d][x + 16 * i];\n"
      "      _Pragma(\"unroll\") for (int i = 0; i < {1}; ++i) {{\n"
      "        _Pragma(\"unroll\") for (int j = 0; j < {1}; ++j) sums[i][j] += a[i] * b[j];\n      }}\n"
      "    }}\n    __syncthreads();\n  }}\n",
      kDeep, each);
  text_ += fmt::format(
      "  _Pragma(\"unroll\") for (int i = 0; i < {0}; ++i) {{\n    _Pragma(\"unroll\") for (int j = 0; j < {0}; ++j) "
      "{{\n"
      "      const I p{1} = m0 + y + 16 * i, p{2} = n0 + x + 16 * j;\n"
      "      if (p{1} >= static_cast<I>({3}) || p{2} >= static_cast<I>({4})) continue;\n"
      "      const C s0[1] = {{sums[i][j]}};\n",
      each, m, n, space_.size(m), space_.size(n));
  for (const int value : needed({&results_[0]}, false)) load(value, "      ");
  store(0, "      ");
  text_ += "    }\n  }\n";
}

}  // namespace convoy::generate
