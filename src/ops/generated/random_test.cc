// Generated kernels of nodes drawn at random: shapes, odd sizes, empty batches, broadcasting, layouts, special numbers.
#include <fmt/format.h>

#include "base/environment.h"
#include "ops/generated/testing/cases.h"
#include "ops/testing/elements.h"

namespace convoy::ops {
namespace {

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}
  std::int64_t below(std::int64_t limit) { return static_cast<std::int64_t>(random_() % static_cast<unsigned>(limit)); }
  std::int64_t between(std::int64_t low, std::int64_t high) { return low + below(high - low + 1); }
  bool one_in(int times) { return below(times) == 0; }
  // Mostly multiples of what a vector has, or odd.
  std::int64_t dim() {
    constexpr std::int64_t kUsual[] = {1, 2, 3, 5, 7, 8, 16, 24, 31, 32, 40, 64};
    return one_in(40) ? 0 : kUsual[below(std::size(kUsual))];
  }
  Dims dims(int rank, std::int64_t most = 20000) {
    for (;;) {
      Dims dims;
      for (int i = 0; i < rank; ++i) dims.push_back(dim());
      std::int64_t count = 1;
      for (const std::int64_t each : dims) count *= each;
      if (count <= most) return dims;
    }
  }
  HostTensor tensor_of(DataType type, const Dims& dims, bool special = false) {
    return special ? varied(type, dims, random_)
                   : tensor(type, dims, spread(TensorDesc::packed(type, dims).elements(), -3, 3));
  }
  std::mt19937& random() { return random_; }

 private:
  std::mt19937 random_;
};

void draw_elementwise(Draw& draw, DataType type, Layout layout, GeneratedCases& cases) {
  static const auto rules = element_rules();
  for (;;) {
    const auto& [name, rule] = rules[static_cast<std::size_t>(draw.below(std::ssize(rules)))];
    if (!contains(rule->types, type)) continue;
    const Dims dims = draw.dims(static_cast<int>(draw.between(1, 5)));
    std::vector<HostTensor> inputs;
    const int operands = rule->operands == 0 ? static_cast<int>(draw.between(1, 4)) : rule->operands;
    for (int i = 0; i < operands; ++i) {
      Dims own = dims;
      for (std::int64_t& each : own) each = i > 0 && draw.one_in(3) ? 1 : each;
      if (i > 0) own.erase(own.begin(), own.begin() + draw.below(std::ssize(own) + 1));
      inputs.push_back(draw.tensor_of(type, own, true));
    }
    cases.add(node_of_element(name), inputs, layout, {1e-5, 2e-5});
    return;
  }
}

void draw_pool(Draw& draw, DataType type, Layout layout, GeneratedCases& cases) {
  const int spatial = static_cast<int>(draw.between(1, 3));
  Dims dims = draw.dims(2 + spatial), kernel, strides, dilations, pads(static_cast<std::size_t>(2 * spatial));
  for (int i = 0; i < spatial; ++i) {
    std::int64_t& dim = dims[static_cast<std::size_t>(2 + i)];
    dim = std::max<std::int64_t>(dim, 5);
    kernel.push_back(draw.between(1, 3));
    strides.push_back(draw.between(1, 3));
    dilations.push_back(draw.between(1, 2));
    for (const int side : {i, i + spatial}) pads[static_cast<std::size_t>(side)] = draw.below(kernel.back());
  }
  const bool max = draw.one_in(2);
  NodeDesc node = node_of(max ? "MaxPool" : "AveragePool", {{"kernel_shape", kernel},
                                                            {"strides", strides},
                                                            {"dilations", dilations},
                                                            {"pads", pads},
                                                            {"ceil_mode", draw.below(2)}});
  if (!max) node.attributes["count_include_pad"] = draw.below(2);
  cases.add(node, {draw.tensor_of(type, dims)}, layout);
}

