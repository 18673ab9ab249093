// ONNX models as graphs.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "network/graph/graph.h"

namespace convoy::onnx_io {

// The values of an initializer of the model's main graph, whatever the model has there: row-major, packed. They are
// read in place where they are aligned to 64 bytes and as long as the graph lives, but for small ones, booleans and
// types of less than a byte, which are copied.
struct GivenInitializer {
  std::string name;
  std::span<const std::byte> values;
};

// `folder` is where external data may lie; empty: external data is an error. Error: invalid_argument names a given
// initializer that the model doesn't have, or that has another size.
Result<network::Graph> import_bytes(std::span<const std::byte> model, const std::string& name,
                                    const std::string& folder, std::span<const GivenInitializer> given = {});

// The same from a file, whose folder is where external data may lie. The file is parsed as it is read, and each
// tensor's bytes are dropped once copied, so that a model's weights are in memory about once.
Result<network::Graph> import_file(const std::string& path);

// Whether a model may have this operator, and any part of a model that has it is a model again: those on lists
// (network/graph/sequences.h) are only run where the whole list is in the model. "ai.onnx" is "".
bool knows_operator(const std::string& domain, const std::string& op);

}  // namespace convoy::onnx_io
