// What of ONNX stays refused, and what a person can do about it: the list of docs/onnx.md.
#pragma once

#include <string_view>

namespace convoy::onnx_io {

// What to do about an operator of ONNX that is not supported; empty: nothing is known.
std::string_view way_around(std::string_view op);

// About graph inputs and outputs that are no tensors.
inline constexpr std::string_view kTensorsInstead =
    "export the model with tensors there: parts of a list as inputs and outputs of their own, or joined by Concat "
    "(torch.cat, torch.stack); an optional value as a graph without it, or as an empty tensor";

}  // namespace convoy::onnx_io
