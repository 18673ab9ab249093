#include "engines/reference/evaluator.h"

namespace convoy::reference {
namespace {

Operands operands_of(const ConvProblem& problem, const ConvArgs& args) {
  switch (problem.pass) {
    case Pass::fprop:
      return {problem.x.type,
              problem.w.type,
              args.x,
              args.w,
              problem.x_zero_given ? *args.x_zero_point : problem.x_zero_point,
              problem.w_zero_point};
    case Pass::dgrad:
      return {problem.y.type, problem.w.type, args.y, args.w, problem.y_zero_point, problem.w_zero_point};
    case Pass::wgrad:
      break;
  }
  return {problem.x.type, problem.y.type, args.x, args.y, problem.x_zero_point, problem.y_zero_point};
}

// x times the gate, placed as `to` says.
std::vector<std::byte> gated(const ConvProblem& problem, const ConvArgs& args, const Placement& from,
                             const Placement& to) {
  const DataType type = problem.x.type;
  std::vector<std::byte> product(static_cast<std::size_t>(from.elements()) * size_of(type));
  for (std::int64_t i = 0; i < from.elements(); ++i) {
    const Coords at = from.coords(i);
    const double x = load_as_double(type, args.x, from.offset(at));
    const double gate = load_as_double(type, args.gate, at[0] * problem.in_channels() + at[1]);
    store_from_double(type, product.data(), to.offset(at), x * gate);
  }
  return product;
}

}  // namespace

Evaluator::Evaluator(const ConvProblem& problem, const ConvArgs& args)
    : problem_(problem),
      args_(args),
      geometry_(problem),
      operands_(operands_of(problem, args)),
      reduce_(reduce_function(problem, operands_)) {
  if (!problem.gate) return;
  const Placement packed = place(TensorDesc::packed(problem.x.type, problem.x.dims));
  gated_ = gated(problem, args, geometry_.x, packed);
  geometry_.x = packed;
  operands_.a = gated_.data();
}

Reduction Evaluator::reduce(const Coords& at) const {
  if (!problem_.w_zero_given) return reduce_(geometry_, at, operands_);
  Operands of_channel = operands_;
  of_channel.b_zero_point = args_.w_zero_points[geometry_.channel(at)];
  return reduce_(geometry_, at, of_channel);
}

EpilogueValues Evaluator::values(const Coords& at) const {
  const Epilogue& epilogue = problem_.epilogue;
  const DataType type = problem_.out().type;
  const std::int64_t channel = geometry_.channel(at);
  EpilogueValues values;
  if (problem_.beta != 0) values.prior = load_as_double(type, args_.out, geometry_.out().offset(at));
  if (epilogue.bias) values.bias = load_as_double(problem_.bias_type(), args_.bias, channel);
  if (epilogue.adds_z()) values.z = load_as_double(type, args_.z, geometry_.out().offset(at));
  if (epilogue.activation.kind == ActivationKind::prelu) values.slope = args_.slopes[channel];
  if (epilogue.requantize != Requantize::none) {
    values.scale = args_.scales[epilogue.requantize == Requantize::per_channel ? channel : 0];
  }
  return values;
}

double Evaluator::exact(double sum, const EpilogueValues& values) const {
  const double v = epilogue_before_rounding(problem_, sum, values);
  const bool has_zero_point = problem_.epilogue.requantize != Requantize::none && is_integer(problem_.out().type);
  return has_zero_point ? v + problem_.y_zero_point : v;
}

double Evaluator::stored(double sum, const EpilogueValues& values) const {
  return quantize(problem_, epilogue_before_rounding(problem_, sum, values));
}

void Evaluator::store(const Coords& at, void* out) const {
  store_from_double(problem_.out().type, out, geometry_.out().offset(at), stored(reduce(at).sum, values(at)));
}

}  // namespace convoy::reference
