// ONNX models as graphs.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "network/graph/graph.h"

namespace convoy::onnx_io {

// `folder` is where external data may lie; empty: external data is an error.
Result<network::Graph> import_bytes(std::span<const std::byte> model, const std::string& name,
                                    const std::string& folder);

// The same from a file, whose folder is where external data may lie. The file is parsed as it is read, and each
// tensor's bytes are dropped once copied, so that a model's weights are in memory about once.
Result<network::Graph> import_file(const std::string& path);

// Whether a model may have this operator. "ai.onnx" is "".
bool knows_operator(const std::string& domain, const std::string& op);

}  // namespace convoy::onnx_io
