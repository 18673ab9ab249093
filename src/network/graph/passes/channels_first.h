// What a node is where its inputs have their channels first, that of a node which reads them with the channels last.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "network/graph/graph.h"

namespace convoy::network {

// The perm of the Transpose of `rank` dims that brings the channels last, or first. Dim a of what has them last is
// last_order(rank)[a] of what has them first.
std::vector<std::int64_t> last_order(int rank);
std::vector<std::int64_t> first_order(int rank);

// [N, H, W, C] as [N, C, H, W].
Dims channels_first(Dims dims);
// Bringing the channels of such dims first moves no element.
bool moves_nothing(const Dims& dims);

// Adds the Transpose that makes value `to` of value `from`, with the name and the sources of `like`.
void add_transpose(Graph& graph, const Node& like, int from, int to, std::vector<std::int64_t> perm);

struct ChannelsFirst {
  ops::NodeDesc desc;
  std::map<int, HostTensor> constants;  // in place of these inputs
  std::vector<int> transposed;          // inputs that come with their channels last, of dims that move nothing
  bool outputs_too = true;              // its outputs have their channels first; else they are what they were
};

// `comes_first`: whether an input can be had with its channels first; it is asked of value ids. Nothing where the node
// gives something else then, and where no input comes so.
Result<std::optional<ChannelsFirst>> channels_first(const Graph& graph, const Node& node,
                                                    const std::function<bool(int)>& comes_first);

}  // namespace convoy::network
