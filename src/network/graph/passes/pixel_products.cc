// Where the network's home is a GPU, products of pixels with a constant matrix run as 1x1 convolutions, whose engines
// add the bias, the activation and a residual, too. Exporters write so what a network computes channels last:
//   MatMul of x [N, .., K], of 4 or 5 dims, and b [K, M]  ->  Transpose to channels first, Conv, Transpose back
// A bias and activations that follow move before the second Transpose. One that undoes another goes with it.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "network/graph/pass.h"
#include "network/graph/passes/activations.h"

namespace convoy::network {
namespace {

class PixelProductRewriting {
 public:
  explicit PixelProductRewriting(Graph& graph) : graph_(graph) {}

  Result<int> run() {
    int changes = 0;
    const std::size_t count = graph_.nodes.size();
    for (std::size_t n = 0; n < count; ++n) {
      if (!is_product(graph_.nodes[n])) continue;
      CONVOY_CHECK(rewrite(n));
      ++changes;
    }
    graph_.sweep();
    return changes;
  }

 private:
  bool is_product(const Node& node) const {
    if (node.erased || node.desc.op != "MatMul" || !node.desc.domain.empty() || node.inputs.size() != 2) return false;
    const Value& x = graph_.values[node.inputs[0]];
    const HostTensor* const b = graph_.constant_of(node.inputs[1]);
    return b != nullptr && b->desc.rank() == 2 && is_floating(b->desc.type) && x.known && !x.constant &&
           x.desc.type == b->desc.type && (x.desc.rank() == 4 || x.desc.rank() == 5) && x.desc.elements() > 0 &&
           b->desc.elements() > 0;
  }

  // Of so many dims: the last one becomes the second, or the second the last.
  static std::vector<std::int64_t> to_first(int rank) {
    std::vector<std::int64_t> perm(static_cast<std::size_t>(rank), 0);
    std::iota(perm.begin() + 2, perm.end(), 1);
    perm[1] = rank - 1;
    return perm;
  }
  static std::vector<std::int64_t> to_last(int rank) {
    std::vector<std::int64_t> perm(static_cast<std::size_t>(rank), 0);
    std::iota(perm.begin() + 1, perm.end(), 2);
    perm.back() = 1;
    return perm;
  }
  static bool is_transpose(const Node& node, const std::vector<std::int64_t>& perm) {
    if (node.erased || node.desc.op != "Transpose" || !node.desc.domain.empty()) return false;
    const auto given = node.desc.integers("perm", {});
    return given.ok() && *given == perm;
  }

  int new_value(const std::string& name, DataType type, Dims dims) {
    const int id = graph_.add_value(name);
    graph_.values[id].known = true;
    graph_.values[id].desc = TensorDesc::packed(type, std::move(dims));
    return id;
  }
  void transpose(const Node& like, int from, int to, std::vector<std::int64_t> perm) {
    Node node;
    node.desc = {.op = "Transpose", .domain = {}, .name = like.desc.name, .opset = 13, .attributes = {}};
    node.desc.attributes["perm"] = std::move(perm);
    node.inputs = {from};
    node.outputs = {to};
    node.sources = like.sources;
    graph_.nodes.push_back(std::move(node));
  }

  // [M, K, 1, ..] of [K, M].
  Result<int> filters_of(const std::string& name, const HostTensor& b, int rank) {
    const std::int64_t depth = b.desc.dims[0], columns = b.desc.dims[1];
    Dims dims(static_cast<std::size_t>(rank), 1);
    dims[0] = columns;
    dims[1] = depth;
    CONVOY_TRY(HostTensor filters, HostTensor::allocate(TensorDesc::packed(b.desc.type, dims)));
    const std::size_t size = size_of(b.desc.type);
    const auto* const from = b.as<std::byte>();
    auto* const to = filters.as<std::byte>();
    for (std::int64_t m = 0; m < columns; ++m) {
      for (std::int64_t k = 0; k < depth; ++k) {
        std::memcpy(to + static_cast<std::size_t>(m * depth + k) * size,
                    from + static_cast<std::size_t>(k * columns + m) * size, size);
      }
    }
    return graph_.add_constant(name + ".filters", std::move(filters));
  }

