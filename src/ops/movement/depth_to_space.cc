// DepthToSpace and SpaceToDepth: blocks of b x b pixels against channels, one strided copy in six dims.
#include <fmt/format.h>

#include "ops/movement/strided_copy.h"
#include "ops/operator_row.h"

namespace convoy::ops {
namespace {

// With c' the channels of the deep tensor divided by b*b, its channel is (b1 * b + b2) * c' + c (DCR, and SpaceToDepth
// before opset 28) or (c * b + b1) * b + b2 (CRD); the wide tensor's pixel is (h * b + b1, w * b + b2).
class BlockOperator final : public Operator {
 public:
  constexpr explicit BlockOperator(bool to_space) : to_space_(to_space) {}
  bool accepts(const NodeDesc&, std::span<const Input>, Layout layout) const override { return is_plain(layout); }

  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, 1));
    CONVOY_TRY(const std::int64_t b, block(node));
    if (auto crd = is_crd(node); !crd.ok()) return crd.error();
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

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    CONVOY_TRY(const std::int64_t b, block(node));
    CONVOY_TRY(const bool crd, is_crd(node));
    const TensorDesc& deep = to_space_ ? inputs[0].desc : outputs[0];
    const TensorDesc& wide = to_space_ ? outputs[0] : inputs[0].desc;
    const std::int64_t c = wide.dims[1];
    const Dims dims{deep.dims[0], c, deep.dims[2], b, deep.dims[3], b};
    const Dims& ds = deep.strides;
    const Dims& ws = wide.strides;
    const Dims deep_strides{ds[0], crd ? b * b * ds[1] : ds[1], ds[2], crd ? b * ds[1] : b * c * ds[1],
                            ds[3], crd ? ds[1] : c * ds[1]};
    const Dims wide_strides{ws[0], ws[1], b * ws[2], ws[2], b * ws[3], ws[3]};
    const StridedCopy copy(size_of(outputs[0].type), dims, to_space_ ? deep_strides : wide_strides,
                           to_space_ ? wide_strides : deep_strides);
    return make_plan(node, [copy](auto in, auto out, const ExecContext& context) -> Result<void> {
      copy.run(in[0], out[0], context);
      return {};
    });
  }

 private:
  Result<bool> is_crd(const NodeDesc& node) const {
    if (!to_space_ && node.opset < 28) return false;  // the attribute is that new
    CONVOY_TRY(const std::string mode, node.text("mode", "DCR"));
    if (mode != "DCR" && mode != "CRD") return bad_node(node, "mode='" + mode + "' is not DCR or CRD");
    return mode == "CRD";
  }

  static Result<std::int64_t> block(const NodeDesc& node) {
    CONVOY_TRY(const std::int64_t b, node.integer("blocksize", 0));
    if (b < 1 || b > (1 << 20)) return bad_node(node, fmt::format("blocksize={} must be in [1, {}]", b, 1 << 20));
    return b;
  }

  bool to_space_;
};

const BlockOperator depth_to_space(true);
const BlockOperator space_to_depth(false);

}  // namespace

std::vector<OperatorRow> depth_to_space_rows() {
  return {{"DepthToSpace", &depth_to_space, images::each_alone, Rate::moves, values::moved},
          {"SpaceToDepth", &space_to_depth, images::each_alone, Rate::moves, values::moved}};
}

}  // namespace convoy::ops
