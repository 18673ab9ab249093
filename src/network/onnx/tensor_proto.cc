#include "network/onnx/tensor_proto.h"

#include <bit>
#include <cstring>
#include <fstream>
#include <limits>

#include "network/onnx/decode.h"

namespace convoy::onnx_io {
namespace {

using ::onnx::TensorProto;

static_assert(std::endian::native == std::endian::little, "raw_data is little-endian and is copied as it is");

Error bad(const std::string& what, const std::string& text) { return {ErrorCode::corrupt, what + ": " + text}; }

template <class T, class Field>
void copy_field(const Field& field, HostTensor& tensor) {
  T* out = tensor.as<T>();
  for (int i = 0; i < field.size(); ++i) out[i] = static_cast<T>(field.Get(i));
}

// The repeated field that holds a type's elements, by the comments in onnx.proto.
std::int64_t typed_field_size(const TensorProto& proto, DataType type) {
  switch (type) {
    case DataType::f32:
      return proto.float_data_size();
    case DataType::f64:
      return proto.double_data_size();
    case DataType::s64:
      return proto.int64_data_size();
    case DataType::u64:
    case DataType::u32:
      return proto.uint64_data_size();
    default:
      return proto.int32_data_size();
  }
}

void copy_typed_field(const TensorProto& proto, HostTensor& tensor) {
  switch (tensor.desc.type) {
    case DataType::f32:
      return copy_field<float>(proto.float_data(), tensor);
    case DataType::f64:
      return copy_field<double>(proto.double_data(), tensor);
    case DataType::s64:
      return copy_field<std::int64_t>(proto.int64_data(), tensor);
    case DataType::u64:
      return copy_field<std::uint64_t>(proto.uint64_data(), tensor);
    case DataType::u32:
      return copy_field<std::uint32_t>(proto.uint64_data(), tensor);
    case DataType::s32:
      return copy_field<std::int32_t>(proto.int32_data(), tensor);
    case DataType::s16:
    case DataType::u16:
    case DataType::f16:  // the bits
    case DataType::bf16:
      return copy_field<std::uint16_t>(proto.int32_data(), tensor);
    case DataType::s8:
    case DataType::u8:
    case DataType::f8_e4m3:
    case DataType::f8_e5m2:
    case DataType::boolean:
      return copy_field<std::uint8_t>(proto.int32_data(), tensor);
  }
}

// A boolean is one byte, 0 or 1, whatever the file holds: others would be undefined behaviour later.
void normalise_booleans(HostTensor& tensor) {
  if (tensor.desc.type != DataType::boolean) return;
  auto* bytes = tensor.as<std::uint8_t>();
  for (std::int64_t i = 0; i < tensor.desc.elements(); ++i) bytes[i] = bytes[i] != 0;
}

}  // namespace

Result<DataType> data_type_of(int onnx_type, const std::string& what) {
  switch (onnx_type) {
    case TensorProto::FLOAT:
      return DataType::f32;
    case TensorProto::DOUBLE:
      return DataType::f64;
    case TensorProto::FLOAT16:
      return DataType::f16;
    case TensorProto::BFLOAT16:
      return DataType::bf16;
    case TensorProto::FLOAT8E4M3FN:
      return DataType::f8_e4m3;
    case TensorProto::FLOAT8E5M2:
      return DataType::f8_e5m2;
    case TensorProto::INT64:
      return DataType::s64;
    case TensorProto::INT32:
      return DataType::s32;
    case TensorProto::INT16:
      return DataType::s16;
    case TensorProto::INT8:
      return DataType::s8;
    case TensorProto::UINT64:
      return DataType::u64;
    case TensorProto::UINT32:
      return DataType::u32;
    case TensorProto::UINT16:
      return DataType::u16;
    case TensorProto::UINT8:
      return DataType::u8;
    case TensorProto::BOOL:
      return DataType::boolean;
    default:
      break;
  }
  if (onnx_type == TensorProto::UNDEFINED || !::onnx::TensorProto_DataType_IsValid(onnx_type)) {
    return bad(what, "data_type=" + std::to_string(onnx_type) + " is not an element type");
  }
  const auto& type_name = ::onnx::TensorProto_DataType_Name(static_cast<::onnx::TensorProto_DataType>(onnx_type));
  return Error{ErrorCode::unsupported, what + ": element type " + type_name + " is not supported"};
}

int onnx_type_of(DataType type) {
  switch (type) {
    case DataType::f64:
      return TensorProto::DOUBLE;
    case DataType::f32:
      return TensorProto::FLOAT;
    case DataType::f16:
      return TensorProto::FLOAT16;
    case DataType::bf16:
      return TensorProto::BFLOAT16;
    case DataType::f8_e4m3:
      return TensorProto::FLOAT8E4M3FN;
    case DataType::f8_e5m2:
      return TensorProto::FLOAT8E5M2;
    case DataType::s64:
      return TensorProto::INT64;
    case DataType::s32:
      return TensorProto::INT32;
    case DataType::s16:
      return TensorProto::INT16;
    case DataType::s8:
      return TensorProto::INT8;
    case DataType::u64:
      return TensorProto::UINT64;
    case DataType::u32:
      return TensorProto::UINT32;
    case DataType::u16:
      return TensorProto::UINT16;
    case DataType::u8:
      return TensorProto::UINT8;
    case DataType::boolean:
      return TensorProto::BOOL;
  }
  return TensorProto::UNDEFINED;
}

Result<HostTensor> decode_tensor(const TensorProto& proto, const std::string& what, const std::string& folder) {
  if (proto.has_segment()) return Error{ErrorCode::unsupported, what + ": segmented tensors are not supported"};
  CONVOY_TRY(const DataType type, data_type_of(proto.data_type(), what));
  const Dims dims(proto.dims().begin(), proto.dims().end());
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0) return bad(what, "dims[" + std::to_string(i) + "]=" + std::to_string(dims[i]) + " is negative");
  }
  const auto element_bytes = static_cast<std::int64_t>(size_of(type));
  const auto counted = checked_elements(dims, element_bytes);
  if (!counted.ok()) return bad(what, counted.error().message);
  const std::int64_t elements = *counted;
  const std::int64_t bytes = elements * element_bytes;

  const bool external = proto.data_location() == TensorProto::EXTERNAL;
  if (external) {
    if (const auto range = locate_external(proto, what, folder, bytes); !range.ok()) return range.error();
  } else if (proto.has_raw_data()) {
    if (static_cast<std::int64_t>(proto.raw_data().size()) != bytes) {
      return bad(what, "dims " + to_string(dims) + " of " + std::string(name_of(type)) + " need " +
                           std::to_string(bytes) + " bytes, raw_data has " + std::to_string(proto.raw_data().size()));
    }
  } else if (typed_field_size(proto, type) != elements) {
    return bad(what, "dims " + to_string(dims) + " need " + std::to_string(elements) + " elements, the data has " +
                         std::to_string(typed_field_size(proto, type)));
  }

  auto allocated = HostTensor::allocate(TensorDesc::packed(type, dims));
  if (!allocated.ok()) return allocated.error().within(what);
  HostTensor tensor = std::move(*allocated);
  if (external) {
    CONVOY_CHECK(read_external(proto, what, folder, bytes, tensor.data.get()));
  } else if (proto.has_raw_data()) {
    if (bytes > 0) std::memcpy(tensor.data.get(), proto.raw_data().data(), static_cast<std::size_t>(bytes));
  } else {
    copy_typed_field(proto, tensor);
  }
  normalise_booleans(tensor);
  return tensor;
}

