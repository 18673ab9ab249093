// Reductions, softmax and normalisations: folds over some dims, and what is made of each element with what they give.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "ops/generated/rules.h"
#include "ops/reduce/reduce.h"

namespace convoy::ops::generated {
namespace {

using generate::Function;
using generate::written;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The dims of a tensor as kept and folded positions.
struct Folding {
  Dims kept, folded;
  std::vector<int> number;  // of each dim's position

  Folding(const Dims& dims, const std::vector<bool>& folds) : number(dims.size()) {
    for (const bool of_folded : {false, true}) {
      for (std::size_t d = 0; d < dims.size(); ++d) {
        if (folds[d] != of_folded) continue;
        (of_folded ? folded : kept).push_back(dims[d]);
        number[d] = static_cast<int>(kept.size() + folded.size()) - 1;
      }
    }
  }
  // Of a tensor that broadcasts to the dims.
  Subscript place(const TensorDesc& tensor) const {
    Subscript place{tensor, {}};
    const std::size_t missing = number.size() - tensor.dims.size();
    for (std::size_t d = 0; d < tensor.dims.size(); ++d) {
      place.coordinates.push_back(tensor.dims[d] == 1 ? Coordinate::at(0) : Coordinate::of(number[missing + d]));
    }
    return place;
  }
  double count() const {
    double count = 1;
    for (const std::int64_t dim : folded) count *= static_cast<double>(dim);
    return count;
  }
  Computation computation(DataType type, const TensorDesc& x) const {
    return {.type = type, .kept = kept, .folded = folded, .loads = {{0, place(x)}}, .folds = {}, .stores = {}};
  }
};

Fold sum_of(Expression value) { return {generate::of(Function::add), 0, std::move(value), {}}; }

// ---- reductions

Expression squared() {
  return written([](auto in) { return in(0) * in(0); });
}

Result<Computation> reduce(const Described& d) {
  const std::string& op = d.node.op;
  const TensorDesc& x = d.inputs[0].desc;
  const int axes_are_input_since = op == "ReduceSum" ? 13 : 18;
  CONVOY_TRY(const std::vector<bool> reduced, reduced_axes(d.node, d.inputs, d.node.opset >= axes_are_input_since));
  const TensorDesc y = with_reduced_dims(d.outputs[0], reduced);
  if (!reduced.empty() && std::ranges::find(reduced, true) == reduced.end() && keeps_single_elements(d.node)) {
    const DataType moved = moved_as(x.type);
    return mapped(moved, {{0, as_type(x, moved)}}, as_type(y, moved), generate::itself());
  }
  const bool real = is_floating(x.type);
  const bool extreme = op == "ReduceMax" || op == "ReduceMin";
  DataType type = computed_in(x.type);
  // Sums of integers wrap from 64 bits.
  if (!real && !extreme) type = contains(kUnsignedIntegers, x.type) ? DataType::u64 : DataType::s64;
  const Folding folding(x.dims, reduced);
  Computation made = folding.computation(type, x);
  const double count = folding.count();
  const auto finish = [&](Fold fold, std::optional<Expression> then = std::nullopt) {
    if (then) fold.then.push_back(std::move(*then));
    made.folds.push_back(std::move(fold));
  };
  const auto log = [](int input) { return written([&](auto in) { return elements::log(in(input)); }); };
  if (op == "ReduceSum") {
    finish(sum_of(generate::itself()));
  } else if (op == "ReduceMean") {
    if (count == 0) return no_kernel(d, "the mean of no elements");
    finish(sum_of(generate::itself()),
           written([&](auto in) { return real ? in(1) / count : elements::quotient(in(1), count); }));
  } else if (op == "ReduceSumSquare") {
    finish(sum_of(squared()));
  } else if (op == "ReduceL1") {
    finish(sum_of(written([](auto in) { return elements::absolute(in(0)); })));
  } else if (op == "ReduceProd") {
    finish({generate::of(Function::mul), 1, generate::itself(), {}});
  } else if (op == "ReduceMax" && !real) {
    const double least = contains(kUnsignedIntegers, type) || type == DataType::boolean
                             ? 0
                             : -std::exp2(8 * static_cast<double>(size_of(type)) - 1);
    finish({generate::of(Function::max), least, generate::itself(), {}});
  } else if (op == "ReduceMin" && !real) {
    // The least is the complement of the greatest complement, which begins with a number that a double holds.
    const bool truth = type == DataType::boolean;
    const auto complement = [&](int input) {
      return written([&](auto in) { return truth ? Value(1) - in(input) : elements::complement(in(input)); });
    };
    const double least =
        contains(kUnsignedIntegers, type) || truth ? 0 : -std::exp2(8 * static_cast<double>(size_of(type)) - 1);
    finish({generate::of(Function::max), least, complement(0), {}}, complement(1));
  } else if (extreme) {
    const bool max = op == "ReduceMax";
    finish({generate::of(max ? Function::max : Function::min), max ? -kInfinity : kInfinity, generate::itself(), {}});
  } else if (!real) {
    return no_kernel(d, "of integers");
  } else if (op == "ReduceL2") {
    finish(sum_of(squared()), written([](auto in) { return elements::sqrt(in(1)); }));
  } else if (op == "ReduceLogSum") {
    finish(sum_of(generate::itself()), log(1));
  } else if (op == "ReduceLogSumExp") {
    // Relative to the largest, so that nothing overflows; what equals it, be it infinite, counts 1.
    finish({generate::of(Function::max), -kInfinity, generate::itself(), {}});
    finish(sum_of(written([](auto in) {
             return elements::select(elements::equal(in(0), in(1)), 1.0, elements::exp(in(0) - in(1)));
           })),
           written([](auto in) { return elements::log(in(2)) + in(1); }));
  }
  const int result = static_cast<int>(made.folds.size());
  made.stores.push_back({0, folding.place(y), generate::itself(result)});
  return made;
}

// ---- softmax

Result<Computation> softmax(const Described& d) {
  const TensorDesc& x = d.inputs[0].desc;
  const bool one_axis = d.node.opset >= 13, log = d.node.op == "LogSoftmax";
  CONVOY_TRY(const std::int64_t given, d.node.integer("axis", one_axis ? -1 : 1));
  if (x.rank() == 0) return no_kernel(d, "a scalar");
  CONVOY_TRY(const int axis, normalize_axis(d.node, given, x.rank(), "axis", one_axis ? 0 : 1));
  std::vector<bool> folds(x.dims.size());
  for (int i = 0; i < x.rank(); ++i) folds[static_cast<std::size_t>(i)] = one_axis ? i == axis : i >= axis;
  const Folding folding(x.dims, folds);
  Computation made = folding.computation(computed_in(x.type), x);
  made.folds.push_back({generate::of(Function::max), -kInfinity, generate::itself(), {}});
  made.folds.push_back(sum_of(written([](auto in) { return elements::exp(in(0) - in(1)); })));
  made.folds.back().then.push_back(written([&](auto in) { return log ? in(1) + elements::log(in(2)) : 1.0 / in(2); }));
  made.stores.push_back({0, folding.place(d.outputs[0]),
                         written([&](auto in) { return log ? in(0) - in(2) : elements::exp(in(0) - in(1)) * in(2); })});
  return made;
}

// ---- normalisations

// Of load 0, as the next folds: the mean, unless that is taken for 0, and 1 / deviation.
void add_moments(Computation& made, double count, double epsilon, bool about_zero) {
  const int mean = static_cast<int>(made.loads.size()), square = mean + (about_zero ? 0 : 1);
  if (!about_zero) {
    made.folds.push_back(sum_of(generate::itself()));
    made.folds.back().then.push_back(written([&](auto in) { return in(mean) / count; }));
  }
  made.folds.push_back(sum_of(about_zero ? squared() : written([&](auto in) {
    const Value difference = in(0) - in(mean);
    return difference * difference;
  })));
  made.folds.back().then.push_back(
      written([&](auto in) { return 1.0 / elements::sqrt(in(square) / count + epsilon); }));
}

// (x - mean) / deviation * scale + bias, of loads x, scale and bias where they are, and the folds of add_moments().
Expression normalized(const Computation& made, bool about_zero) {
  const int loads = static_cast<int>(made.loads.size());
  return written([&](auto in) {
    Value y = about_zero ? in(0) * in(loads) : (in(0) - in(loads)) * in(loads + 1);
    if (loads > 1) y = y * in(1);
    if (loads > 2) y = y + in(2);
    return y;
  });
}

Result<Computation> layer_normalization(const Described& d) {
  const TensorDesc& x = d.inputs[0].desc;
  CONVOY_TRY(const std::int64_t given, d.node.integer("axis", -1));
  CONVOY_TRY(const int axis, normalize_axis(d.node, given, x.rank(), "axis"));
  CONVOY_TRY(const double epsilon, d.node.real("epsilon", 1e-5));
  const bool about_zero = d.node.op == "RMSNormalization", has_bias = is_present(d.inputs, 2);
  std::vector<bool> folds(x.dims.size());
  for (int i = axis; i < x.rank(); ++i) folds[static_cast<std::size_t>(i)] = true;
  const Folding folding(x.dims, folds);
  Computation made = folding.computation(computed_in(x.type), x);
  made.loads.push_back({1, folding.place(d.inputs[1].desc)});
  if (has_bias) made.loads.push_back({2, folding.place(d.inputs[2].desc)});
  const int loads = static_cast<int>(made.loads.size());
  add_moments(made, folding.count(), epsilon, about_zero);
  made.stores.push_back({0, folding.place(d.outputs[0]), normalized(made, about_zero)});
  for (std::size_t i = 1; i < d.outputs.size(); ++i) {  // the mean, 1 / deviation
    made.stores.push_back(
        {static_cast<int>(i), folding.place(d.outputs[i]), generate::itself(loads + static_cast<int>(i) - 1)});
  }
  return made;
}

// Channels in groups: positions are samples and groups, then the channels of a group and where they are.
Result<Computation> grouped(const Described& d, std::int64_t groups, bool parameters_of_groups) {
  const TensorDesc& x = d.inputs[0].desc;
  CONVOY_TRY(const double epsilon, d.node.real("epsilon", 1e-5));
  const std::int64_t channels = groups == 0 ? 0 : x.dims[1] / groups;
  Dims folded{channels};
  folded.insert(folded.end(), x.dims.begin() + 2, x.dims.end());
  const Coordinate channel{{{1, channels}, {2, 1}}, 0, {}};
  const auto image = [&](const TensorDesc& desc) {
    Subscript place{desc, {Coordinate::of(0), channel}};
    for (int i = 2; i < desc.rank(); ++i) place.coordinates.push_back(Coordinate::of(i + 1));
    return place;
  };
  Computation made{.type = computed_in(x.type),
                   .kept = {x.dims[0], groups},
                   .folded = folded,
                   .loads = {},
                   .folds = {},
                   .stores = {}};
  made.loads.push_back({0, image(x)});
  for (const int i : {1, 2}) {
    made.loads.push_back(
        {i, {d.inputs[static_cast<std::size_t>(i)].desc, {parameters_of_groups ? Coordinate::of(1) : channel}}});
  }
  double count = 1;
  for (const std::int64_t dim : folded) count *= static_cast<double>(dim);
  add_moments(made, count, epsilon, false);
  made.stores.push_back({0, image(d.outputs[0]), normalized(made, false)});
  return made;
}

Result<Computation> instance_normalization(const Described& d) { return grouped(d, d.inputs[0].desc.dims[1], false); }

Result<Computation> group_normalization(const Described& d) {
  CONVOY_TRY(const std::int64_t groups, d.node.integer("num_groups", 1));
  return grouped(d, groups, d.node.opset < 21);
}

Result<Computation> mean_variance(const Described& d) {
  const TensorDesc& x = d.inputs[0].desc;
  CONVOY_TRY(const std::vector<std::int64_t> given, d.node.integers("axes", {0, 2, 3}));
  CONVOY_TRY(const std::vector<int> axes, normalize_axes(d.node, given, x.rank()));
  std::vector<bool> folds(x.dims.size());
  for (const int axis : axes) folds[static_cast<std::size_t>(axis)] = true;
  const Folding folding(x.dims, folds);
  Computation made = folding.computation(computed_in(x.type), x);
  add_moments(made, folding.count(), 0, false);
  made.folds.back().then[0] = written([&](auto in) { return 1.0 / (elements::sqrt(in(2) / folding.count()) + 1e-9); });
  made.stores.push_back({0, folding.place(d.outputs[0]), normalized(made, false)});
  return made;
}

Result<Computation> lp_normalization(const Described& d) {
  const TensorDesc& x = d.inputs[0].desc;
  CONVOY_TRY(const std::int64_t given, d.node.integer("axis", -1));
  CONVOY_TRY(const int axis, normalize_axis(d.node, given, x.rank(), "axis"));
  CONVOY_TRY(const std::int64_t p, d.node.integer("p", 2));
  std::vector<bool> folds(x.dims.size());
  folds[static_cast<std::size_t>(axis)] = true;
  const Folding folding(x.dims, folds);
  Computation made = folding.computation(computed_in(x.type), x);
  made.folds.push_back(sum_of(p == 1 ? written([](auto in) { return elements::absolute(in(0)); }) : squared()));
  made.folds.back().then.push_back(written([&](auto in) {
    const Value norm = p == 1 ? in(1) : elements::sqrt(in(1));
    return elements::select(elements::equal(norm, 0.0), 0.0, 1.0 / norm);
  }));
  made.stores.push_back({0, folding.place(d.outputs[0]), written([](auto in) { return in(0) * in(1); })});
  return made;
}

// y = x / (bias + alpha / size * the sum of squares of neighbouring channels)^beta.
Result<Computation> lrn(const Described& d) {
  const TensorDesc& x = d.inputs[0].desc;
  CONVOY_TRY(const std::int64_t size, d.node.integer("size", 1));
  CONVOY_TRY(const double alpha, d.node.real("alpha", 1e-4));
  CONVOY_TRY(const double beta, d.node.real("beta", 0.75));
  CONVOY_TRY(const double bias, d.node.real("bias", 1));
  Computation made{
      .type = computed_in(x.type), .kept = x.dims, .folded = {size}, .loads = {}, .folds = {}, .stores = {}};
  made.loads.push_back({0, Subscript::broadcast(x, x.rank())});
  Subscript neighbour = Subscript::broadcast(x, x.rank());
  neighbour.coordinates[1] = {{{1, 1}, {x.rank(), 1}}, -((size - 1) / 2), {}};
  made.loads.push_back({0, neighbour});
  made.folds.push_back(sum_of(written([](auto in) { return in(1) * in(1); })));
  made.stores.push_back({0, Subscript::broadcast(d.outputs[0], x.rank()), written([&](auto in) {
                           return in(0) * elements::pow(in(2) * (alpha / static_cast<double>(size)) + bias, -beta);
                         })});
  return made;
}

// The first or the last position of the extreme along an axis: the extreme, then the least or greatest number of a
// position that has it.
Result<Computation> arg_extreme(const Described& d) {
  const TensorDesc& x = d.inputs[0].desc;
  CONVOY_TRY(const std::int64_t given, d.node.integer("axis", 0));
  CONVOY_TRY(const std::int64_t last, d.node.integer("select_last_index", 0));
  if (x.rank() == 0) return no_kernel(d, "a scalar");
  if (!is_floating(x.type)) return no_kernel(d, "of integers");
  CONVOY_TRY(const int axis, normalize_axis(d.node, given, x.rank(), "axis"));
  const std::int64_t size = x.dims[static_cast<std::size_t>(axis)];
  constexpr std::int64_t kMostPositions = 1 << 24;  // which f32 tells apart
  if (size > kMostPositions) return no_kernel(d, "an axis longer than 2^24");
  std::vector<bool> folds(x.dims.size());
  folds[static_cast<std::size_t>(axis)] = true;
  const Folding folding(x.dims, folds);
  Computation made = folding.computation(computed_in(x.type), x);
  const TensorDesc line = TensorDesc::packed(DataType::s32, {size});
  made.loads.push_back({.input = -1, .place = {line, {Coordinate::of(x.rank() - 1)}}, .counts = true});
  const bool largest = d.node.op == "ArgMax";
  const double none = last != 0 ? -1 : static_cast<double>(size);
  made.folds.push_back(
      {written([&](auto in) { return elements::select(largest ? in(0) < in(1) : in(1) < in(0), in(1), in(0)); }),
       largest ? -kInfinity : kInfinity,
       generate::itself(),
       {}});
  made.folds.push_back({generate::of(last != 0 ? Function::max : Function::min),
                        none,
                        written([&](auto in) { return elements::select(elements::equal(in(0), in(2)), in(1), none); }),
                        {}});
  made.stores.push_back({0, folding.place(with_reduced_dims(d.outputs[0], folds)), generate::itself(3)});
  return made;
}

constexpr NamedRule kReductionRules[] = {
    {"ReduceSum", reduce},
    {"ReduceMean", reduce},
    {"ReduceMax", reduce},
    {"ReduceMin", reduce},
    {"ReduceProd", reduce},
    {"ReduceL1", reduce},
    {"ReduceL2", reduce},
    {"ReduceLogSum", reduce},
    {"ReduceLogSumExp", reduce},
    {"ReduceSumSquare", reduce},
    {"Softmax", softmax},
    {"LogSoftmax", softmax},
    {"LayerNormalization", layer_normalization},
    {"RMSNormalization", layer_normalization},
    {"InstanceNormalization", instance_normalization},
    {"GroupNormalization", group_normalization},
    {"MeanVarianceNormalization", mean_variance},
    {"LpNormalization", lp_normalization},
    {"LRN", lrn},
    {"ArgMax", arg_extreme},
    {"ArgMin", arg_extreme},
};

}  // namespace

std::span<const NamedRule> reduction_rules() { return kReductionRules; }

}  // namespace convoy::ops::generated
