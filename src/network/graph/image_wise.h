// Whether a network computes each image of its inputs, an element of their first dim, alone: then a batch may be run in
// parts (convoy/network.h).
#pragma once

#include <cstdint>
#include <optional>

#include "network/graph/pass.h"

namespace convoy::network {

// Images in each input: the first dim of all of them, which must be known. Nothing where they differ, or have no dims.
std::optional<std::int64_t> batch_of(const Graph& graph);

// The graph, on which no passes have run yet, for so many images in each input.
Graph with_batch(Graph graph, std::int64_t images);

// Proves that running the graph for parts of so many images gives what the whole batch gives. Shapes are inferred for
// the batch and for a part, and every node whose values come from the inputs has to keep images apart in both, by a
// rule for its operator; and nothing but shapes may follow from the batch's size. `graph` is as with_batch takes it.
// Error (unsupported): the first node that mixes images, or isn't known not to.
Result<void> check_image_wise(const Graph& graph, std::int64_t images, const PassContext& context);

}  // namespace convoy::network