void draw_fold(Draw& draw, DataType type, Layout layout, GeneratedCases& cases) {
  Dims dims = draw.dims(static_cast<int>(draw.between(2, 4)));
  for (std::int64_t& dim : dims) dim = std::max<std::int64_t>(dim, 1);  // what of none is, is another test's
  const std::int64_t axis = draw.below(std::ssize(dims));
  const HostTensor x = draw.tensor_of(type, dims);
  constexpr const char* kReductions[] = {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2"};
  switch (draw.below(4)) {
    case 0:
      cases.add(node_of(draw.one_in(2) ? "Softmax" : "LogSoftmax", {{"axis", axis}}), {x}, layout);
      return;
    case 1: {
      Dims axes{axis};
      if (std::ssize(dims) > 2 && draw.one_in(2)) axes.push_back((axis + 1) % std::ssize(dims));
      cases.add(node_of(kReductions[draw.below(5)], {{"axes", axes}, {"keepdims", draw.below(2)}}, 11), {x}, layout,
                {1e-4, 1e-4});
      return;
    }
    case 2: {
      const Dims normalized(dims.begin() + axis, dims.end());
      cases.add(node_of("LayerNormalization", {{"axis", axis}}, 17),
                {x, draw.tensor_of(type, normalized), draw.tensor_of(type, normalized)}, Layout::nchw, {1e-4, 1e-3});
      return;
    }
    default:
      if (dims.size() < 3) dims.resize(3, 4);
      cases.add(node_of("InstanceNormalization"),
                {draw.tensor_of(type, dims), draw.tensor_of(type, {dims[1]}), draw.tensor_of(type, {dims[1]})}, layout,
                {1e-4, 1e-3});
  }
}

void draw_movement(Draw& draw, DataType type, Layout layout, GeneratedCases& cases) {
  const Dims dims = draw.dims(static_cast<int>(draw.between(1, 5)));
  const HostTensor x = draw.tensor_of(type, dims, true);
  const std::int64_t axis = draw.below(std::ssize(dims));
  if (draw.one_in(2)) {
    Dims order;
    for (std::int64_t i = 0; i < std::ssize(dims); ++i) order.push_back(i);
    std::ranges::shuffle(order, draw.random());
    cases.add(node_of("Transpose", {{"perm", order}}), {x});
    return;
  }
  std::vector<HostTensor> parts{x};
  for (std::int64_t i = draw.below(4); i > 0; --i) {
    Dims own = dims;
    own[static_cast<std::size_t>(axis)] = draw.dim();
    parts.push_back(draw.tensor_of(type, own, true));
  }
  cases.add(node_of("Concat", {{"axis", axis}}), parts, layout);
}

void draw_product(Draw& draw, DataType type, Layout, GeneratedCases& cases) {
  const std::int64_t m = draw.between(1, 80), n = draw.between(1, 80), k = draw.between(1, 70);
  Dims a{m, k}, b{k, n};
  const std::int64_t batch = draw.between(1, 3);
  if (draw.one_in(2)) a.insert(a.begin(), batch);
  if (draw.one_in(2)) b.insert(b.begin(), draw.one_in(2) ? batch : 1);
  cases.add(node_of("MatMul"), {draw.tensor_of(type, a), draw.tensor_of(type, b)}, Layout::nchw, {2e-3, 1e-4});
}

TEST(GeneratedRandom, IsWhatOperatorsCompute) {
  const bool full = environment(Variable::test_full).has_value();
  const int seeds = full ? 10 : 1, count = 150;
  for (int seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Draw draw(static_cast<unsigned>(seed));
    GeneratedCases cases;
    constexpr decltype(&draw_pool) kKinds[] = {draw_elementwise, draw_pool, draw_fold, draw_movement, draw_product};
    for (int i = 0; i < count; ++i) {
      const DataType type = draw.one_in(2) ? DataType::f16 : DataType::f32;
      const Layout layout = draw.one_in(2) ? Layout::nhwc : Layout::nchw;
      kKinds[draw.below(std::size(kKinds))](draw, type, layout, cases);
    }
    EXPECT_TRUE(cases.refusals().empty()) << cases.refusals().begin()->first;
    EXPECT_EQ(cases.count(), count);
    cases.run();
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace convoy::ops
