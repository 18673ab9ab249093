// Resize: a fold over the taps of each axis that changes, whose weights are numbers of the text.
#include "ops/generated/rules.h"
#include "ops/vision/resize_axis.h"

namespace convoy::ops::generated {
namespace {

using generate::written;

std::vector<std::int32_t> narrow(const std::vector<std::int64_t>& places) { return {places.begin(), places.end()}; }

// Of mode nearest a table an axis.
Result<Computation> nearest(const Described& d, const ResizeRequest& request) {
  const TensorDesc &x = d.inputs[0].desc, &y = d.outputs[0];
  Load load{0, {x, {}}, request.method.extrapolation};
  for (int i = 0; i < x.rank(); ++i) {
    const ResizeAxis& axis = request.axes[static_cast<std::size_t>(i)];
    Coordinate coordinate = Coordinate::of(i);
    for (std::int64_t o = 0; o < axis.out && !axis.is_identity(request.method); ++o) {
      const double at = source_coordinate(request.method, axis, o);
      const bool outside = is_extrapolated(request.method, axis, at);
      coordinate.table.push_back(outside ? -1 : static_cast<std::int32_t>(nearest_index(request.method, axis, at)));
    }
    load.place.coordinates.push_back(std::move(coordinate));
  }
  Computation made{.type = computed_in(x.type), .kept = y.dims, .folded = {}, .loads = {}, .folds = {}, .stores = {}};
  made.loads.push_back(std::move(load));
  made.stores.push_back({0, Subscript::broadcast(y, y.rank()), generate::itself()});
  return made;
}

Result<Computation> resize(const Described& d) {
  CONVOY_TRY(const ResizeRequest request, resize_request(d.node, d.inputs));
  const TensorDesc &x = d.inputs[0].desc, &y = d.outputs[0];
  if (request.method.mode == ResizeMode::nearest) return nearest(d, request);
  if (!is_floating(x.type)) return no_kernel(d, "weights of integers");
  Computation made{.type = computed_in(x.type), .kept = y.dims, .folded = {}, .loads = {}, .folds = {}, .stores = {}};
  made.loads.push_back({0, {x, {}}});
  for (int i = 0; i < x.rank(); ++i) {
    const ResizeAxis& axis = request.axes[static_cast<std::size_t>(i)];
    if (axis.is_identity(request.method)) {
      made.loads[0].place.coordinates.push_back(Coordinate::of(i));
      continue;
    }
    ResizeTaps taps = resize_taps(request.method, axis);
    if (!taps.extrapolated.empty()) return no_kernel(d, "places outside of the input");
    const int fold = y.rank() + static_cast<int>(made.folded.size());
    const Coordinate place{{{i, taps.taps}, {fold, 1}}, 0, {}};
    made.folded.push_back(taps.taps);
    made.loads[0].place.coordinates.push_back(place);
    made.loads[0].place.coordinates.back().table = narrow(taps.index);
    const TensorDesc numbers = TensorDesc::packed(x.type, {static_cast<std::int64_t>(taps.weight.size())});
    made.loads.push_back({-1, {numbers, {place}}, 0, -1, std::move(taps.weight)});
  }
  const int weights = static_cast<int>(made.loads.size()) - 1;
  made.folds.push_back({generate::of(generate::Function::add),
                        0,
                        written([&](auto in) {
                          Value product = in(0);
                          for (int i = 0; i < weights; ++i) product = product * in(i + 1);
                          return product;
                        }),
                        {}});
  made.stores.push_back({0, Subscript::broadcast(y, y.rank()), generate::itself(weights + 1)});
  return made;
}

constexpr NamedRule kResizeRules[] = {{"Resize", resize}, {"Upsample", resize}};

}  // namespace

std::span<const NamedRule> resize_rules() { return kResizeRules; }

}  // namespace convoy::ops::generated
