// The table of operators: a line a family, whose file lists its operators.
#include <map>

#include "ops/families.h"

namespace convoy::ops {
namespace {

using Key = std::pair<std::string_view, std::string_view>;  // domain, operator

const std::map<Key, const Operator*>& table() {
  static const auto& rows = *[] {  // never destroyed: asked while the process ends, too
    auto* const all = new std::map<Key, const Operator*>;
    for (const auto& family : {
             activation_rows(),
             along_axis_rows(),
             arithmetic_rows(),
             audio_rows(),
             average_pool_rows(),
             batch_normalization_rows(),
             cast_rows(),
             center_crop_pad_rows(),
             clip_rows(),
             col2im_rows(),
             comparison_rows(),
             compress_rows(),
             constant_rows(),
             deform_conv_rows(),
             depth_to_space_rows(),
             dft_rows(),
             einsum_rows(),
             gather_rows(),
             global_pool_rows(),
             grid_sample_rows(),
             identity_rows(),
             lrn_rows(),
             matmul_rows(),
             matmul_integer_rows(),
             matrix_rows(),
             max_pool_rows(),
             movement_rows(),
             non_max_suppression_rows(),
             non_zero_rows(),
             normalization_rows(),
             normalization_over_axes_rows(),
             one_hot_rows(),
             pad_rows(),
             power_rows(),
             prelu_rows(),
             qgemm_rows(),
             qlinear_concat_rows(),
             qlinear_elementwise_rows(),
             qlinear_pool_rows(),
             qlinear_softmax_rows(),
             quantize_rows(),
             range_rows(),
             recurrent_rows(),
             reduce_rows(),
             reshape_rows(),
             resize_rows(),
             roi_align_rows(),
             scatter_rows(),
             softmax_rows(),
             top_k_rows(),
             unary_math_rows(),
             unique_rows(),
             variadic_rows(),
             where_rows(),
         }) {
      for (const OperatorRow& row : family) all->emplace(Key{row.domain, row.op}, row.implementation);
    }
    return all;
  }();
  return rows;
}

}  // namespace

const Operator* find_operator(std::string_view domain, std::string_view op) {
  if (domain == "ai.onnx") domain = "";
  const auto found = table().find({domain, op});
  return found == table().end() ? nullptr : found->second;
}

std::vector<std::string> operator_names() {
  std::vector<std::string> names;
  for (const auto& [key, unused] : table()) {
    names.push_back(key.first.empty() ? std::string(key.second)
                                      : std::string(key.first) + "." + std::string(key.second));
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace convoy::ops