  // One value for each channel of what Add's other operand is added to; kAbsent: it is no such constant.
  Result<int> bias_of(const Node& add, int to, std::int64_t channels) {
    if (add.desc.op != "Add" || !add.desc.domain.empty() || add.desc.opset < 7) return kAbsent;
    const int other = add.inputs[add.inputs[0] == to ? 1 : 0];
    const HostTensor* const given = graph_.constant_of(other);
    if (given == nullptr || given->desc.dims.empty() || given->desc.dims.back() != channels ||
        given->desc.elements() != channels || given->desc.rank() > graph_.values[to].desc.rank()) {
      return kAbsent;
    }
    if (given->desc.rank() == 1) return other;
    CONVOY_TRY(HostTensor flat, HostTensor::allocate(TensorDesc::packed(given->desc.type, {channels})));
    std::memcpy(flat.as<std::byte>(), given->as<std::byte>(), static_cast<std::size_t>(given->desc.bytes()));
    return graph_.add_constant(add.desc.name + ".bias", std::move(flat));
  }

  Result<void> rewrite(std::size_t n) {
    const Node product = graph_.nodes[n];  // a copy: nodes and values move when some are added
    const std::string& name = product.desc.name;
    const int x = product.inputs[0];
    const TensorDesc in = graph_.values[x].desc;
    const int rank = in.rank();
    const HostTensor b = *graph_.constant_of(product.inputs[1]);
    const auto producers = graph_.producers();
    const auto readers = graph_.readers();
    Dims pixels = in.dims;
    std::rotate(pixels.begin() + 1, pixels.end() - 1, pixels.end());
    int source = x;
    if (producers[x] != kAbsent && is_transpose(graph_.nodes[producers[x]], to_last(rank))) {
      source = graph_.nodes[producers[x]].inputs[0];
    } else {
      source = new_value(name + ".pixels", in.type, pixels);
      transpose(product, x, source, to_first(rank));
    }
    pixels[1] = b.desc.dims[1];
    CONVOY_TRY(const int filters, filters_of(name, b, rank));
    int now = new_value(name + ".channels", in.type, pixels);
    Node& conv = graph_.nodes[n];
    conv.desc.op = "Conv";
    conv.desc.opset = 11;
    conv.desc.attributes.clear();
    conv.inputs = {source, filters};
    conv.outputs = {now};
    int maker = static_cast<int>(n), old = product.outputs[0];  // of `now`, which stands for `old`
    for (;;) {
      if (readers[old].size() != 1 || graph_.is_output(old)) break;
      const int at = readers[old][0];
      if (is_transpose(graph_.nodes[at], to_first(rank))) {
        graph_.nodes[maker].outputs[0] = graph_.nodes[at].outputs[0];
        graph_.nodes[at].erased = true;
        return {};
      }
      CONVOY_TRY(const int bias, maker == static_cast<int>(n) && graph_.nodes[n].inputs.size() == 2
                                     ? bias_of(graph_.nodes[at], old, b.desc.dims[1])
                                     : Result<int>(kAbsent));
      Node& next = graph_.nodes[at];
      if (bias != kAbsent) {
        graph_.nodes[n].inputs.push_back(bias);
        graph_.nodes[n].sources.insert(graph_.nodes[n].sources.end(), next.sources.begin(), next.sources.end());
        next.erased = true;
        old = next.outputs[0];
        continue;
      }
      if (next.inputs[0] != old || !activation_of(graph_, next)) break;
      old = next.outputs[0];
      next.inputs[0] = now;
      now = new_value(next.desc.name + ".channels", in.type, pixels);
      graph_.nodes[at].outputs[0] = now;
      maker = at;
    }
    transpose(product, now, old, to_last(rank));
    return {};
  }

  Graph& graph_;
};

}  // namespace

Result<int> pixel_products(Graph& graph, const PassContext& context) {
  if (!context.on_gpu) return 0;
  CONVOY_TRY(const int changes, PixelProductRewriting(graph).run());
  CONVOY_CHECK(topological_order(graph, context));
  return changes;
}

}  // namespace convoy::network
