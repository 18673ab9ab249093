#include "io/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "io/npy_header.h"

namespace convoy::io {
namespace {

void swap_elements(std::byte* data, std::int64_t count, std::size_t size) {
  for (std::int64_t i = 0; i < count; ++i, data += size) std::reverse(data, data + size);
}

// Copies from column-major (first index fastest) to row-major order.
void transpose_from_fortran(const std::byte* source, std::byte* target, const Dims& shape, std::size_t size) {
  Dims source_stride(shape.size(), 1);
  for (std::size_t i = 1; i < shape.size(); ++i) source_stride[i] = source_stride[i - 1] * shape[i - 1];
  Dims at(shape.size(), 0);
  std::int64_t offset = 0;
  while (true) {
    std::memcpy(target, source + offset * static_cast<std::int64_t>(size), size);
    target += size;
    std::size_t axis = shape.size();
    while (true) {
      if (axis-- == 0) return;
      offset += source_stride[axis];
      if (++at[axis] < shape[axis]) break;
      offset -= at[axis] * source_stride[axis];
      at[axis] = 0;
    }
  }
}

Result<HostTensor> parse(Bytes file, std::optional<DataType> raw_type) {
  CONVOY_TRY(const NpyHeader header, parse_npy_header(file, raw_type));
  const std::size_t size = size_of(header.type);
  const std::size_t available = file.size() - header.data_offset;
  auto elements = checked_elements(header.shape, static_cast<std::int64_t>(size));
  if (!elements.ok()) {
    return Error{ErrorCode::corrupt, fmt::format("the shape {} overflows 64-bit sizes", to_string(header.shape))};
  }
  const auto needed = static_cast<std::size_t>(*elements) * size;
  if (needed != available) {
    return Error{ErrorCode::corrupt,
                 fmt::format("byte {}: shape {} of {} needs {} bytes of data, the file has {}", header.data_offset,
                             to_string(header.shape), name_of(header.type), needed, available)};
  }
  CONVOY_TRY(HostTensor tensor, HostTensor::allocate(TensorDesc::packed(header.type, header.shape)));
  if (needed == 0) return tensor;
  const std::byte* source = file.data() + header.data_offset;
  if (header.fortran_order && header.shape.size() > 1) {
    transpose_from_fortran(source, tensor.data.get(), header.shape, size);
  } else {
    std::memcpy(tensor.data.get(), source, needed);
  }
  if (header.swap_bytes && size > 1) swap_elements(tensor.data.get(), *elements, size);
  if (header.type == DataType::boolean) {
    auto* values = tensor.as<unsigned char>();
    for (std::int64_t i = 0; i < *elements; ++i) values[i] = values[i] != 0;
  }
  return tensor;
}

}  // namespace

Result<HostTensor> parse_npy(Bytes file, const std::string& name, std::optional<DataType> raw_type) {
  auto tensor = parse(file, raw_type);
  if (!tensor.ok()) return tensor.error().within(name);
  return tensor;
}

Result<HostTensor> read_npy(const std::string& path, std::optional<DataType> raw_type) {
  CONVOY_TRY(const std::vector<std::byte> file, read_file(path));
  return parse_npy(file, path, raw_type);
}

Result<std::vector<std::byte>> format_npy(const HostTensor& tensor) {
  HostTensor packed = tensor;
  const DataType type = npy_descr(tensor.desc.type) ? tensor.desc.type : DataType::f32;
  if (type != tensor.desc.type || !tensor.desc.is_packed(Layout::nchw)) {
    CONVOY_TRY(packed, converted(tensor, TensorDesc::packed(type, tensor.desc.dims)));
  }
  std::string shape;
  for (const std::int64_t dim : packed.desc.dims) shape += fmt::format("{},", dim);
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", *npy_descr(type), shape);
  // The data starts at a multiple of 64, as NumPy writes it.
  constexpr std::size_t kPrefix = 10;
  header.append(63 - (kPrefix + header.size()) % 64, ' ');
  header += '\n';
  if (header.size() > 0xffff) return Error{ErrorCode::invalid_argument, "too many dimensions for an .npy file"};

  const auto data_bytes = static_cast<std::size_t>(packed.desc.elements()) * size_of(type);
  std::vector<std::byte> file(kPrefix + header.size() + data_bytes);
  const unsigned char prefix[kPrefix] = {0x93,
                                         'N',
                                         'U',
                                         'M',
                                         'P',
                                         'Y',
                                         1,
                                         0,
                                         static_cast<unsigned char>(header.size() & 0xff),
                                         static_cast<unsigned char>(header.size() >> 8)};
  std::memcpy(file.data(), prefix, kPrefix);
  std::memcpy(file.data() + kPrefix, header.data(), header.size());
  if (data_bytes > 0) std::memcpy(file.data() + kPrefix + header.size(), packed.data.get(), data_bytes);
  return file;
}

Result<void> write_npy(const std::string& path, const HostTensor& tensor) {
  CONVOY_TRY(const std::vector<std::byte> file, format_npy(tensor));
  return write_file(path, file);
}

}  // namespace convoy::io
