// Where the network's home is a GPU, products of pixels with a constant matrix run as 1x1 convolutions, whose engines
// add the bias, the activation and a residual, too. Exporters write so what a network computes channels last:
//   MatMul of x [N, .., K], of 4 or 5 dims, and b [K, M]  ->  Transpose to channels first, Conv, Transpose back
// transpose_sinking removes the Transposes between two of them.
#include <cstring>

#include "network/graph/pass.h"
#include "network/graph/passes/channels_first.h"

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

  int new_value(const std::string& name, DataType type, Dims dims) {
    const int id = graph_.add_value(name);
    graph_.values[id].known = true;
    graph_.values[id].desc = TensorDesc::packed(type, std::move(dims));
    return id;
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

  Result<void> rewrite(std::size_t n) {
    const Node product = graph_.nodes[n];  // a copy: nodes and values move when some are added
    const std::string& name = product.desc.name;
    const int x = product.inputs[0];
    const TensorDesc in = graph_.values[x].desc;
    const int rank = in.rank();
    const HostTensor b = *graph_.constant_of(product.inputs[1]);
    const int source = new_value(name + ".pixels", in.type, channels_first(in.dims));
    add_transpose(graph_, product, x, source, first_order(rank));
    Dims pixels = graph_.values[source].desc.dims;
    pixels[1] = b.desc.dims[1];
    CONVOY_TRY(const int filters, filters_of(name, b, rank));
    const int now = new_value(name + ".channels", in.type, pixels);
    Node& conv = graph_.nodes[n];
    conv.desc.op = "Conv";
    conv.desc.opset = 11;
    conv.desc.attributes.clear();
    conv.inputs = {source, filters};
    conv.outputs = {now};
    add_transpose(graph_, product, now, product.outputs[0], last_order(rank));
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
