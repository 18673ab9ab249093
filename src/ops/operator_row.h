// An operator's row in the table: what is asked of it besides what it computes, each answered in its family's file and
// nowhere else. No answer may be left out.
#pragma once

#include <array>

#include "ops/images.h"
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
namespace values {
inline Values mixed(const NodeDesc&) { return {}; }
inline Values moved(const NodeDesc&) { return {Values::moved}; }
inline Values mapped(const NodeDesc&) { return {Values::mapped, {0, -1}}; }
inline Values mapped_two(const NodeDesc&) { return {Values::mapped, {0, 1}}; }
inline Values mapped_bytes(const NodeDesc&) { return {Values::mapped, {0, 3}}; }  // each with its scale and zero point
}  // namespace values

struct OperatorRow {
  OperatorRow(std::string_view name, const Operator* computes, ImageRule keeps_images, Rate predicts,
              ValuesRule gives_values, std::string_view of_domain = "")
      : op(name),
        implementation(computes),
        images(keeps_images),
        rate(predicts),
        values(gives_values),
        domain(of_domain) {}

  std::string_view op;
  const Operator* implementation;
  ImageRule images;  // whether each image of a batch is computed apart
  Rate rate;
  ValuesRule values;
  std::string_view domain;
};

// The row of a node's operator, or null: unknown. "ai.onnx" is ONNX's own domain, too.
const OperatorRow* find_row(std::string_view domain, std::string_view op);
// All of them, by domain and name.
std::vector<const OperatorRow*> operator_rows();

}  // namespace convoy::ops
