// Col2Im: columns of blocks summed back into images, the adjoint of taking the blocks out.
#include "ops/vision/col2im.h"

#include <fmt/format.h>

#include <cstring>

#include "ops/indexing.h"
#include "ops/math_types.h"
#include "ops/operator_row.h"

namespace convoy::ops {
namespace {

class Col2Im final : public Operator {
 public:
  std::vector<int> shape_inputs(const NodeDesc&) const override { return {1, 2}; }

  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 3, 3));
    CONVOY_TRY(const Blocks blocks, blocks_of(node, inputs));
    const Dims& x = inputs[0].desc.dims;
    auto block = checked_elements(blocks.block), count = checked_elements(blocks.count);
    if (!block.ok()) return block.error().within(node.op);
    if (!count.ok()) return count.error().within(node.op);
    if (x.size() != 3 || x[1] % *block != 0 || x[2] != *count) {
      return bad_node(node, fmt::format("input 0 has dims [{}]; a multiple of {} rows and {} columns are needed",
                                        to_string(x), *block, *count));
    }
    Dims dims{x[0], x[1] / *block};
    dims.insert(dims.end(), blocks.image.begin(), blocks.image.end());
    return one_output(node, inputs[0].desc.type, std::move(dims));
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    CONVOY_TRY(const Blocks blocks, blocks_of(node, inputs));
    const TensorDesc& y = outputs[0];
    return dispatch<kMathNumeric>(y.type, [&]<class T>(Tag<T>) {
      return make_plan(node, [=](auto in, auto out, const ExecContext& context) -> Result<void> {
        const int spatial = static_cast<int>(blocks.image.size());
        const std::int64_t area = product(blocks.image, 0, spatial), taps = product(blocks.block, 0, spatial);
        const std::int64_t places = product(blocks.count, 0, spatial);
        parallel_for(context, y.dims[0] * y.dims[1], taps * places * 4, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t plane = begin; plane < end; ++plane) {
            T* to = static_cast<T*>(out[0]) + plane * area;
            const T* from = static_cast<const T*>(in[0]) + plane * taps * places;
            std::fill_n(to, area, T(0));
            for (std::int64_t i = 0; i < taps * places; ++i) {
              std::int64_t tap = i / places, place = i % places, at = 0, step = 1;
              bool inside = true;
              for (int d = spatial - 1; d >= 0; --d) {
                const std::int64_t x = place % blocks.count[d] * blocks.stride[d] +
                                       tap % blocks.block[d] * blocks.dilation[d] - blocks.pad[d];
                place /= blocks.count[d];
                tap /= blocks.block[d];
                inside = inside && x >= 0 && x < blocks.image[d];
                at += x * step;
                step *= blocks.image[d];
              }
              if (!inside) continue;
              if constexpr (std::is_integral_v<T>) {  // wraps around
                to[at] = static_cast<T>(static_cast<std::uint64_t>(to[at]) + static_cast<std::uint64_t>(from[i]));
              } else {
                to[at] = T(static_cast<Compute<T>>(to[at]) + static_cast<Compute<T>>(from[i]));
              }
            }
          }
        });
        return {};
      });
    });
  }
};

const Col2Im col2im;

}  // namespace

Result<Blocks> blocks_of(const NodeDesc& node, std::span<const Input> inputs) {
  Blocks blocks;
  CONVOY_TRY(blocks.image, constant_integers(node, inputs, 1));
  CONVOY_TRY(blocks.block, constant_integers(node, inputs, 2));
  const std::size_t spatial = blocks.image.size();
  CONVOY_TRY(blocks.stride, node.integers("strides", Dims(spatial, 1)));
  CONVOY_TRY(blocks.dilation, node.integers("dilations", Dims(spatial, 1)));
  CONVOY_TRY(const Dims pads, node.integers("pads", Dims(2 * spatial, 0)));
  if (spatial == 0 || blocks.block.size() != spatial || blocks.stride.size() != spatial ||
      blocks.dilation.size() != spatial || pads.size() != 2 * spatial) {
    return bad_node(
        node, fmt::format("image_shape, block_shape, strides, dilations and pads have {}, {}, {}, {} and {} "
                          "entries",
                          spatial, blocks.block.size(), blocks.stride.size(), blocks.dilation.size(), pads.size()));
  }
  constexpr std::int64_t kLargest = std::int64_t{1} << 30;  // products of two stay within 63 bits
  for (std::size_t d = 0; d < spatial; ++d) {
    const auto in_range = [&](std::int64_t value, std::int64_t least) { return value >= least && value <= kLargest; };
    const bool valid = in_range(blocks.image[d], 1) && in_range(blocks.block[d], 1) && in_range(blocks.stride[d], 1) &&
                       in_range(blocks.dilation[d], 1) && in_range(pads[d], 0) && in_range(pads[spatial + d], 0);
    const std::int64_t room =
        valid ? blocks.image[d] + pads[d] + pads[spatial + d] - (blocks.block[d] - 1) * blocks.dilation[d] - 1 : -1;
    if (room < 0) {
      return bad_node(node,
                      fmt::format("blocks of {} with stride {} and dilation {} do not fit image dim {} of size {}",
                                  blocks.block[d], blocks.stride[d], blocks.dilation[d], d, blocks.image[d]));
    }
    blocks.pad.push_back(pads[d]);
    blocks.count.push_back(room / blocks.stride[d] + 1);
  }
  return blocks;
}

std::vector<OperatorRow> col2im_rows() {
  return {{"Col2Im", &col2im, images::each_alone, Rate::others, values::mixed, in_place::never, layouts::row_major,
           kMathNumeric}};
}

}  // namespace convoy::ops
