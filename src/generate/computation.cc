#include "generate/computation.h"

namespace convoy::generate {

Subscript Subscript::broadcast(const TensorDesc& tensor, int rank) {
  Subscript place{tensor, {}};
  for (int d = 0; d < tensor.rank(); ++d) {
    place.coordinates.push_back(
        tensor.dims[static_cast<std::size_t>(d)] == 1 ? Coordinate::at(0) : Coordinate::of(rank - tensor.rank() + d));
  }
  return place;
}

Expression itself(int index) {
  Expression expression;
  expression.result = {Term::input, index};
  return expression;
}

Expression of(Function function) {
  Expression expression;
  expression.steps = {{function, {Term::input, 0}, {Term::input, 1}, {Term::input, 2}}};
  expression.result = {Term::step, 0};
  return expression;
}

}  // namespace convoy::generate
