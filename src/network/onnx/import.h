// ONNX models as graphs.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "network/graph.h"

namespace convoy::onnx_io {

// `folder` is where external data may lie; empty: external data is an error.
Result<network::Graph> import_bytes(std::span<const std::byte> model, const std::string& name,
                                    const std::string& folder);

}  // namespace convoy::onnx_io
