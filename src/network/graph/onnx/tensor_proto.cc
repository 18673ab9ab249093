#include "network/graph/onnx/tensor_proto.h"

#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <utility>

#include "core/file_signature.h"
#include "core/shared_bytes.h"
#include "network/graph/onnx/decode.h"

namespace convoy::onnx_io {
namespace {

using ::onnx::TensorProto;

static_assert(std::endian::native == std::endian::little, "raw_data is little-endian and is copied as it is");

Error bad(const std::string& what, const std::string& text) { return {ErrorCode::corrupt, what + ": " + text}; }

constexpr std::pair<int, DataType> kTypes[] = {
    {TensorProto::FLOAT, DataType::f32},
    {TensorProto::DOUBLE, DataType::f64},
    {TensorProto::FLOAT16, DataType::f16},
    {TensorProto::BFLOAT16, DataType::bf16},
    {TensorProto::FLOAT8E4M3FN, DataType::f8_e4m3},
    {TensorProto::FLOAT8E5M2, DataType::f8_e5m2},
    {TensorProto::INT64, DataType::s64},
    {TensorProto::INT32, DataType::s32},
    {TensorProto::INT16, DataType::s16},
    {TensorProto::INT8, DataType::s8},
    {TensorProto::UINT64, DataType::u64},
    {TensorProto::UINT32, DataType::u32},
    {TensorProto::UINT16, DataType::u16},
    {TensorProto::UINT8, DataType::u8},
    {TensorProto::BOOL, DataType::boolean},
    {TensorProto::INT4, DataType::s4},
    {TensorProto::UINT4, DataType::u4},
    {TensorProto::INT2, DataType::s2},
    {TensorProto::UINT2, DataType::u2},
    {TensorProto::FLOAT4E2M1, DataType::f4_e2m1},
    {TensorProto::FLOAT8E4M3FNUZ, DataType::f8_e4m3fnuz},
    {TensorProto::FLOAT8E5M2FNUZ, DataType::f8_e5m2fnuz},
    {TensorProto::FLOAT8E8M0, DataType::f8_e8m0},
};

// Elements in a byte of the file, and in an entry of int32_data; the first in the lowest bits.
int elements_a_byte(DataType type) {
  switch (type) {
    case DataType::s4:
    case DataType::u4:
    case DataType::f4_e2m1:
      return 2;
    case DataType::s2:
    case DataType::u2:
      return 4;
    default:
      return 1;
  }
}

std::int64_t packed_count(DataType type, std::int64_t elements) {
  const int many = elements_a_byte(type);
  return elements / many + (elements % many != 0 ? 1 : 0);
}

// The bytes of the file lie at the start of the tensor's memory. From the last element on, none is overwritten before
// it is read.
void unpack(HostTensor& tensor) {
  const DataType type = tensor.desc.type;
  const int many = elements_a_byte(type), bits = 8 / many;
  if (many == 1) return;
  const bool has_sign = type == DataType::s4 || type == DataType::s2;
  auto* bytes = tensor.as<std::uint8_t>();
  for (std::int64_t i = tensor.desc.elements() - 1; i >= 0; --i) {
    const auto low = static_cast<unsigned>(bytes[i / many]) >> (i % many * bits) & ((1U << bits) - 1);
    const unsigned sign = has_sign ? low & (1U << (bits - 1)) : 0;
    bytes[i] = static_cast<std::uint8_t>(low - 2 * sign);
  }
}

std::string packed(const HostTensor& tensor) {
  const DataType type = tensor.desc.type;
  const int many = elements_a_byte(type), bits = 8 / many;
  std::string bytes(static_cast<std::size_t>(packed_count(type, tensor.desc.elements())), '\0');
  for (std::int64_t i = 0; i < tensor.desc.elements(); ++i) {
    const auto low = static_cast<unsigned>(tensor.as<std::uint8_t>()[i]) & ((1U << bits) - 1);
    char& byte = bytes[static_cast<std::size_t>(i / many)];
    byte = static_cast<char>(static_cast<unsigned char>(byte) | low << (i % many * bits));
  }
  return bytes;
}

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
    default:  // the bytes of others, or what is packed into them
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
  for (const auto& [number, type] : kTypes) {
    if (number == onnx_type) return type;
  }
  if (onnx_type == TensorProto::UNDEFINED || !::onnx::TensorProto_DataType_IsValid(onnx_type)) {
    return bad(what, "data_type=" + std::to_string(onnx_type) + " is not an element type");
  }
  const auto& type_name = ::onnx::TensorProto_DataType_Name(static_cast<::onnx::TensorProto_DataType>(onnx_type));
  return Error{ErrorCode::unsupported, what + ": element type " + type_name + " is not supported"};
}

int onnx_type_of(DataType type) {
  for (const auto& [number, known] : kTypes) {
    if (known == type) return number;
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
  const std::int64_t entries = packed_count(type, elements), bytes = entries * element_bytes;

  const bool external = proto.data_location() == TensorProto::EXTERNAL;
  if (external) {
    if (const auto range = locate_external(proto, what, folder, bytes); !range.ok()) return range.error();
  } else if (proto.has_raw_data()) {
    if (static_cast<std::int64_t>(proto.raw_data().size()) != bytes) {
      return bad(what, "dims " + to_string(dims) + " of " + std::string(name_of(type)) + " need " +
                           std::to_string(bytes) + " bytes, raw_data has " + std::to_string(proto.raw_data().size()));
    }
  } else if (typed_field_size(proto, type) != entries) {
    return bad(what, "dims " + to_string(dims) + " need " + std::to_string(entries) + " elements, the data has " +
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
  unpack(tensor);
  return tensor;
}

Result<TensorsByName> take_given(::onnx::GraphProto& graph, std::span<const GivenInitializer> given) {
  constexpr std::size_t kAlignment = 64, kSmall = 1024;  // whatever looks at small values finds them in the model
  std::map<std::string, TensorProto*> declared;          // names of their own: the tensors change
  if (!given.empty()) {
    for (TensorProto& tensor : *graph.mutable_initializer()) declared.emplace(tensor.name(), &tensor);
  }
  TensorsByName in_place;
  for (const auto& [name, values] : given) {
    const std::string what = "initializer '" + name + "'";
    const auto wrong = [&](const std::string& text) {
      return Error{ErrorCode::invalid_argument, what + " is given: " + text};
    };
    const auto found = declared.find(name);
    if (found == declared.end()) return wrong("the model has none of that name");
    TensorProto& proto = *found->second;
    CONVOY_TRY(const DataType type, data_type_of(proto.data_type(), what));
    const Dims dims(proto.dims().begin(), proto.dims().end());
    const auto counted = checked_elements(dims, static_cast<std::int64_t>(size_of(type)));
    if (!counted.ok()) return bad(what, counted.error().message);
    const std::int64_t bytes = packed_count(type, *counted) * static_cast<std::int64_t>(size_of(type));
    if (static_cast<std::int64_t>(values.size()) != bytes) {
      return wrong("dims " + to_string(dims) + " of " + std::string(name_of(type)) + " need " + std::to_string(bytes) +
                   " bytes, not " + std::to_string(values.size()));
    }
    const bool as_it_is = elements_a_byte(type) == 1 && type != DataType::boolean;
    if (as_it_is && values.size() > kSmall && reinterpret_cast<std::uintptr_t>(values.data()) % kAlignment == 0) {
      in_place[name] = {TensorDesc::packed(type, dims), borrowed(values.data())};
      continue;
    }
    TensorProto copied;
    copied.set_name(name);
    copied.set_data_type(proto.data_type());
    *copied.mutable_dims() = proto.dims();
    copied.set_raw_data(values.data(), values.size());
    proto.Swap(&copied);
  }
  return in_place;
}

void encode_tensor(const HostTensor& tensor, const std::string& name, TensorProto& proto) {
  proto.Clear();
  proto.set_name(name);
  proto.set_data_type(onnx_type_of(tensor.desc.type));
  for (const std::int64_t dim : tensor.desc.dims) proto.add_dims(dim);
  if (elements_a_byte(tensor.desc.type) > 1) return proto.set_raw_data(packed(tensor));
  const auto bytes = static_cast<std::size_t>(tensor.desc.elements()) * size_of(tensor.desc.type);
  proto.set_raw_data(bytes > 0 ? std::string(reinterpret_cast<const char*>(tensor.data.get()), bytes) : std::string());
}

Result<NamedTensor> parse_tensor(std::span<const std::byte> bytes, const std::string& what, const std::string& folder) {
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    return bad(what, "protobuf messages end at 2 GiB, this has " + std::to_string(bytes.size()) + " bytes");
  }
  TensorProto proto;
  if (bytes.empty() || !proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    const std::string is = file_signature(bytes);
    return bad(what, is.empty() ? "not a TensorProto, or truncated (" + std::to_string(bytes.size()) + " bytes)"
                                : "not a TensorProto but " + is);
  }
  const std::string named = proto.name().empty() ? what : what + " (tensor '" + proto.name() + "')";
  CONVOY_TRY(HostTensor tensor, decode_tensor(proto, named, folder));
  return NamedTensor{proto.name(), std::move(tensor)};
}

Result<NamedTensor> read_tensor_file(const std::string& path) {
  CONVOY_TRY(const std::string bytes, read_file(path));
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return parse_tensor(std::as_bytes(std::span(bytes)), path, folder.empty() ? "." : folder.string());
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
