// ONNX Runtime's QLinearConcat: 8-bit tensors side by side, each brought to the output's scale and zero point.
#include <fmt/format.h>

#include <cstring>
#include <optional>

#include "ops/operator_row.h"
#include "ops/quantized/look_up.h"
#include "ops/quantized/quantize.h"

namespace convoy::ops {
namespace {

// Inputs: the output's scale and zero point, then x, its scale and zero point for each part.
class QLinearConcat final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 4, -1));
    if (inputs.size() % 3 != 2)
      return bad_node(node, fmt::format("has {} inputs, it takes 2 and 3 a part", inputs.size()));
    const TensorDesc& first = inputs[2].desc;
    CONVOY_CHECK(check_type(node, inputs, 2, kBytes));
    CONVOY_CHECK(check_quantizer(node, inputs, 0, 1, first.type));
    CONVOY_TRY(const int axis, axis_of(node, inputs));
    Dims dims = first.dims;
    dims[axis] = 0;
    for (int i = 2; i < static_cast<int>(inputs.size()); i += 3) {
      if (!inputs[i].present) return bad_node(node, fmt::format("input {} is absent, it is required", i));
      CONVOY_CHECK(check_type(node, inputs, i, only(first.type)));
      CONVOY_CHECK(check_quantizer(node, inputs, i + 1, i + 2, first.type));
      Dims own = inputs[i].desc.dims;
      const std::int64_t size = own.size() == dims.size() ? own[axis] : 0;
      if (own.size() == dims.size()) own[axis] = dims[axis];
      if (own != dims) {
        return bad_node(node, fmt::format("input {} has dims [{}] and input 2 [{}]; they may differ along axis {} only",
                                          i, to_string(inputs[i].desc.dims), to_string(first.dims), axis));
      }
      if (__builtin_add_overflow(dims[axis], size, &dims[axis])) return bad_node(node, "the output dim overflows");
    }
    return one_output(node, first.type, std::move(dims));
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    CONVOY_TRY(const int axis, axis_of(node, inputs));
    std::vector<Part> parts;
    std::int64_t at = 0;
    for (std::size_t i = 2; i < inputs.size(); i += 3) {
      TensorDesc y = outputs[0];
      y.dims = inputs[i].desc.dims;
      parts.push_back({BroadcastLoop({y, inputs[i].desc}), at * y.strides[axis]});
      at += y.dims[axis];
    }
    const DataType type = outputs[0].type;
    std::vector<ByteTable> known;
    if (const auto constants = constant_quantizers(inputs)) known = tables_of(type, *constants);
    return make_plan(node,
                     [parts, type, known, row = look_up_row(request.cpu)](auto in, auto out,
                                                                          const ExecContext& context) -> Result<void> {
                       const std::vector<ByteTable> read =
                           known.empty() ? tables_of(type, in) : std::vector<ByteTable>();
                       const std::vector<ByteTable>& tables = known.empty() ? read : known;
                       for (std::size_t p = 0; p < parts.size(); ++p) {
                         copy(parts[p], tables[p], static_cast<const std::uint8_t*>(in[2 + 3 * p]),
                              static_cast<std::uint8_t*>(out[0]), row, context);
                       }
                       return {};
                     });
  }

 private:
  struct Part {
    BroadcastLoop loop;  // of the output's part and x
    std::int64_t offset;
  };

  // The node's inputs where all scales and zero points are constants; those of the parts themselves are null.
  static std::optional<std::vector<const void*>> constant_quantizers(std::span<const Input> inputs) {
    std::vector<const void*> constants(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (i % 3 == 2 || !inputs[i].present) continue;
      if (inputs[i].constant == nullptr) return std::nullopt;
      constants[i] = inputs[i].constant;
    }
    return constants;
  }

  // What becomes of the bytes of each part.
  static std::vector<ByteTable> tables_of(DataType type, std::span<const void* const> in) {
    const Quantizer qy = read_quantizer(in, 0, 1, type);
    std::vector<ByteTable> tables(in.size() / 3);
    for (std::size_t p = 0; p < tables.size(); ++p) {
      const int i = static_cast<int>(2 + 3 * p);
      const Quantizer qx = read_quantizer(in, i + 1, i + 2, type);
      dispatch<kBytes>(type, [&]<class Q>(Tag<Q>) {
        for (int byte = 0; byte < 256; ++byte) {
          tables[p][byte] = static_cast<std::uint8_t>(qy.quantized<Q>(qx.real(static_cast<Q>(byte))));
        }
      });
    }
    return tables;
  }

  static void copy(const Part& part, const ByteTable& table, const std::uint8_t* x, std::uint8_t* y, LookUpRow row,
                   const ExecContext& context) {
    const std::int64_t ys = part.loop.inner_stride(0), xs = part.loop.inner_stride(1);
    bool unchanged = true;
    for (int byte = 0; byte < 256; ++byte) unchanged = unchanged && table[byte] == byte;
    parallel_for(context, part.loop.elements(), 2, [&](std::int64_t begin, std::int64_t end) {
      part.loop.run(begin, end, [&](const std::int64_t* at, std::int64_t count) {
        const std::uint8_t* from = x + at[1];
        std::uint8_t* to = y + part.offset + at[0];
        if (ys != 1 || xs != 1) {
          for (std::int64_t i = 0; i < count; ++i) to[i * ys] = table[from[i * xs]];
        } else if (unchanged) {
          std::memcpy(to, from, static_cast<std::size_t>(count));
        } else {
          row(table, from, to, count);
        }
      });
    });
  }

  static Result<int> axis_of(const NodeDesc& node, std::span<const Input> inputs) {
    if (!node.has("axis")) return bad_node(node, "attribute 'axis' is required");
    CONVOY_TRY(const std::int64_t axis, node.integer("axis", 0));
    return normalize_axis(node, axis, inputs[2].desc.rank(), "axis");
  }
};

const QLinearConcat qlinear_concat;

}  // namespace

std::vector<OperatorRow> qlinear_concat_rows() {
  return {{"QLinearConcat", &qlinear_concat, images::qlinear_concat, Rate::others, values::mixed, in_place::never,
           layouts::plain, only(DataType::f32), "com.microsoft"}};
}

}  // namespace convoy::ops
