#include "core/convert_row.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "core/float_formats.h"

namespace convoy {
namespace {

// Elements pass through a small buffer of a type that holds both the source's values exactly: f32 where it can, because
// rounding from f32 to a narrow format is cheaper, else f64. Two loops instead of one for each pair of types.
constexpr std::int64_t kChunk = 128;

bool fits_f32(DataType type) {
  switch (type) {
    case DataType::f64:
    case DataType::s64:
    case DataType::s32:
    case DataType::u64:
    case DataType::u32:
      return false;
    default:
      return true;
  }
}

template <class Wide, class T>
void load(const std::byte* src, std::int64_t stride, std::int64_t count, Wide* out) {
  const T* in = reinterpret_cast<const T*>(src);
  for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<Wide>(in[i * stride]);
}

template <class Format, class Wide, class T>
void load_narrow(const std::byte* src, std::int64_t stride, std::int64_t count, Wide* out) {
  const T* in = reinterpret_cast<const T*>(src);
  for (std::int64_t i = 0; i < count; ++i) out[i] = formats::decode<Format>(in[i * stride]);
}

template <class Wide>
void load_row(DataType type, const std::byte* src, std::int64_t stride, std::int64_t count, Wide* out) {
  switch (type) {
    case DataType::f64:
      return load<Wide, double>(src, stride, count, out);
    case DataType::f32:
      return load<Wide, float>(src, stride, count, out);
    case DataType::f16:
      return load_narrow<formats::F16, Wide, std::uint16_t>(src, stride, count, out);
    case DataType::bf16:
      return load_narrow<formats::Bf16, Wide, std::uint16_t>(src, stride, count, out);
    case DataType::f8_e4m3:
      return load_narrow<formats::F8E4M3, Wide, std::uint8_t>(src, stride, count, out);
    case DataType::f8_e5m2:
      return load_narrow<formats::F8E5M2, Wide, std::uint8_t>(src, stride, count, out);
    case DataType::s64:
      return load<Wide, std::int64_t>(src, stride, count, out);
    case DataType::s32:
      return load<Wide, std::int32_t>(src, stride, count, out);
    case DataType::s16:
      return load<Wide, std::int16_t>(src, stride, count, out);
    case DataType::s8:
    case DataType::s4:
    case DataType::s2:
      return load<Wide, std::int8_t>(src, stride, count, out);
    case DataType::u64:
      return load<Wide, std::uint64_t>(src, stride, count, out);
    case DataType::u32:
      return load<Wide, std::uint32_t>(src, stride, count, out);
    case DataType::u16:
      return load<Wide, std::uint16_t>(src, stride, count, out);
    case DataType::u8:
    case DataType::u4:
    case DataType::u2:
      return load<Wide, std::uint8_t>(src, stride, count, out);
    case DataType::boolean:
      for (std::int64_t i = 0; i < count; ++i) out[i] = src[i * stride] != std::byte{0} ? 1 : 0;
      return;
    case DataType::f4_e2m1:
    case DataType::f8_e4m3fnuz:
    case DataType::f8_e5m2fnuz:
    case DataType::f8_e8m0:
      for (std::int64_t i = 0; i < count; ++i) {
        out[i] = stored_float_to_f32(type, std::to_integer<std::uint8_t>(src[i * stride]));
      }
      return;
  }
}

template <class Format, class T, class Wide>
void store_narrow(const Wide* in, std::int64_t count, std::byte* dst, std::int64_t stride) {
  T* out = reinterpret_cast<T*>(dst);
  for (std::int64_t i = 0; i < count; ++i) out[i * stride] = static_cast<T>(formats::encode<Format>(in[i]));
}

template <class Wide>
void store_row(DataType type, const Wide* in, std::int64_t count, std::byte* dst, std::int64_t stride) {
  switch (type) {
    case DataType::f64:
      for (std::int64_t i = 0; i < count; ++i) reinterpret_cast<double*>(dst)[i * stride] = in[i];
      return;
    case DataType::f32:
      for (std::int64_t i = 0; i < count; ++i) reinterpret_cast<float*>(dst)[i * stride] = static_cast<float>(in[i]);
      return;
    case DataType::f16:
      return store_narrow<formats::F16, std::uint16_t>(in, count, dst, stride);
    case DataType::bf16:
      return store_narrow<formats::Bf16, std::uint16_t>(in, count, dst, stride);
    case DataType::f8_e4m3:
      return store_narrow<formats::F8E4M3, std::uint8_t>(in, count, dst, stride);
    case DataType::f8_e5m2:
      return store_narrow<formats::F8E5M2, std::uint8_t>(in, count, dst, stride);
    default:
      for (std::int64_t i = 0; i < count; ++i) store_from_double(type, dst, i * stride, in[i]);
      return;
  }
}

template <class Wide>
void convert(DataType src_type, const std::byte* src, std::int64_t src_stride, DataType dst_type, std::byte* dst,
             std::int64_t dst_stride, std::int64_t count) {
  Wide buffer[kChunk];
  const std::int64_t src_size = static_cast<std::int64_t>(size_of(src_type)) * src_stride;
  const std::int64_t dst_size = static_cast<std::int64_t>(size_of(dst_type)) * dst_stride;
  for (std::int64_t begin = 0; begin < count; begin += kChunk) {
    const std::int64_t part = std::min(kChunk, count - begin);
    load_row<Wide>(src_type, src + begin * src_size, src_stride, part, buffer);
    store_row<Wide>(dst_type, buffer, part, dst + begin * dst_size, dst_stride);
  }
}

}  // namespace

void convert_row(DataType src_type, const std::byte* src, std::int64_t src_stride, DataType dst_type, std::byte* dst,
                 std::int64_t dst_stride, std::int64_t count) {
  if (fits_f32(src_type)) {
    convert<float>(src_type, src, src_stride, dst_type, dst, dst_stride, count);
  } else {
    convert<double>(src_type, src, src_stride, dst_type, dst, dst_stride, count);
  }
}

}  // namespace convoy
