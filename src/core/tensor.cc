#include "convoy/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/checked.h"

namespace convoy {
namespace {

constexpr std::array<Layout, 4> kPackedLayouts = {Layout::nchw, Layout::nhwc, Layout::nchw8c, Layout::nchw16c};
// By layout, then for 1, 2 and 3 spatial dims.
constexpr std::array<std::array<std::string_view, 3>, 5> kLayoutNames = {{
    {"ncw", "nchw", "ncdhw"},
    {"nwc", "nhwc", "ndhwc"},
    {"ncw8c", "nchw8c", "ncdhw8c"},
    {"ncw16c", "nchw16c", "ncdhw16c"},
    {"strided", "strided", "strided"},
}};

// How many positions dimension `i` has for its stride: channel blocks for the channels of a blocked tensor.
std::int64_t steps(const TensorDesc& desc, int i) {
  return i == 1 && desc.channel_block > 1 ? div_up(desc.dims[i], desc.channel_block) : desc.dims[i];
}

// Says visit(dim, stride) for each dim of the layout, from the innermost to the outermost, until it says no. Empty dims
// count as 1, so that no stride is 0.
template <class Visit>
void visit_packed(const TensorDesc& desc, Layout layout, Visit visit) {
  std::int64_t stride = desc.channel_block;
  const auto place = [&](int i) {
    const bool on = visit(i, stride);
    stride = saturating_mul(stride, std::max<std::int64_t>(1, steps(desc, i)));
    return on;
  };
  const int rank = desc.rank();
  const bool channels_innermost = layout == Layout::nhwc && rank >= 2;
  if (channels_innermost && !place(1)) return;
  for (int i = rank - 1; i >= 0; --i) {
    if ((i != 1 || !channels_innermost) && !place(i)) return;
  }
}

}  // namespace

std::string_view name_of(Layout layout, int spatial_dims) {
  const int column = spatial_dims == 1 ? 0 : spatial_dims == 3 ? 2 : 1;
  return kLayoutNames[static_cast<std::size_t>(layout)][column];
}

Result<Layout> parse_layout(std::string_view name) {
  for (std::size_t i = 0; i < kLayoutNames.size(); ++i) {
    for (std::string_view candidate : kLayoutNames[i]) {
      if (name == candidate) return static_cast<Layout>(i);
    }
  }
  return Error{ErrorCode::invalid_argument,
               fmt::format("layout '{}' is not one of nchw, nhwc, nchw8c, nchw16c (1D: ncw ..., 3D: ncdhw ...)",
                           name.substr(0, 40))};
}

std::int64_t channel_block(Layout layout) { return layout == Layout::nchw8c ? 8 : layout == Layout::nchw16c ? 16 : 1; }

TensorDesc TensorDesc::packed(DataType type, Dims dims, Layout layout) {
  TensorDesc desc;
  desc.type = type;
  desc.dims = std::move(dims);
  desc.strides.assign(desc.rank(), 1);
  if (desc.rank() >= 2) desc.channel_block = convoy::channel_block(layout);
  visit_packed(desc, layout, [&](int i, std::int64_t stride) {
    desc.strides[i] = stride;
    return true;
  });
  return desc;
}

bool TensorDesc::is_packed(Layout layout) const {
  if (layout == Layout::strided || strides.size() != dims.size()) return false;
  if (channel_block != (rank() >= 2 ? convoy::channel_block(layout) : 1)) return false;
  if (elements() == 0) return true;
  bool same = true;
  visit_packed(*this, layout,
               [&](int i, std::int64_t stride) { return same = steps(*this, i) <= 1 || strides[i] == stride; });
  return same;
}

Layout TensorDesc::layout() const {
  for (Layout layout : kPackedLayouts) {
    if (is_packed(layout)) return layout;
  }
  return Layout::strided;
}

std::int64_t TensorDesc::elements() const {
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return 0;
  std::int64_t product = 1;
  for (std::int64_t dim : dims) product = saturating_mul(product, dim);
  return product;
}

std::int64_t TensorDesc::storage_elements() const {
  if (elements() == 0) return 0;
  std::int64_t last = channel_block;
  for (int i = 0; i < rank(); ++i) last = saturating_add(last, saturating_mul(steps(*this, i) - 1, strides[i]));
  return last;
}

std::int64_t TensorDesc::bytes() const {
  return saturating_mul(storage_elements(), static_cast<std::int64_t>(size_of(type)));
}

std::int64_t TensorDesc::padded_channels() const { return rank() >= 2 ? round_up(dims[1], channel_block) : 1; }

std::int64_t TensorDesc::offset(const std::int64_t* coords) const {
  std::int64_t result = 0;
  for (int i = 0; i < rank(); ++i) {
    if (i == 1 && channel_block > 1) {
      result += coords[i] / channel_block * strides[i] + coords[i] % channel_block;
    } else {
      result += coords[i] * strides[i];
    }
  }
  return result;
}

Result<void> validate(const TensorDesc& desc, std::string_view field) {
  const auto fail = [&](std::string text) {
    return Error{ErrorCode::invalid_argument, fmt::format("{}{}", field, std::move(text))};
  };
  if (desc.strides.size() != desc.dims.size()) {
    return fail(fmt::format(" has {} dims ({}) and {} strides ({})", desc.dims.size(), to_string(desc.dims),
                            desc.strides.size(), to_string(desc.strides)));
  }
  const std::int64_t block = desc.channel_block;
  if (block != 1 && block != 8 && block != 16) return fail(fmt::format(".channel_block={} is not 1, 8 or 16", block));
  if (block > 1 && desc.rank() < 2) {
    return fail(fmt::format(".channel_block={} needs a channel dimension, the tensor has rank {}", block, desc.rank()));
  }
  if (desc.alignment < 1 || (desc.alignment & (desc.alignment - 1)) != 0) {
    return fail(fmt::format(".alignment={} is not a power of two", desc.alignment));
  }
  for (int i = 0; i < desc.rank(); ++i) {
    if (desc.dims[i] < 0) return fail(fmt::format(".dims[{}]={} is negative", i, desc.dims[i]));
  }
  for (int i = 0; i < desc.rank(); ++i) {
    if (desc.strides[i] < 0) return fail(fmt::format(".strides[{}]={} is negative", i, desc.strides[i]));
    if (desc.strides[i] == 0 && steps(desc, i) > 1) {
      return fail(fmt::format(".strides[{}]=0, but dims[{}]={} needs a positive one", i, i, desc.dims[i]));
    }
  }
  const auto element_size = static_cast<std::int64_t>(size_of(desc.type));
  if (!checked_elements(desc.dims, element_size).ok() || desc.bytes() == kMaxSize) {
    return fail(fmt::format(": {} elements of {} with strides {} overflow a 64-bit size", to_string(desc.dims),
                            name_of(desc.type), to_string(desc.strides)));
  }
  return {};
}

Result<std::int64_t> checked_elements(const Dims& dims, std::int64_t element_size) {
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0) return Error{ErrorCode::invalid_argument, fmt::format("dims[{}]={} is negative", i, dims[i])};
  }
  std::optional<std::int64_t> product = 1;
  for (std::int64_t dim : dims) {
    if (dim != 0) product = checked_mul(*product, dim);
    if (!product) break;
  }
  if (!product || !checked_mul(*product, element_size)) {
    return Error{ErrorCode::invalid_argument, fmt::format("dims {} overflow a 64-bit size", to_string(dims))};
  }
  return std::find(dims.begin(), dims.end(), 0) != dims.end() ? 0 : *product;
}

std::string to_string(const Dims& dims) { return fmt::format("{}", fmt::join(dims, "x")); }

}  // namespace convoy
