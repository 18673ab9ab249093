// ONNX's lists of tensors (sequences) and optional values. A graph has them between import and the pass `sequences`,
// behind which there are only the tensors.
#pragma once

#include <string_view>

#include "network/graph/graph.h"

namespace convoy::network {

// SequenceConstruct, SplitToSequence, Optional and the like.
bool is_sequence_operator(std::string_view domain, std::string_view op);

// Readers of lists and optional values read the tensors themselves, where these are known by now. The nodes are in
// topological order. The number of nodes that went. Errors: a position outside of a list.
Result<int> resolve_sequences(Graph& graph);

inline constexpr std::string_view kTensorsInsteadOfSequences =
    "keep tensors in place of the list: Concat and Split, or torch.cat and torch.stack before the export";

}  // namespace convoy::network
