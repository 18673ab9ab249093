#include "network/convert.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>

namespace convoy::network {
namespace {

// A tile is a cache line of 4-byte elements each way, so that every line read or written is used whole.
constexpr std::int64_t kTile = 16;

// dst[c * dst_stride + r] = src[r * src_stride + c] for r < rows, c < cols.
template <class T>
void transpose_tile(const T* src, std::int64_t src_stride, T* dst, std::int64_t dst_stride, std::int64_t rows,
                    std::int64_t cols) {
  for (std::int64_t c = 0; c < cols; ++c) {
    for (std::int64_t r = 0; r < rows; ++r) dst[c * dst_stride + r] = src[r * src_stride + c];
  }
}

// SSE2 is part of x86-64: 4x4 blocks of 4-byte elements.
void transpose_full_tile(const std::uint32_t* src, std::int64_t src_stride, std::uint32_t* dst,
                         std::int64_t dst_stride) {
  for (std::int64_t c = 0; c < kTile; c += 4) {
    for (std::int64_t r = 0; r < kTile; r += 4) {
      const auto* in = reinterpret_cast<const float*>(src + r * src_stride + c);
      auto* out = reinterpret_cast<float*>(dst + c * dst_stride + r);
      __m128 r0 = _mm_loadu_ps(in);
      __m128 r1 = _mm_loadu_ps(in + src_stride);
      __m128 r2 = _mm_loadu_ps(in + 2 * src_stride);
      __m128 r3 = _mm_loadu_ps(in + 3 * src_stride);
      _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
      _mm_storeu_ps(out, r0);
      _mm_storeu_ps(out + dst_stride, r1);
      _mm_storeu_ps(out + 2 * dst_stride, r2);
      _mm_storeu_ps(out + 3 * dst_stride, r3);
    }
  }
}

template <class T>
void transpose(const T* src, T* dst, std::int64_t batch, std::int64_t rows, std::int64_t cols, ThreadTeam& team) {
  // The unit of work is a strip of tile rows along the longer side, so that a long side is split between the threads.
  const bool split_rows = rows >= cols;
  const std::int64_t strips = ((split_rows ? rows : cols) + kTile - 1) / kTile;
  parallel_ranges(team, batch * strips, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t n = unit / strips;
      const std::int64_t at = unit % strips * kTile;
      const T* in = src + n * rows * cols;
      T* out = dst + n * rows * cols;
      const std::int64_t other = split_rows ? cols : rows;
      for (std::int64_t o = 0; o < other; o += kTile) {
        const std::int64_t r = split_rows ? at : o;
        const std::int64_t c = split_rows ? o : at;
        const std::int64_t tile_rows = std::min(kTile, rows - r);
        const std::int64_t tile_cols = std::min(kTile, cols - c);
        if constexpr (sizeof(T) == 4) {
          if (tile_rows == kTile && tile_cols == kTile) {
            transpose_full_tile(in + r * cols + c, cols, out + c * rows + r, rows);
            continue;
          }
        }
        transpose_tile(in + r * cols + c, cols, out + c * rows + r, rows, tile_rows, tile_cols);
      }
    }
  });
}

}  // namespace

bool same_bytes(const TensorDesc& a, const TensorDesc& b) {
  if (a.type != b.type || a.dims != b.dims || a.channel_block != b.channel_block) return false;
  for (std::size_t i = 0; i < a.dims.size(); ++i) {
    if (a.dims[i] > 1 && a.strides[i] != b.strides[i]) return false;
  }
  return true;
}

void convert_layout(const TensorDesc& src, const void* src_data, const TensorDesc& dst, void* dst_data,
                    ThreadTeam& team) {
  if (src.elements() == 0) return;
  const bool to_nhwc = src.is_packed(Layout::nchw) && dst.is_packed(Layout::nhwc);
  const bool to_nchw = src.is_packed(Layout::nhwc) && dst.is_packed(Layout::nchw);
  if (src.rank() < 3 || src.type != dst.type || (!to_nhwc && !to_nchw)) {
    copy_tensor(src, src_data, dst, dst_data);
    return;
  }
  const std::int64_t batch = src.dims[0];
  const std::int64_t channels = src.dims[1];
  const std::int64_t spatial = src.elements() / (batch * channels);
  const std::int64_t rows = to_nhwc ? channels : spatial;
  const std::int64_t cols = to_nhwc ? spatial : channels;
  switch (size_of(src.type)) {
    case 1:
      transpose(static_cast<const std::uint8_t*>(src_data), static_cast<std::uint8_t*>(dst_data), batch, rows, cols,
                team);
      break;
    case 2:
      transpose(static_cast<const std::uint16_t*>(src_data), static_cast<std::uint16_t*>(dst_data), batch, rows, cols,
                team);
      break;
    case 4:
      transpose(static_cast<const std::uint32_t*>(src_data), static_cast<std::uint32_t*>(dst_data), batch, rows, cols,
                team);
      break;
    default:
      transpose(static_cast<const std::uint64_t*>(src_data), static_cast<std::uint64_t*>(dst_data), batch, rows, cols,
                team);
      break;
  }
}

}  // namespace convoy::network
