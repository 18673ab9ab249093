// Tensor descriptions: dims in N,C,(D),H,W order, element strides, named layouts. No data is owned here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/data_type.h"
#include "convoy/result.h"

namespace convoy {

using Dims = std::vector<std::int64_t>;

// A layout is a named stride or blocking pattern, for any number of spatial dims (names below are the 2D forms;
// 1D: ncw, nwc, ncw8c, ncw16c; 3D: ncdhw, ndhwc, ncdhw8c, ncdhw16c).
enum class Layout : std::uint8_t {
  nchw,     // row-major in N,C,(D),H,W order; for tensors of rank 0 to 2, plain row-major
  nhwc,     // channels innermost
  nchw8c,   // blocks of 8 channels: [N][ceil(C/8)][(D)][H][W][8], the last block padded
  nchw16c,  // blocks of 16 channels
  strided,  // none of the above: only the strides say
};

std::string_view name_of(Layout layout, int spatial_dims);  // "nchw", "ncdhw16c", "strided"
Result<Layout> parse_layout(std::string_view name);         // accepts the 1D, 2D and 3D names of a layout
std::int64_t channel_block(Layout layout);                  // 1, 8 or 16

// Shape, type and placement of a tensor. For a blocked tensor (channel_block b > 1), element (n,c,sp..) lies at
//   n*strides[0] + (c / b)*strides[1] + c % b + sum_i sp_i*strides[2+i]
// and the channels from C up to the next multiple of b are padding. Engines write zeros to the padding of a blocked
// output and may rely on zeros in the padding of a blocked input. With b = 1 the formula is the usual dot product.
struct TensorDesc {
  DataType type = DataType::f32;
  Dims dims;                       // logical sizes, N,C,(D),H,W
  Dims strides;                    // in elements, same length as dims
  std::int64_t channel_block = 1;  // 1, 8 or 16
  std::int64_t alignment = 64;     // bytes that the data pointer is a multiple of; a power of two

  // The packed tensor of a layout (not `strided`).
  static TensorDesc packed(DataType type, Dims dims, Layout layout = Layout::nchw);

  int rank() const { return static_cast<int>(dims.size()); }
  int spatial_dims() const { return rank() > 2 ? rank() - 2 : 0; }

  // The named layout these strides are the packed form of. Several may fit when dims are 1 (C = 1, or all spatial dims
  // 1); the first in the order of `Layout` wins. `is_packed(l)` asks about one and is what engines should use.
  Layout layout() const;
  bool is_packed(Layout layout) const;

  std::int64_t elements() const;          // product of dims
  std::int64_t storage_elements() const;  // from the first to one past the last element, padding included
  std::int64_t bytes() const;             // storage_elements * size_of(type)
  std::int64_t padded_channels() const;   // C rounded up to channel_block (dims[1] where rank >= 2)

  // Offset in elements of a coordinate (same length as dims).
  std::int64_t offset(const std::int64_t* coords) const;

  // The same dims and type in another layout.
  TensorDesc with_layout(Layout layout) const { return packed(type, dims, layout); }

  friend bool operator==(const TensorDesc&, const TensorDesc&) = default;
};

// Checks dims >= 0 (zero is allowed), positive strides where a dim is over 1, no overflow of 64-bit sizes, alignment a
// power of two. `field` names the tensor in the error ("x", "input 'data'").
Result<void> validate(const TensorDesc& desc, std::string_view field);

// Product of dims, or an error where that of the dims that are not 0 (times `element_size`) overflows 63 bits.
Result<std::int64_t> checked_elements(const Dims& dims, std::int64_t element_size = 1);

// Copies src to dst element by element: same dims, any layouts; converts the type as store_from_double does. Zeros the
// channel padding of a blocked dst. This is the plain version; engines' conversions are checked against it.
void copy_tensor(const TensorDesc& src, const void* src_data, const TensorDesc& dst, void* dst_data);

std::string to_string(const Dims& dims);  // "1x64x56x56", "" for a scalar

}  // namespace convoy
