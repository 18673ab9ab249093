// NonZero: the coordinates of the elements that are not 0, in row-major order, one column each.
#include <fmt/format.h>

#include "ops/computed.h"
#include "ops/operator_row.h"
#include "ops/support.h"

namespace convoy::ops {
namespace {

// Elements by their bits, of which a float's first does not count: both its zeros are 0.
template <class Bits>
bool is_nonzero(Bits bits, int shift) {
  return static_cast<Bits>(bits << shift) != 0;
}

template <class Bits>
std::int64_t count_nonzero(const Bits* x, int shift, std::int64_t elements) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < elements; ++i) count += is_nonzero(x[i], shift) ? 1 : 0;
  return count;
}

// `y` has a row of `columns` for each dim, one for a scalar. What is found in a line of x differs in the last
// coordinate alone. No branch of the loop along it depends on the elements: it writes each coordinate where the next
// one found goes.
template <class Bits>
void write_coordinates(const TensorDesc& x, const Bits* values, int shift, std::int64_t columns, std::int64_t* y) {
  const int last = std::max(x.rank(), 1) - 1;
  const std::int64_t size = x.rank() == 0 ? 1 : x.dims[last];
  Dims line(static_cast<std::size_t>(last), 0);  // its coordinates
  for (std::int64_t column = 0; column < columns; values += size) {
    const std::int64_t first = column;
    for (std::int64_t i = 0; i < size && column < columns; ++i) {
      y[last * columns + column] = i;
      column += is_nonzero(values[i], shift) ? 1 : 0;
    }
    for (int d = 0; d < last; ++d) {
      for (std::int64_t found = first; found < column; ++found) y[d * columns + found] = line[d];
    }
    for (int d = last - 1; d >= 0 && ++line[d] == x.dims[d]; --d) line[d] = 0;
  }
}

class NonZero final : public ComputedOperator {
 public:
  std::vector<int> shape_inputs(const NodeDesc&) const override { return {0}; }

  Result<std::vector<HostTensor>> compute(const NodeDesc& node, std::span<const Input> inputs,
                                          const Allocate& allocate) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, 1));
    const TensorDesc& x = inputs[0].desc;
    return dispatch_bytes(size_of(x.type), [&]<class Bits>(Tag<Bits>) -> Result<std::vector<HostTensor>> {
      const auto* const values = static_cast<const Bits*>(inputs[0].constant);
      const int shift = contains(kFloats, x.type) ? 1 : 0;
      const std::int64_t count = count_nonzero(values, shift, x.elements());
      CONVOY_TRY(TensorDesc desc, make_output(node, DataType::s64, {std::max(x.rank(), 1), count}));
      CONVOY_TRY(HostTensor found, allocate(std::move(desc)));
      write_coordinates(x, values, shift, count, found.as<std::int64_t>());
      return std::vector{std::move(found)};
    });
  }
};

const NonZero op_NonZero;

}  // namespace

std::vector<OperatorRow> non_zero_rows() {
  return {{"NonZero", &op_NonZero, images::mixed, Rate::others, values::mixed, in_place::never, layouts::row_major,
           kAnyType}};
}

}  // namespace convoy::ops
