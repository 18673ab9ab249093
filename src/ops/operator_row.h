// An operator's row in the table: what is asked of it besides what it computes, each answered in its family's file and
// nowhere else. No answer may be left out.
#pragma once

#include <array>

#include "ops/element.h"
#include "ops/images.h"
#include "ops/index_map.h"
#include "ops/operator.h"

namespace convoy::ops {

// Which rates predict its time (prediction.cc).
enum class Rate : std::uint8_t {
  moves,
  transposes,
  elements,   // what memory is waited for
  functions,  // exponentials and the like
  windows,    // of pools
  reductions,
  resizes,
  normalizations,
  channel_normalizations,
  quantization,
  quantized_arithmetic,
  lookups,
  products,  // with one row, as at the end of a network, the weights are what is read
  recurrent,
  others,
};

std::string_view name_of(Rate rate);  // "channel_normalizations"

// What the values of its first output are.
struct Values {
  enum Kind : std::uint8_t {
    mixed,   // anything else
    moved,   // those of its first input, moved or selected: any increasing function may as well be applied behind
    mapped,  // functions of single elements of `operands`
  } kind = mixed;
  std::array<int, 2> operands{-1, -1};
};
using ValuesRule = Values (*)(const NodeDesc& node);
// That, and where elements come from.
struct GivenValues {
  ValuesRule kind;
  MapRule maps;
};
namespace values {
constexpr GivenValues mixed{[](const NodeDesc&) { return Values(); }, maps::none};
constexpr GivenValues selected{[](const NodeDesc&) { return Values{Values::moved}; }, maps::none};
constexpr GivenValues mapped{[](const NodeDesc&) { return Values{Values::mapped, {0, -1}}; }, maps::none};
constexpr GivenValues mapped_two{[](const NodeDesc&) { return Values{Values::mapped, {0, 1}}; }, maps::none};
// Each with its scale and zero point.
constexpr GivenValues mapped_bytes{[](const NodeDesc&) { return Values{Values::mapped, {0, 3}}; }, maps::none};
constexpr GivenValues moved_by(MapRule maps) { return {selected.kind, maps}; }
constexpr GivenValues joined_by(MapRule maps) { return {mixed.kind, maps}; }  // with others, or with what fills
}  // namespace values

// The input whose memory the first output may share (of the same shape and element size, read before it is written),
// or -1.
using InPlaceRule = int (*)(const NodeDesc& node);
namespace in_place {
inline int never(const NodeDesc&) { return -1; }
inline int first(const NodeDesc&) { return 0; }
}  // namespace in_place

// Whether it runs with every activation (input or output of rank >= 3 that is not constant) in a layout, which is nchw
// for all.
enum class Taken : std::uint8_t {
  no,
  as_it_is,
  as_samples,  // blocks of channels as more samples with fewer channels (blocks.h): each channel of each sample is
               // computed alike, from its own elements and numbers that hold for all
};
using LayoutRule = Taken (*)(const NodeDesc& node, std::span<const Input> inputs, Layout layout);
namespace layouts {
inline Taken where(bool taken) { return taken ? Taken::as_it_is : Taken::no; }
inline Taken row_major(const NodeDesc&, std::span<const Input>, Layout layout) { return where(layout == Layout::nchw); }
// Channels first or last: elements or channels are computed apart, or found by strides.
inline Taken plain(const NodeDesc&, std::span<const Input>, Layout layout) {
  return where(layout == Layout::nchw || layout == Layout::nhwc);
}
// Those, and blocks of channels.
inline Taken channels_alike(const NodeDesc& node, std::span<const Input> inputs, Layout layout) {
  return layout == Layout::nchw8c || layout == Layout::nchw16c ? Taken::as_samples : plain(node, inputs, layout);
}
inline Taken all(const NodeDesc&, std::span<const Input>, Layout) { return Taken::as_it_is; }
}  // namespace layouts

struct OperatorRow {
  OperatorRow(std::string_view name, const Operator* computes, ImageRule keeps_images, Rate predicts, GivenValues gives,
              InPlaceRule shares, LayoutRule takes_layouts, TypeSet takes_types, std::string_view of_domain = "")
      : op(name),
        implementation(computes),
        images(keeps_images),
        rate(predicts),
        values(gives.kind),
        maps(gives.maps),
        in_place(shares),
        layouts(takes_layouts),
        types(takes_types),
        domain(of_domain) {}

  // Operator::infer of what has a first input of its types.
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const;

  std::string_view op;
  const Operator* implementation;
  ImageRule images;  // whether each image of a batch is computed apart
  Rate rate;
  ValuesRule values;
  MapRule maps;
  InPlaceRule in_place;
  LayoutRule layouts;
  TypeSet types;  // of its first input
  std::string_view domain;
};

// The row of a node's operator, or null: unknown. "ai.onnx" is ONNX's own domain, too.
const OperatorRow* find_row(std::string_view domain, std::string_view op);
// All of them, by domain and name.
std::vector<const OperatorRow*> operator_rows();

}  // namespace convoy::ops
