// copy_tensor: every layout to every layout, every type to every type.
//
// Both tensors are seen as [outer...][channel][inner], where `inner` is the spatial dims that both tensors can walk
// with one stride. Channel offsets come from tables, which makes blocked channels no special case.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/checked.h"
#include "convoy/tensor.h"
#include "core/convert_row.h"

namespace convoy {
namespace {

// A tensor as [outer...][channel][inner].
struct View {
  std::vector<std::int64_t> outer_strides;
  std::vector<std::int64_t> channel_offsets;  // of channels 0 to padded - 1
  std::int64_t inner_stride = 1;
};

struct Shape {
  std::vector<std::int64_t> outer;
  std::int64_t channels = 1;
  std::int64_t inner = 1;
};

// Tile of channels x inner positions: 16 lines of 64 bytes a side stay in the first cache whichever side is walked.
constexpr std::int64_t kTile = 16;

template <class T>
void copy_plane(const T* src, const View& from, T* dst, const View& to, std::int64_t channels, std::int64_t inner) {
  const std::int64_t si = from.inner_stride, di = to.inner_stride;
  const std::int64_t* sc = from.channel_offsets.data();
  const std::int64_t* dc = to.channel_offsets.data();
  if (si == 1 && di == 1) {
    for (std::int64_t c = 0; c < channels; ++c) std::memcpy(dst + dc[c], src + sc[c], inner * sizeof(T));
    return;
  }
  for (std::int64_t c0 = 0; c0 < channels; c0 += kTile) {
    const std::int64_t c1 = std::min(channels, c0 + kTile);
    // Blocks of 8 or 16 channels and nhwc have runs of channels that are contiguous on each side.
    const bool src_run = sc[c1 - 1] - sc[c0] == c1 - 1 - c0, dst_run = dc[c1 - 1] - dc[c0] == c1 - 1 - c0;
    if (src_run && dst_run) {
      for (std::int64_t i = 0; i < inner; ++i) {
        std::memcpy(dst + dc[c0] + i * di, src + sc[c0] + i * si, (c1 - c0) * sizeof(T));
      }
      continue;
    }
    for (std::int64_t i0 = 0; i0 < inner; i0 += kTile) {
      const std::int64_t i1 = std::min(inner, i0 + kTile);
      if (dst_run) {
        for (std::int64_t i = i0; i < i1; ++i) {
          T* out = dst + dc[c0] + i * di;
          const T* in = src + i * si;
          for (std::int64_t c = c0; c < c1; ++c) out[c - c0] = in[sc[c]];
        }
      } else if (src_run && di == 1) {
        T tile[kTile][kTile];
        for (std::int64_t i = i0; i < i1; ++i) {
          const T* in = src + sc[c0] + i * si;
          for (std::int64_t c = 0; c < c1 - c0; ++c) tile[c][i - i0] = in[c];
        }
        for (std::int64_t c = c0; c < c1; ++c) std::memcpy(dst + dc[c] + i0, tile[c - c0], (i1 - i0) * sizeof(T));
      } else {
        for (std::int64_t c = c0; c < c1; ++c) {
          for (std::int64_t i = i0; i < i1; ++i) dst[dc[c] + i * di] = src[sc[c] + i * si];
        }
      }
    }
  }
}

void convert_plane(DataType src_type, const std::byte* src, const View& from, DataType dst_type, std::byte* dst,
                   const View& to, std::int64_t channels, std::int64_t inner) {
  const std::size_t src_size = size_of(src_type), dst_size = size_of(dst_type);
  const std::int64_t* sc = from.channel_offsets.data();
  const std::int64_t* dc = to.channel_offsets.data();
  const bool one_run = sc[channels - 1] - sc[0] == channels - 1 && dc[channels - 1] - dc[0] == channels - 1;
  if (one_run && channels > 1) {  // nhwc to nhwc
    for (std::int64_t i = 0; i < inner; ++i) {
      convert_row(src_type, src + (sc[0] + i * from.inner_stride) * src_size, 1, dst_type,
                  dst + (dc[0] + i * to.inner_stride) * dst_size, 1, channels);
    }
    return;
  }
  // Chunks of inner positions, so that a side that is strided here is read or written line by line, not wholly again
  // for every channel.
  constexpr std::int64_t kInner = 64;
  for (std::int64_t i = 0; i < inner; i += kInner) {
    const std::int64_t count = std::min(kInner, inner - i);
    for (std::int64_t c = 0; c < channels; ++c) {
      convert_row(src_type, src + (sc[c] + i * from.inner_stride) * src_size, from.inner_stride, dst_type,
                  dst + (dc[c] + i * to.inner_stride) * dst_size, to.inner_stride, count);
    }
  }
}

template <class T>
void copy_plane_of(const std::byte* src, const View& from, std::byte* dst, const View& to, const Shape& shape) {
  copy_plane(reinterpret_cast<const T*>(src), from, reinterpret_cast<T*>(dst), to, shape.channels, shape.inner);
}

void zero_padding(const View& to, std::byte* dst, std::size_t size, const Shape& shape) {
  const std::size_t padded = to.channel_offsets.size();
  for (std::size_t c = shape.channels; c < padded; ++c) {
    for (std::int64_t i = 0; i < shape.inner; ++i) {
      std::memset(dst + (to.channel_offsets[c] + i * to.inner_stride) * size, 0, size);
    }
  }
}

std::vector<std::int64_t> channel_offsets(const TensorDesc& desc) {
  std::vector<std::int64_t> offsets(desc.padded_channels());
  for (std::size_t c = 0; c < offsets.size(); ++c) {
    offsets[c] = static_cast<std::int64_t>(c) / desc.channel_block * desc.strides[1] + c % desc.channel_block;
  }
  return offsets;
}

// Both tensors' views; the innermost spatial dims are merged into `inner` as far as both strides allow it.
void make_views(const TensorDesc& a, const TensorDesc& b, Shape& shape, View& view_a, View& view_b) {
  const int rank = a.rank();
  if (rank < 2) {
    view_a.channel_offsets = view_b.channel_offsets = {0};
    if (rank == 1) {
      shape.inner = a.dims[0];
      view_a.inner_stride = a.strides[0];
      view_b.inner_stride = b.strides[0];
    }
    return;
  }
  shape.channels = a.dims[1];
  view_a.channel_offsets = channel_offsets(a);
  view_b.channel_offsets = channel_offsets(b);
  int i = rank - 1;
  for (; i >= 2; --i) {
    if (a.dims[i] == 1) continue;
    if (shape.inner == 1) {
      view_a.inner_stride = a.strides[i];
      view_b.inner_stride = b.strides[i];
    } else if (a.strides[i] != saturating_mul(view_a.inner_stride, shape.inner) ||
               b.strides[i] != saturating_mul(view_b.inner_stride, shape.inner)) {
      break;
    }
    shape.inner *= a.dims[i];
  }
  for (int j = 0; j <= i; ++j) {
    if (j == 1) continue;
    shape.outer.push_back(a.dims[j]);
    view_a.outer_strides.push_back(a.strides[j]);
    view_b.outer_strides.push_back(b.strides[j]);
  }
  if (i < 2 && shape.outer.empty()) {
    shape.outer.push_back(a.dims[0]);
    view_a.outer_strides.push_back(a.strides[0]);
    view_b.outer_strides.push_back(b.strides[0]);
  }
}

// Same placement, without gaps or channel padding: one memcpy.
bool is_one_block(const TensorDesc& src, const TensorDesc& dst) {
  return src.type == dst.type && src.strides == dst.strides && src.channel_block == dst.channel_block &&
         src.storage_elements() == src.elements();
}

}  // namespace

void copy_tensor(const TensorDesc& src, const void* src_data, const TensorDesc& dst, void* dst_data) {
  if (src.elements() == 0) return;
  const auto* from = static_cast<const std::byte*>(src_data);
  auto* to = static_cast<std::byte*>(dst_data);
  if (is_one_block(src, dst)) {
    std::memcpy(to, from, src.bytes());
    return;
  }
  Shape shape;
  View src_view, dst_view;
  make_views(src, dst, shape, src_view, dst_view);
  const std::size_t src_size = size_of(src.type), dst_size = size_of(dst.type);

  std::vector<std::int64_t> position(shape.outer.size(), 0);
  while (true) {
    std::int64_t src_offset = 0, dst_offset = 0;
    for (std::size_t i = 0; i < position.size(); ++i) {
      src_offset += position[i] * src_view.outer_strides[i];
      dst_offset += position[i] * dst_view.outer_strides[i];
    }
    const std::byte* src_plane = from + src_offset * src_size;
    std::byte* dst_plane = to + dst_offset * dst_size;
    if (src.type != dst.type) {
      convert_plane(src.type, src_plane, src_view, dst.type, dst_plane, dst_view, shape.channels, shape.inner);
    } else if (src_size == 8) {
      copy_plane_of<std::uint64_t>(src_plane, src_view, dst_plane, dst_view, shape);
    } else if (src_size == 4) {
      copy_plane_of<std::uint32_t>(src_plane, src_view, dst_plane, dst_view, shape);
    } else if (src_size == 2) {
      copy_plane_of<std::uint16_t>(src_plane, src_view, dst_plane, dst_view, shape);
    } else {
      copy_plane_of<std::uint8_t>(src_plane, src_view, dst_plane, dst_view, shape);
    }
    zero_padding(dst_view, dst_plane, dst_size, shape);

    int i = static_cast<int>(position.size()) - 1;
    for (; i >= 0 && ++position[i] == shape.outer[i]; --i) position[i] = 0;
    if (i < 0) break;
  }
}

}  // namespace convoy