void encode_tensor(const HostTensor& tensor, const std::string& name, TensorProto& proto) {
  proto.Clear();
  proto.set_name(name);
  proto.set_data_type(onnx_type_of(tensor.desc.type));
  for (const std::int64_t dim : tensor.desc.dims) proto.add_dims(dim);
  const auto bytes = static_cast<std::size_t>(tensor.desc.elements()) * size_of(tensor.desc.type);
  proto.set_raw_data(bytes > 0 ? std::string(reinterpret_cast<const char*>(tensor.data.get()), bytes) : std::string());
}

Result<NamedTensor> parse_tensor(std::span<const std::byte> bytes, const std::string& what) {
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    return bad(what, "protobuf messages end at 2 GiB, this has " + std::to_string(bytes.size()) + " bytes");
  }
  TensorProto proto;
  if (!proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return bad(what, "not a TensorProto, or truncated (" + std::to_string(bytes.size()) + " bytes)");
  }
  const std::string named = proto.name().empty() ? what : what + " (tensor '" + proto.name() + "')";
  CONVOY_TRY(HostTensor tensor, decode_tensor(proto, named, {}));
  return NamedTensor{proto.name(), std::move(tensor)};
}

Result<NamedTensor> read_tensor_file(const std::string& path) {
  CONVOY_TRY(const std::string bytes, read_file(path));
  return parse_tensor(std::as_bytes(std::span(bytes)), path);
}

Result<std::string> serialize_tensor(const HostTensor& tensor, const std::string& name) {
  if (!tensor.desc.is_packed(Layout::nchw)) {
    return Error{ErrorCode::invalid_argument, "tensor '" + name + "' is not packed nchw"};
  }
  TensorProto proto;
  encode_tensor(tensor, name, proto);
  std::string bytes;
  if (proto.ByteSizeLong() > static_cast<std::size_t>(std::numeric_limits<int>::max()) ||
      !proto.SerializeToString(&bytes)) {
    return Error{ErrorCode::invalid_argument, "tensor '" + name + "' is too large for protobuf (2 GiB)"};
  }
  return bytes;
}

Result<void> write_tensor_file(const std::string& path, const HostTensor& tensor, const std::string& name) {
  CONVOY_TRY(const std::string bytes, serialize_tensor(tensor, name));
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) return Error{ErrorCode::not_found, "cannot write '" + path + "'"};
  return {};
}

Result<std::string> read_file(const std::string& path, std::size_t limit) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return Error{ErrorCode::not_found, "cannot open '" + path + "'"};
  const std::streamoff size = file.tellg();
  // A directory opens and reports the largest offset there is.
  if (size < 0 || size == std::numeric_limits<std::streamoff>::max()) {
    return Error{ErrorCode::not_found, "'" + path + "' is not a readable file"};
  }
  if (static_cast<std::size_t>(size) > limit) {
    return Error{ErrorCode::corrupt, "'" + path + "' has " + std::to_string(size) + " bytes, more than the limit of " +
                                         std::to_string(limit)};
  }
  std::string bytes(static_cast<std::size_t>(size), '\0');
  file.seekg(0);
  file.read(bytes.data(), size);
  if (file.gcount() != size) return Error{ErrorCode::corrupt, "'" + path + "' ended early"};
  return bytes;
}

}  // namespace convoy::onnx_io
