// ONNX Runtime's matrix products with transposes, factors and activations.
#include <algorithm>
#include <array>
#include <numeric>

#include "network/graph/composites/activation.h"

namespace convoy::network {
namespace {

// `batch`: the first dim is the matrix's rows, and the dims behind it are the batch. `swapped`: rows and columns change
// places, after that.
Result<int> arranged(Expansion& e, int x, bool batch, bool swapped) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(e.rank(x)));
  std::iota(order.begin(), order.end(), 0);
  if (order.size() < 2 || (!batch && !swapped)) return x;
  if (batch) std::rotate(order.begin(), order.begin() + 1, order.end() - 1);
  if (swapped) std::swap(order[order.size() - 1], order[order.size() - 2]);
  return e.transpose(x, order);
}

Result<int> fused_product(Expansion& e) {
  CONVOY_CHECK(e.check_inputs(2, 2));
  const auto flag = [&](const char* name) -> Result<bool> {
    CONVOY_TRY(const std::int64_t value, e.node().integer(name, 0));
    return value != 0;
  };
  CONVOY_TRY(const bool batch_a, flag("transBatchA"));
  CONVOY_TRY(const bool batch_b, flag("transBatchB"));
  CONVOY_TRY(const bool swap_a, flag("transA"));
  CONVOY_TRY(const bool swap_b, flag("transB"));
  CONVOY_TRY(const double alpha, e.node().real("alpha", 1));
  CONVOY_TRY(const int a, arranged(e, e.input(0), batch_a, swap_a));
  CONVOY_TRY(int b, arranged(e, e.input(1), batch_b, swap_b));
  // Of a constant the factor becomes part.
  const bool is_constant = e.constant(e.input(1)).has_value();
  if (is_constant) {
    CONVOY_TRY(b, e.scaled(b, alpha));
  }
  CONVOY_TRY(const int y, e.add("MatMul", {a, b}));
  return is_constant ? Result<int>(y) : e.scaled(y, alpha);
}

Result<void> fused_matmul(Expansion& e) {
  CONVOY_TRY(const int product, fused_product(e));
  CONVOY_TRY(const int y, add_activation(e, product));
  e.give(0, y);
  return {};
}

Result<void> fused_gemm(Expansion& e) {
  CONVOY_CHECK(e.check_inputs(2, 3));
  std::vector<int> inputs{e.input(0), e.input(1)};
  if (e.has(2)) inputs.push_back(e.input(2));
  Expansion::Attributes attributes;
  for (const char* name : {"transA", "transB", "alpha", "beta"}) {
    if (e.node().has(name)) attributes.emplace(name, e.node().attributes.at(name));
  }
  CONVOY_TRY(int y, e.add("Gemm", inputs, attributes));
  CONVOY_TRY(y, add_activation(e, y));
  e.give(0, y);
  return {};
}

Result<void> gemm_fast_gelu(Expansion& e) {
  CONVOY_CHECK(e.check_inputs(2, 3));
  CONVOY_TRY(int y, e.add("MatMul", {e.input(0), e.input(1)}));
  if (e.has(2)) {
    CONVOY_TRY(y, e.add("Add", {y, e.input(2)}));
  }
  CONVOY_TRY(y, add_gelu(e, y, true));
  e.give(0, y);
  return {};
}

constexpr std::array kMatmulComposites{
    Composite{"FusedGemm", fused_gemm},
    Composite{"FusedMatMul", fused_matmul},
    Composite{"FusedMatMulActivation", fused_matmul},
    Composite{"GemmFastGelu", gemm_fast_gelu},
    Composite{"TransposeMatMul", fused_matmul},
};

}  // namespace

std::span<const Composite> matmul_composites() { return kMatmulComposites; }

}  // namespace convoy::network
