// ONNX TensorProto files (.pb) as HostTensor: test data, inputs and outputs. Free of the protobuf headers.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "convoy/host_tensor.h"

namespace convoy::onnx_io {

struct NamedTensor {
  std::string name;  // may be empty
  HostTensor tensor;
};

// Parses a serialized TensorProto. `what` names it in errors ("input_0.pb"). Sizes are checked against the bytes that
// are there before anything is allocated. `folder` is where external data may lie; empty: nowhere.
Result<NamedTensor> parse_tensor(std::span<const std::byte> bytes, const std::string& what,
                                 const std::string& folder = {});
// External data may lie beside the file.
Result<NamedTensor> read_tensor_file(const std::string& path);

// Serialized as raw_data; the tensor must be packed nchw.
Result<std::string> serialize_tensor(const HostTensor& tensor, const std::string& name);
Result<void> write_tensor_file(const std::string& path, const HostTensor& tensor, const std::string& name);

// A whole file in memory; its size is asked of the file first and bounded by `limit`.
Result<std::string> read_file(const std::string& path, std::size_t limit = std::size_t{1} << 40);

}  // namespace convoy::onnx_io
