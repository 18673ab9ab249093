// Every structure is taken apart by structured bindings, which have to name all of its members: a new field doesn't
// compile until it is hashed here.
#include "core/hash.h"

namespace convoy {
namespace {

void add(Hash& hash, const Dims& dims) {
  hash.add(dims.size());
  for (const std::int64_t dim : dims) hash.add(dim);
}

void add(Hash& hash, const TensorDesc& desc, std::int64_t alignment) {
  const auto& [type, dims, strides, channel_block, replaced_alignment] = desc;
  hash.add(type, channel_block, alignment);
  add(hash, dims);
  add(hash, strides);
}

void add(Hash& hash, const Epilogue& epilogue) {
  const auto& [bias, narrow_bias, float_bias, gamma, zero_z, activation, requantize, residual] = epilogue;
  const auto& [kind, a, b] = activation;
  hash.add(bias, narrow_bias, float_bias, gamma, zero_z, kind, a, b, requantize, residual.has_value());
  if (!residual) return;
  const auto& [scale, zero_point, z_scale, z_zero_point] = *residual;
  hash.add(scale, zero_point, z_scale, z_zero_point);
}

bool equal(const TensorDesc& a, const TensorDesc& b) {
  const auto& [type, dims, strides, channel_block, left_out_alignment] = a;
  return type == b.type && channel_block == b.channel_block && dims == b.dims && strides == b.strides;
}

}  // namespace

std::uint64_t hash_of(const ConvProblem& problem, std::int64_t x_alignment, std::int64_t w_alignment,
                      std::int64_t y_alignment) {
  const auto& [pass, x, w, y, pre_padding, post_padding, stride, dilation, groups, mode, compute, math, alpha, beta,
               epilogue, x_zero_point, w_zero_point, y_zero_point, x_zero_given, w_zero_given, gate] = problem;
  Hash hash;
  hash.add(pass, groups, mode, compute, math, alpha, beta, x_zero_point, w_zero_point, y_zero_point, x_zero_given,
           w_zero_given, gate);
  add(hash, x, x_alignment);
  add(hash, w, w_alignment);
  add(hash, y, y_alignment);
  for (const Dims* dims : {&pre_padding, &post_padding, &stride, &dilation}) add(hash, *dims);
  add(hash, epilogue);
  return hash.value();
}

bool equal_but_for_alignment(const ConvProblem& a, const ConvProblem& b) {
  const auto& [pass, x, w, y, pre_padding, post_padding, stride, dilation, groups, mode, compute, math, alpha, beta,
               epilogue, x_zero_point, w_zero_point, y_zero_point, x_zero_given, w_zero_given, gate] = a;
  return pass == b.pass && groups == b.groups && mode == b.mode && compute == b.compute && math == b.math &&
         alpha == b.alpha && beta == b.beta && x_zero_point == b.x_zero_point && w_zero_point == b.w_zero_point &&
         y_zero_point == b.y_zero_point && x_zero_given == b.x_zero_given && w_zero_given == b.w_zero_given &&
         gate == b.gate && equal(x, b.x) && equal(w, b.w) && equal(y, b.y) && pre_padding == b.pre_padding &&
         post_padding == b.post_padding && stride == b.stride && dilation == b.dilation && epilogue == b.epilogue;
}

}  // namespace convoy
