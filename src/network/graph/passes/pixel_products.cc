// Where the network's home is a GPU, products of pixels with a constant matrix run as 1x1 convolutions, whose engines
// add the bias, the activation and a residual, too. Exporters write so what a network computes channels last:
//   MatMul of x [N, .., K], of 4 or 5 dims, and b [K, M]  ->  Transpose to channels first, Conv, Transpose back
// transpose_sinking removes the Transposes between two of them. So do the last layers of a classifier, for few images
// of 16 bits: of one image cuBLASLt takes 6 to 13 us on an H200, and cuda.gemv is predicted to take 3.
//   Gemm of x [N, K] and b [K, M]  ->  Unsqueeze, Conv, Squeeze
#include <algorithm>
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
    producers_ = graph_.producers();
    for (std::size_t n = 0; n < count; ++n) {
      const bool product = is_product(graph_.nodes[n]);
      if (!product && !is_classifier(graph_.nodes[n])) continue;
      CONVOY_CHECK(product ? rewrite(n) : rewrite_classifier(n));
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

  bool is_classifier(const Node& node) const {
    constexpr std::int64_t kMostRows = 8;
    if (node.erased || node.desc.op != "Gemm" || !node.desc.domain.empty()) return false;
    const auto is = [&](const char* name, double value) {
      const auto real = node.desc.real(name, 1);
      return real.ok() && *real == value;
    };
    const auto transposes_x = node.desc.integer("transA", 0);
    if (!is("alpha", 1) || !is("beta", 1) || !transposes_x.ok() || *transposes_x != 0) return false;
    const Value& x = graph_.values[node.inputs[0]];
    const HostTensor* const b = graph_.constant_of(node.inputs[1]);
    const Value& y = graph_.values[node.outputs[0]];
    if (b == nullptr || !x.known || x.constant || !y.known || x.desc.rank() != 2 || b->desc.type != x.desc.type ||
        !is_floating(x.desc.type) || size_of(x.desc.type) != 2 || x.desc.dims[0] > kMostRows ||
        x.desc.elements() == 0 || b->desc.elements() == 0) {
      return false;
    }
    if (node.inputs.size() < 3 || node.inputs[2] == kAbsent) return true;
    const HostTensor* const c = graph_.constant_of(node.inputs[2]);
    const std::int64_t columns = y.desc.dims[1];
    return c != nullptr && c->desc.type == x.desc.type && c->desc.elements() == columns && c->desc.rank() > 0 &&
           c->desc.dims.back() == columns;
  }

  int new_value(const std::string& name, DataType type, Dims dims) {
    const int id = graph_.add_value(name);
    graph_.values[id].known = true;
    graph_.values[id].desc = TensorDesc::packed(type, std::move(dims));
    return id;
  }

  // [M, K, 1, ..] of [K, M] or, transposed, [M, K].
  Result<int> filters_of(const std::string& name, const HostTensor& b, int rank, bool transposed = false) {
    const std::int64_t depth = b.desc.dims[transposed ? 1 : 0], columns = b.desc.dims[transposed ? 0 : 1];
    Dims dims(static_cast<std::size_t>(rank), 1);
    dims[0] = columns;
    dims[1] = depth;
    CONVOY_TRY(HostTensor filters, HostTensor::allocate(TensorDesc::packed(b.desc.type, dims)));
    const std::size_t size = size_of(b.desc.type);
    const auto* const from = b.as<std::byte>();
    auto* const to = filters.as<std::byte>();
    if (transposed) std::memcpy(to, from, static_cast<std::size_t>(b.desc.bytes()));
    for (std::int64_t m = 0; m < columns && !transposed; ++m) {
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

  Result<void> rewrite_classifier(std::size_t n) {
    const Node gemm = graph_.nodes[n];  // a copy, as above
    const std::string& name = gemm.desc.name;
    const TensorDesc in = graph_.values[gemm.inputs[0]].desc;
    const HostTensor b = *graph_.constant_of(gemm.inputs[1]);
    CONVOY_TRY(const std::int64_t transposed, gemm.desc.integer("transB", 0));
    CONVOY_TRY(const int filters, filters_of(name, b, 4, transposed != 0));
    std::vector<int> inputs = {pixels_of(gemm, in), filters};
    const std::int64_t columns = graph_.values[filters].desc.dims[0];
    if (gemm.inputs.size() > 2 && gemm.inputs[2] != kAbsent) {
      HostTensor bias = *graph_.constant_of(gemm.inputs[2]);
      bias.desc = TensorDesc::packed(bias.desc.type, {columns});
      inputs.push_back(graph_.add_constant(name + ".bias", std::move(bias)));
    }
    const int now = new_value(name + ".channels", in.type, {in.dims[0], columns, 1, 1});
    Node& conv = graph_.nodes[n];
    conv.desc.op = "Conv";
    conv.desc.opset = 11;
    conv.desc.attributes.clear();
    conv.inputs = std::move(inputs);
    conv.outputs = {now};
    add_reshape(gemm, "Squeeze", now, gemm.outputs[0]);
    return {};
  }

  // [N, K, 1, 1], which the pooling in front mostly has.
  int pixels_of(const Node& gemm, const TensorDesc& in) {
    const Dims dims = {in.dims[0], in.dims[1], 1, 1};
    const int x = gemm.inputs[0];
    if (const int producer = producers_[static_cast<std::size_t>(x)]; producer != kAbsent) {
      const Node& before = graph_.nodes[static_cast<std::size_t>(producer)];
      const bool reshapes = before.desc.op == "Flatten" || before.desc.op == "Reshape" || before.desc.op == "Squeeze";
      const int source = before.inputs.empty() ? kAbsent : before.inputs[0];
      if (reshapes && source != kAbsent && graph_.values[source].known && graph_.values[source].desc.dims == dims) {
        return source;
      }
    }
    const int pixels = new_value(gemm.desc.name + ".pixels", in.type, dims);
    add_reshape(gemm, "Unsqueeze", x, pixels);
    return pixels;
  }

  // Of the last two dims, which are 1.
  void add_reshape(const Node& like, const char* op, int from, int to) {
    Node& node = graph_.nodes.emplace_back();
    node.desc.op = op;
    node.desc.name = like.desc.name;
    node.desc.opset = 11;
    node.desc.attributes["axes"] = std::vector<std::int64_t>{2, 3};
    node.inputs = {from};
    node.outputs = {to};
    node.sources = like.sources;
  }

  Graph& graph_;
  std::vector<int> producers_;  // of the values that were there before
};

}  // namespace

Result<int> pixel_products(Graph& graph, const PassContext& context) {
  if (!context.on_gpu) return 0;
  CONVOY_TRY(const int changes, PixelProductRewriting(graph).run());
  CONVOY_CHECK(topological_order(graph, context));
  return changes;
}

}  // namespace convoy::network
