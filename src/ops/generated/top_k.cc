// TopK: each element counts those of its line that are better, which is its place among the best.
#include "ops/index/top_k.h"

#include "ops/generated/rules.h"

namespace convoy::ops::generated {
namespace {

using generate::written;

// What numbers of elements are counted in, and compared.
DataType counted_in(DataType type) {
  if (is_floating(type) || size_of(type) == 8) return computed_in(type);
  return type == DataType::u32 ? DataType::s64 : DataType::s32;
}

Result<Computation> top_k(const Described& d) {
  CONVOY_TRY(const TopKRequest request, top_k_request(d.node, d.inputs));
  constexpr std::int64_t kMostOfLine = 1 << 17;  // compared with as many each
  const TensorDesc& x = d.inputs[0].desc;
  const auto axis = static_cast<std::size_t>(request.axis);
  const std::int64_t size = x.dims[axis];
  if (size > kMostOfLine) return no_kernel(d, "more than 131,072 elements along the axis");
  Computation made{
      .type = counted_in(x.type), .kept = x.dims, .folded = {size}, .loads = {}, .folds = {}, .stores = {}};
  const Subscript own = Subscript::broadcast(x, x.rank());
  Subscript other = own;
  other.coordinates[axis] = Coordinate::of(x.rank());
  const TensorDesc line = TensorDesc::packed(DataType::s32, {size});
  made.loads = {{0, own},
                {0, other},
                {.input = -1, .place = {line, {Coordinate::of(request.axis)}}, .counts = true},
                {.input = -1, .place = {line, {Coordinate::of(x.rank())}}, .counts = true}};
  // A NaN is larger than every number; of equals neither is better.
  const auto is_better = [&](const Value& a, const Value& b) {
    const Value larger = request.largest ? a : b, smaller = request.largest ? b : a;
    if (!is_floating(x.type)) return larger > smaller;
    return elements::select(elements::equal(larger, larger), larger > smaller, elements::equal(smaller, smaller));
  };
  made.folds.push_back({generate::of(generate::Function::add),
                        0,
                        written([&](auto in) {
                          return elements::select(is_better(in(1), in(0)), 1.0,
                                                  elements::select(is_better(in(0), in(1)), 0.0, in(3) < in(2)));
                        }),
                        {}});
  const int rank = static_cast<int>(made.loads.size());
  for (std::size_t i = 0; i < d.outputs.size(); ++i) {  // values, indices
    Subscript place = Subscript::broadcast(d.outputs[i], x.rank());
    place.coordinates[axis] = Coordinate::computed(generate::itself(rank));
    made.stores.push_back({static_cast<int>(i), std::move(place), generate::itself(i == 0 ? 0 : 2)});
  }
  return made;
}

constexpr NamedRule kTopKRules[] = {{"TopK", top_k}};

}  // namespace

std::span<const NamedRule> top_k_rules() { return kTopKRules; }

}  // namespace convoy::ops::generated
