// Protobuf messages to Convoy's own structures. Only the files of this folder include it.
#pragma once

#include <map>
#include <span>
#include <string>

#include "convoy/host_tensor.h"
#include "convoy/network.h"
#include "network/graph/graph.h"
#include "network/graph/onnx/import.h"
#include "onnx.pb.h"

namespace convoy::onnx_io {

// ONNX's element types; string, complex and 6-bit types are `unsupported` errors that name `what`.
Result<DataType> data_type_of(int onnx_type, const std::string& what);
int onnx_type_of(DataType type);

// `folder` is where external data may lie; empty: nowhere.
Result<HostTensor> decode_tensor(const ::onnx::TensorProto& proto, const std::string& what, const std::string& folder);
void encode_tensor(const HostTensor& tensor, const std::string& name, ::onnx::TensorProto& proto);

// Initializers whose values a caller gives: those that can't be read in place are put into the graph, the others are
// the result, and point to the caller's memory.
using TensorsByName = std::map<std::string, HostTensor>;
Result<TensorsByName> take_given(::onnx::GraphProto& graph, std::span<const GivenInitializer> given);

// Reads exactly `expected` bytes of a tensor's external data into `destination`.
Result<void> read_external(const ::onnx::TensorProto& proto, const std::string& what, const std::string& folder,
                           std::int64_t expected, std::byte* destination);
// Checks the location, offset and length of external data without reading: the file must hold `expected` bytes there.
// Returns the absolute path and offset.
struct ExternalRange {
  std::string path;
  std::int64_t offset = 0;
};
Result<ExternalRange> locate_external(const ::onnx::TensorProto& proto, const std::string& what,
                                      const std::string& folder, std::int64_t expected);

// Puts the nodes of the model's functions, and of the branch that an If with a constant condition takes, in the
// callers' place, in the bodies of If and Loop too. What is not constant stays.
Result<void> inline_calls(::onnx::ModelProto& model);

// Puts a Loop in the place of each Scan.
Result<void> scans_to_loops(::onnx::ModelProto& model);

// A checked graph. Operators are not looked up here except to list all the unknown ones.
Result<network::Graph> import_model(::onnx::ModelProto& model, const std::string& name, const std::string& folder,
                                    std::span<const GivenInitializer> given = {});

}  // namespace convoy::onnx_io
