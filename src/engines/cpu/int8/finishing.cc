#include "engines/cpu/int8/finishing.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

namespace convoy::cpu::int8 {
namespace {

// The least and largest result that fit an output type, before the cast from s32 to it.
std::pair<double, double> limits_of(DataType type) {
  switch (type) {
    case DataType::s8:
      return {-128, 127};
    case DataType::u8:
      return {0, 255};
    default:
      return {std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()};
  }
}

Act act_of(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::relu:
      return Act::relu;
    case ActivationKind::clip:
      return Act::clip;
    case ActivationKind::leaky_relu:
      return Act::leaky_relu;
    default:
      return Act::identity;
  }
}

template <class T>
void store_row(T* to, std::int64_t stride, const std::int32_t* values, int count) {
  const auto value = [&](int i) {
    if constexpr (std::is_same_v<T, float>) {
      return std::bit_cast<float>(values[i]);
    } else {
      return static_cast<T>(values[i]);
    }
  };
  if (stride == 1) {  // its own loop, so that it is vectorised
    for (int i = 0; i < count; ++i) to[i] = value(i);
  } else {
    for (int i = 0; i < count; ++i) to[i * stride] = value(i);
  }
}

// The bytes of z where results will go, each in 32 bits.
template <class T>
void load_row(const T* from, std::int64_t stride, std::int32_t* values, int count) {
  if (stride == 1) {  // its own loop, so that it is vectorised
    for (int i = 0; i < count; ++i) values[i] = from[i];
  } else {
    for (int i = 0; i < count; ++i) values[i] = from[i * stride];
  }
}

// `values` as they are, or where there are fewer than a panel has a copy with zeros behind them.
template <class T>
const T* padded(const T* values, int count, int columns, T* copy) {
  if (count == columns) return values;
  std::fill(std::copy_n(values, count, copy), copy + columns, T{});
  return copy;
}

}  // namespace

Finishing::Finishing(const ConvProblem& problem, const ConvGeometry& geometry, const Kernel& kernel,
                     const ConvArgs& args, std::int64_t terms, bool has_row_terms)
    : problem_(problem),
      geometry_(geometry),
      kernel_(kernel),
      args_(args),
      terms_(terms),
      has_row_terms_(has_row_terms) {
  const Epilogue& epilogue = problem.epilogue;
  finish_.act = act_of(epilogue.activation.kind);
  finish_.a = epilogue.activation.a;
  finish_.b = epilogue.activation.b;
  finish_.to_float = problem.y.type == DataType::f32;
  finish_.zero_point = problem.y_zero_point;
  std::tie(finish_.low, finish_.high) = limits_of(problem.y.type);
  if (const auto& residual = epilogue.residual) {
    finish_.z = own_.z;
    finish_.t_scale = residual->scale;
    finish_.t_zero_point = residual->zero_point;
    finish_.z_scale = residual->z_scale;
    finish_.z_zero_point = residual->z_zero_point;
  }
}

void Finishing::start(std::int64_t filter, int columns, const std::int32_t* column_terms, std::int32_t w_shift) {
  columns_ = columns;
  channels_at_ = filter * geometry_.y.channel;
  out_ = static_cast<std::byte*>(args_.out) + channels_at_;
  finish_.column_terms = column_terms;
  if (problem_.w_zero_given) {
    std::fill_n(own_.w_zeros, kernel_.tile.columns, 0);
    for (int i = 0; i < columns; ++i) own_.w_zeros[i] = args_.w_zero_points[filter + i] + w_shift;
    finish_.w_zeros = own_.w_zeros;
  }
  const Epilogue& epilogue = problem_.epilogue;
  if (epilogue.bias) {
    if (epilogue.float_bias) {
      std::copy_n(static_cast<const float*>(args_.bias) + filter, columns, own_.bias);
    } else {
      std::copy_n(static_cast<const std::int32_t*>(args_.bias) + filter, columns, own_.bias);
    }
    finish_.bias = own_.bias;
  }
  if (epilogue.requantize == Requantize::per_channel) {
    finish_.scales = padded(args_.scales + filter, columns, kernel_.tile.columns, own_.scales);
    finish_.scale_stride = 1;
  } else if (epilogue.requantize == Requantize::per_tensor) {
    finish_.scales = args_.scales;
  }
  bytes_ = in_bytes();
}

