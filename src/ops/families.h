// The rows that each family's file adds to the operator table (table.cc lists the families).
#pragma once

#include <vector>

#include "ops/support.h"

namespace convoy::ops {

std::vector<OperatorRow> activation_rows();
std::vector<OperatorRow> along_axis_rows();
std::vector<OperatorRow> arithmetic_rows();
std::vector<OperatorRow> audio_rows();
std::vector<OperatorRow> average_pool_rows();
std::vector<OperatorRow> batch_normalization_rows();
std::vector<OperatorRow> cast_rows();
std::vector<OperatorRow> center_crop_pad_rows();
std::vector<OperatorRow> clip_rows();
std::vector<OperatorRow> col2im_rows();
std::vector<OperatorRow> comparison_rows();
std::vector<OperatorRow> compress_rows();
std::vector<OperatorRow> constant_rows();
std::vector<OperatorRow> deform_conv_rows();
std::vector<OperatorRow> depth_to_space_rows();
std::vector<OperatorRow> dft_rows();
std::vector<OperatorRow> einsum_rows();
std::vector<OperatorRow> gather_rows();
std::vector<OperatorRow> global_pool_rows();
std::vector<OperatorRow> grid_sample_rows();
std::vector<OperatorRow> identity_rows();
std::vector<OperatorRow> lrn_rows();
std::vector<OperatorRow> matmul_rows();
std::vector<OperatorRow> matmul_integer_rows();
std::vector<OperatorRow> matrix_rows();
std::vector<OperatorRow> max_pool_rows();
std::vector<OperatorRow> movement_rows();
std::vector<OperatorRow> non_max_suppression_rows();
std::vector<OperatorRow> non_zero_rows();
std::vector<OperatorRow> normalization_rows();
std::vector<OperatorRow> normalization_over_axes_rows();
std::vector<OperatorRow> one_hot_rows();
std::vector<OperatorRow> pad_rows();
std::vector<OperatorRow> power_rows();
std::vector<OperatorRow> prelu_rows();
std::vector<OperatorRow> qgemm_rows();
std::vector<OperatorRow> qlinear_concat_rows();
std::vector<OperatorRow> qlinear_elementwise_rows();
std::vector<OperatorRow> qlinear_pool_rows();
std::vector<OperatorRow> qlinear_softmax_rows();
std::vector<OperatorRow> quantize_rows();
std::vector<OperatorRow> range_rows();
std::vector<OperatorRow> recurrent_rows();
std::vector<OperatorRow> reduce_rows();
std::vector<OperatorRow> reshape_rows();
std::vector<OperatorRow> resize_rows();
std::vector<OperatorRow> roi_align_rows();
std::vector<OperatorRow> scatter_rows();
std::vector<OperatorRow> softmax_rows();
std::vector<OperatorRow> top_k_rows();
std::vector<OperatorRow> unary_math_rows();
std::vector<OperatorRow> unique_rows();
std::vector<OperatorRow> variadic_rows();
std::vector<OperatorRow> where_rows();

}  // namespace convoy::ops
