// The table of operators: the families, whose files list their operators.
#include <algorithm>
#include <map>

#include "ops/operator_row.h"
#include "ops/support.h"

// clang-format off
#define CONVOY_FAMILIES(F) \
  F(activation) F(along_axis) F(arithmetic) F(audio) F(average_pool) F(batch_normalization) F(cast) \
  F(center_crop_pad) F(clip) F(col2im) F(comparison) F(compress) F(constant) F(deform_conv) \
  F(depth_to_space) F(dft) F(einsum) F(gather) F(global_pool) F(grid_sample) F(identity) F(lrn) F(matmul) \
  F(matmul_integer) F(matrix) F(max_pool) F(max_roi_pool) F(movement) F(non_max_suppression) F(non_zero) \
  F(normalization) F(normalization_over_axes) F(one_hot) F(pad) F(power) F(prelu) F(qgemm) F(qlinear_concat) \
  F(qlinear_elementwise) F(qlinear_pool) F(qlinear_softmax) F(quantize) F(random) F(range) F(recurrent) F(reduce) \
  F(reshape) F(resize) F(roi_align) F(scatter) F(softmax) F(top_k) F(unary_math) F(unique) F(variadic) \
  F(where)
// clang-format on

namespace convoy::ops {

#define CONVOY_DECLARE(family) std::vector<OperatorRow> family##_rows();
CONVOY_FAMILIES(CONVOY_DECLARE)
#undef CONVOY_DECLARE

namespace {

using Key = std::pair<std::string_view, std::string_view>;  // domain, operator

const std::map<Key, OperatorRow>& table() {
  static const auto& rows = *[] {  // never destroyed: asked while the process ends, too
    auto* const all = new std::map<Key, OperatorRow>;
    const auto add = [all](const std::vector<OperatorRow>& family) {
      for (const OperatorRow& row : family) all->emplace(Key{row.domain, row.op}, row);
    };
#define CONVOY_ADD(family) add(family##_rows());
    CONVOY_FAMILIES(CONVOY_ADD)
#undef CONVOY_ADD
    return all;
  }();
  return rows;
}

}  // namespace

const OperatorRow* find_row(std::string_view domain, std::string_view op) {
  if (domain == "ai.onnx") domain = "";
  const auto found = table().find({domain, op});
  return found == table().end() ? nullptr : &found->second;
}

Result<std::vector<TensorDesc>> OperatorRow::infer(const NodeDesc& node, std::span<const Input> inputs) const {
  CONVOY_CHECK(check_type(node, inputs, 0, types));
  return implementation->infer(node, inputs);
}

const Operator* find_operator(std::string_view domain, std::string_view op) {
  const OperatorRow* const row = find_row(domain, op);
  return row == nullptr ? nullptr : row->implementation;
}

std::vector<const OperatorRow*> operator_rows() {
  std::vector<const OperatorRow*> rows;
  for (const auto& [key, row] : table()) rows.push_back(&row);
  return rows;
}

std::vector<std::string> operator_names() {
  std::vector<std::string> names;
  for (const OperatorRow* const row : operator_rows()) {
    names.push_back(row->domain.empty() ? std::string(row->op) : std::string(row->domain) + "." + std::string(row->op));
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace convoy::ops