std::optional<FinishBytes> Finishing::in_bytes() {
  const Finish& f = finish_;
  const bool is_signed = problem_.y.type == DataType::s8, relu = f.act == Act::relu;
  if (!is_signed && problem_.y.type != DataType::u8) return std::nullopt;
  if (geometry_.y.channel != 1 || has_row_terms_) return std::nullopt;
  if (!relu && f.act != Act::identity) return std::nullopt;
  if (problem_.epilogue.float_bias) return std::nullopt;  // terms are whole
  // Sums and terms are at most 8192 * 255 * 383: they don't wrap, nor do they with the bias.
  constexpr std::int32_t kMostTerms = 8192, kMostBias = 1 << 28;
  if (terms_ > kMostTerms) return std::nullopt;
  bool large = false;
  for (int i = 0; i < kernel_.tile.columns; ++i) {
    const auto bias = static_cast<std::int32_t>(f.bias ? f.bias[i] : 0);
    large |= bias > kMostBias || bias < -kMostBias;
    own_.terms[i] = f.column_terms[i] + bias;
  }
  if (large) return std::nullopt;
  if (f.scale_stride == 0) std::fill_n(own_.scales, kernel_.tile.columns, f.scales ? *f.scales : 1.0f);
  // Two roundings of 2^-24 each. Values of 512 and more saturate either way, and a residual's are below 384 times its
  // scales, which are rounded, too.
  constexpr double kError = 1.5 / (1 << 14);
  const double residual_error = 1.1 / (1 << 24) * (384 * std::abs(f.t_scale) + 768 * std::abs(f.z_scale) + 512);
  return FinishBytes{.terms = own_.terms,
                     .scales = f.scale_stride == 0 ? own_.scales : f.scales,
                     .columns = columns_,
                     .relu = relu,
                     .is_signed = is_signed,
                     .has_residual = f.z != nullptr,
                     .zero_point = problem_.y_zero_point,
                     .z_zero_point = static_cast<std::int32_t>(f.z_zero_point),
                     .t_scale = static_cast<float>(f.t_scale),
                     .z_scale = static_cast<float>(f.z_scale),
                     .t_low = static_cast<float>(f.low - f.t_zero_point),
                     .t_high = static_cast<float>(f.high - f.t_zero_point),
                     .most_apart = static_cast<float>(0.5 - (f.z ? residual_error : kError)),
                     .most_apart_t = static_cast<float>(0.5 - kError)};
}

void Finishing::finish(std::int32_t* sums, int rows, const std::int64_t* offsets, const std::int32_t* row_terms) {
  if (!bytes_) return finish_exactly(sums, rows, offsets, row_terms);
  const auto* z = static_cast<const std::byte*>(args_.z);
  std::array<int, kMaxRows> doubtful;
  const int doubts =
      kernel_.finish_bytes(sums, rows, *bytes_, finish_.z ? z + channels_at_ : nullptr, out_, offsets, doubtful.data());
  for (const int row : std::span(doubtful).first(static_cast<std::size_t>(doubts))) {
    finish_exactly(sums + row * kernel_.tile.columns, 1, offsets + row, nullptr);
  }
}

void Finishing::finish_exactly(std::int32_t* sums, int rows, const std::int64_t* offsets,
                               const std::int32_t* row_terms) {
  if (finish_.z) load_residual(rows, offsets);
  finish_.row_terms = row_terms;
  kernel_.finish(sums, rows, finish_);
  store(sums, rows, offsets);
}

void Finishing::load_residual(int rows, const std::int64_t* offsets) {
  const auto load = [&]<class T>(const T* z) {
    for (int r = 0; r < rows; ++r) {
      load_row(z + offsets[r] + channels_at_, geometry_.y.channel, own_.z + r * kernel_.tile.columns, columns_);
    }
  };
  if (problem_.y.type == DataType::s8) return load(static_cast<const std::int8_t*>(args_.z));
  load(static_cast<const std::uint8_t*>(args_.z));
}

void Finishing::store(const std::int32_t* sums, int rows, const std::int64_t* offsets) {
  const auto store_as = [&]<class T>(T* out) {
    for (int r = 0; r < rows; ++r) {
      store_row(out + offsets[r] + channels_at_, geometry_.y.channel, sums + r * kernel_.tile.columns, columns_);
    }
  };
  switch (problem_.y.type) {
    case DataType::s8:
      return store_as(static_cast<std::int8_t*>(args_.out));
    case DataType::u8:
      return store_as(static_cast<std::uint8_t*>(args_.out));
    case DataType::f32:
      return store_as(static_cast<float*>(args_.out));
    default:
      return store_as(static_cast<std::int32_t*>(args_.out));
  }
}

}  // namespace convoy::cpu::int8
