// DepthToSpace and SpaceToDepth: blocks of b x b pixels against channels.
#include <fmt/format.h>

#include "ops/movement/map_copy.h"
#include "ops/operator_row.h"
#include "ops/support.h"

namespace convoy::ops {
namespace {

Result<bool> is_crd(const NodeDesc& node, bool to_space) {
  if (!to_space && node.opset < 28) return false;  // the attribute is that new
  CONVOY_TRY(const std::string mode, node.text("mode", "DCR"));
  if (mode != "DCR" && mode != "CRD") return bad_node(node, "mode='" + mode + "' is not DCR or CRD");
  return mode == "CRD";
}

Result<std::int64_t> block(const NodeDesc& node) {
  CONVOY_TRY(const std::int64_t b, node.integer("blocksize", 0));
  if (b < 1 || b > (1 << 20)) return bad_node(node, fmt::format("blocksize={} must be in [1, {}]", b, 1 << 20));
  return b;
}

class BlockOperator final : public MapOperator {
 public:
  constexpr explicit BlockOperator(bool to_space) : to_space_(to_space) {}

  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, 1));
    CONVOY_TRY(const std::int64_t b, block(node));
    if (auto crd = is_crd(node, to_space_); !crd.ok()) return crd.error();
    Dims dims = inputs[0].desc.dims;
    if (dims.size() != 4) return bad_node(node, "input 0 has dims [" + to_string(dims) + "]; rank 4 is needed");
    const bool divides = to_space_ ? dims[1] % (b * b) == 0 : dims[2] % b == 0 && dims[3] % b == 0;
    if (!divides) return bad_node(node, fmt::format("blocksize={} does not divide dims [{}]", b, to_string(dims)));
    dims[1] = to_space_ ? dims[1] / (b * b) : dims[1];
    bool overflows = !to_space_ && __builtin_mul_overflow(dims[1], b * b, &dims[1]);
    for (const int d : {2, 3}) {
      if (to_space_) {
        overflows = __builtin_mul_overflow(dims[d], b, &dims[d]) || overflows;
      } else {
        dims[d] /= b;
      }
    }
    if (overflows) return bad_node(node, "an output dim overflows");
    return one_output(node, inputs[0].desc.type, std::move(dims));
  }

 private:
  bool to_space_;
};

// With c' the channels of the deep tensor divided by b*b, its channel is (b1 * b + b2) * c' + c (DCR, and SpaceToDepth
// before opset 28) or (c * b + b1) * b + b2 (CRD); the wide tensor's pixel is (h * b + b1, w * b + b2).
template <bool kToSpace>
std::vector<IndexMap> map_of_blocks(const NodeDesc& node, std::span<const Input> inputs,
                                    std::span<const TensorDesc> outputs) {
  const auto b = block(node);
  const auto crd = is_crd(node, kToSpace);
  if (!b.ok() || !crd.ok()) return {};
  const std::int64_t c = (kToSpace ? outputs[0] : inputs[0].desc).dims[1];
  // What a step of c, b1 and b2 is among the channels of the deep tensor.
  const std::int64_t of_c = *crd ? *b * *b : 1, of_b1 = *crd ? *b : *b * c, of_b2 = *crd ? 1 : c;
  std::vector<Index> indices{{0, {{0}}}, {}, {}, {}};
  if (kToSpace) {
    indices[1].terms = {{1, of_c}, {2, of_b1, 1, *b}, {3, of_b2, 1, *b}};
    indices[2].terms = {{2, 1, *b}};
    indices[3].terms = {{3, 1, *b}};
  } else {
    indices[1].terms = {{1, 1, of_c, c}};
    indices[2].terms = {{2, *b}, {1, 1, of_b1, *b}};
    indices[3].terms = {{3, *b}, {1, 1, of_b2, *b}};
  }
  return {map_of(inputs[0].desc, outputs[0], std::move(indices))};
}

const BlockOperator depth_to_space(true);
const BlockOperator space_to_depth(false);

}  // namespace

std::vector<OperatorRow> depth_to_space_rows() {
  return {{"DepthToSpace", &depth_to_space, images::each_alone, Rate::moves, values::moved_by(map_of_blocks<true>),
           in_place::never, layouts::plain, kEveryType},
          {"SpaceToDepth", &space_to_depth, images::each_alone, Rate::moves, values::moved_by(map_of_blocks<false>),
           in_place::never, layouts::plain, kEveryType}};
}

}  // namespace convoy::ops
