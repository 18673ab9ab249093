#include "ops/testing/operators.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "ops/operator_row.h"

namespace convoy::ops {

HostTensor tensor(DataType type, Dims dims, const std::vector<double>& values) {
  HostTensor result = *HostTensor::allocate(TensorDesc::packed(type, std::move(dims)));
  EXPECT_EQ(result.desc.elements(), static_cast<std::int64_t>(values.size()));
  for (std::size_t i = 0; i < values.size(); ++i) store_from_double(type, result.data.get(), i, values[i]);
  return result;
}

std::vector<double> spread(std::int64_t count, double low, double high) {
  std::vector<double> values(count);
  for (std::int64_t i = 0; i < count; ++i) values[i] = low + (high - low) * ((i * 7919 + 13) % 1009) / 1008.0;
  return values;
}

NodeDesc node_of(std::string op, std::map<std::string, Attribute> attributes, int opset, int outputs) {
  NodeDesc node;
  node.op = std::move(op);
  node.opset = opset;
  node.attributes = std::move(attributes);
  node.output_count = outputs;
  return node;
}

static Layout layout_of(const TensorDesc& desc, Layout layout) { return desc.rank() >= 3 ? layout : Layout::nchw; }

Result<std::vector<HostTensor>> run_op(const NodeDesc& node, const std::vector<HostTensor>& inputs, const OpRun& how) {
  const OperatorRow* row = find_row(node.domain, node.op);
  if (row == nullptr) return Error{ErrorCode::unsupported, "no operator " + node.op};
  std::vector<HostTensor> arranged;
  std::vector<Input> descs;
  for (const HostTensor& input : inputs) {
    if (input.data == nullptr) {
      arranged.push_back({});
      descs.push_back({});
      continue;
    }
    CONVOY_TRY(HostTensor copy, converted(input, input.desc.with_layout(layout_of(input.desc, how.layout))));
    arranged.push_back(copy);
    descs.push_back({true, copy.desc, how.constants ? copy.data.get() : nullptr});
  }
  CONVOY_TRY(std::vector<TensorDesc> outputs, row->infer(node, descs));
  for (TensorDesc& desc : outputs) desc = desc.with_layout(layout_of(desc, how.layout));
  PlanRequest request;
  request.threads = how.threads;
  request.cpu = capped(cpu_features(), how.isa);
  CONVOY_TRY(std::unique_ptr<OpPlan> plan, row->implementation->plan(node, descs, outputs, request));

  std::vector<const void*> in;
  for (const HostTensor& input : arranged) in.push_back(input.data.get());
  std::vector<HostTensor> results;
  std::vector<void*> out;
  const int shared = row->in_place(node);
  for (const TensorDesc& desc : outputs) {
    CONVOY_TRY(HostTensor result, HostTensor::allocate(desc));
    std::memset(result.data.get(), 0xff, desc.bytes());
    if (how.in_place && results.empty() && shared >= 0 && arranged[shared].desc.dims == desc.dims &&
        size_of(arranged[shared].desc.type) == size_of(desc.type)) {
      result.data = arranged[shared].data;
    }
    results.push_back(result);
    out.push_back(result.data.get());
  }
  const auto team = make_cpu_team(how.threads);
  const auto workspace = allocate_aligned(std::max<std::size_t>(plan->workspace_bytes(), 64));
  std::memset(workspace.get(), 0xff, plan->workspace_bytes());
  CONVOY_CHECK(plan->execute(in, out, ExecContext{*team, workspace.get(), plan->workspace_bytes()}));
  for (HostTensor& result : results) {
    CONVOY_TRY(result, converted(result, TensorDesc::packed(result.desc.type, result.desc.dims)));
  }
  return results;
}

static void expect_equal(const HostTensor& got, const HostTensor& want, double absolute, double relative) {
  ASSERT_EQ(name_of(got.desc.type), name_of(want.desc.type));
  ASSERT_EQ(got.desc.dims, want.desc.dims);
  for (std::int64_t i = 0; i < want.desc.elements(); ++i) {
    const double a = got.at(i), b = want.at(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    ASSERT_FALSE(std::isinf(b)) << "element " << i << ": " << a << ", not " << b;
    ASSERT_LE(std::abs(a - b), absolute + relative * std::abs(b)) << "element " << i << ": " << a << ", not " << b;
  }
}

std::optional<std::vector<HostTensor>> by_map(const NodeDesc& node, const std::vector<HostTensor>& inputs) {
  const OperatorRow* const row = find_row(node.domain, node.op);
  if (row == nullptr) return std::nullopt;
  std::vector<Input> descs;
  for (const HostTensor& input : inputs) descs.push_back({input.data != nullptr, input.desc, input.data.get()});
  const auto outputs = row->infer(node, descs);
  if (!outputs.ok()) return std::nullopt;
  const std::vector<IndexMap> maps = row->maps(node, descs, *outputs);
  if (maps.empty()) return std::nullopt;
  EXPECT_EQ(maps.size(), outputs->size());
  std::vector<HostTensor> made;
  for (std::size_t i = 0; i < maps.size(); ++i) {
    const IndexMap& map = maps[i];
    EXPECT_EQ(map.dims, (*outputs)[i].dims);
    made.push_back(*HostTensor::allocate((*outputs)[i]));
    for (const MapSource& source : map.sources) EXPECT_EQ(source.dims, inputs[source.input].desc.dims);
    Dims o(map.dims.size(), 0);
    for (std::int64_t at = 0; at < made[i].desc.elements(); ++at) {
      std::int64_t rest = at;
      for (std::size_t d = o.size(); d-- > 0; rest /= map.dims[d]) o[d] = rest % map.dims[d];
      double value = map.fill_input < 0 ? map.fill : inputs[map.fill_input].at(0);
      int found = 0;
      for (const MapSource& source : map.sources) {
        const std::int64_t offset = source.offset(o);
        if (offset < 0 && !source.has_all(map.dims)) continue;
        if (offset < 0) {
          ADD_FAILURE() << "a source that has all leaves element " << at << " out";
          return made;
        }
        value = inputs[source.input].at(offset);
        ++found;
      }
      EXPECT_LE(found, 1);
      store_from_double(made[i].desc.type, made[i].data.get(), at, value);
    }
  }
  return made;
}

void expect_op(const NodeDesc& node, const std::vector<HostTensor>& inputs, const std::vector<HostTensor>& expected,
               double absolute, double relative) {
  const OperatorRow* row = find_row(node.domain, node.op);
  ASSERT_NE(row, nullptr) << node.op;
  constexpr std::int64_t kSmall = 1 << 14;  // elements: of more it takes seconds
  if (const auto mapped = expected[0].desc.elements() <= kSmall ? by_map(node, inputs) : std::nullopt) {
    SCOPED_TRACE(node.op + " by its map");
    for (std::size_t i = 0; i < expected.size(); ++i) expect_equal((*mapped)[i], expected[i], absolute, relative);
  }
  std::vector<Input> descs;
  for (const HostTensor& input : inputs) descs.push_back({input.data != nullptr, input.desc});
  for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
    for (const int threads : {1, 3}) {
      for (const bool in_place : {false, true}) {
        if (in_place && row->in_place(node) < 0) continue;
        for (const bool constants : {true, false}) {
          if (!constants && !row->implementation->shape_inputs(node).empty()) continue;
          for (std::size_t i = 0; i < inputs.size(); ++i)
            descs[i].constant = constants ? inputs[i].data.get() : nullptr;
          if (row->layouts(node, descs, layout) != Taken::as_it_is) continue;
          SCOPED_TRACE(fmt::format("{} {} threads={} in_place={} constants={}", node.op, name_of(layout, 2), threads,
                                   in_place, constants));
          const auto results = run_op(node, inputs, {layout, threads, in_place, constants});
          ASSERT_TRUE(results.ok()) << results.error().message;
          ASSERT_EQ(results->size(), expected.size());
          for (std::size_t i = 0; i < expected.size(); ++i) {
            SCOPED_TRACE(fmt::format("output {}", i));
            expect_equal((*results)[i], expected[i], absolute, relative);
            if (testing::Test::HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

HostTensor varied(DataType type, Dims dims, std::mt19937& random) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double specials[] = {std::numeric_limits<double>::quiet_NaN(),
                             0.0,
                             -0.0,
                             kInfinity,
                             -kInfinity,
                             0.5,
                             -1.5,
                             2.5,
                             6.1e-5,
                             -3e-39,
                             65519,
                             3e9,
                             -1e20};
  HostTensor result = *HostTensor::allocate(TensorDesc::packed(type, std::move(dims)));
  for (std::int64_t i = 0; i < result.desc.elements(); ++i) {
    const std::uint32_t draw = static_cast<std::uint32_t>(random());
    const double usual = (static_cast<double>(draw % 4001) - 2000) / 256;
    store_from_double(type, result.data.get(), i,
                      draw % 5 == 0 && is_floating(type) ? specials[draw / 5 % std::size(specials)] : usual);
  }
  return result;
}

void expect_as_portable(const NodeDesc& node, const std::vector<HostTensor>& inputs, double relative, double absolute) {
  const OperatorRow* row = find_row(node.domain, node.op);
  ASSERT_NE(row, nullptr) << node.op;
  const auto plain = run_op(node, inputs, {.isa = Isa::portable});
  ASSERT_TRUE(plain.ok()) << node.op << ": " << plain.error().message;
  const auto accepts = [&](Layout layout, bool constants) {
    std::vector<Input> descs;
    for (const HostTensor& input : inputs) {
      descs.push_back({input.data != nullptr, input.desc, constants ? input.data.get() : nullptr});
    }
    return row->layouts(node, descs, layout) == Taken::as_it_is;
  };
  for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
    if (layout == Layout::nhwc && inputs[0].desc.rank() < 3) continue;
    const bool constants = accepts(layout, true);  // else it may take what is none
    if (!constants && (!row->implementation->shape_inputs(node).empty() || !accepts(layout, false))) continue;
    for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512}) {
      for (const int threads : {1, 3}) {
        for (const bool in_place : {false, true}) {
          if (in_place && row->in_place(node) < 0) continue;
          SCOPED_TRACE(fmt::format("{} {} [{}] {} {} threads={} in_place={}", node.op, name_of(inputs[0].desc.type),
                                   to_string(inputs[0].desc.dims), name_of(isa), name_of(layout, 2), threads,
                                   in_place));
          const auto got = run_op(node, inputs, {layout, threads, in_place, constants, isa});
          ASSERT_TRUE(got.ok()) << got.error().message;
          for (std::size_t i = 0; i < plain->size(); ++i) {
            const HostTensor &want = (*plain)[i], &y = (*got)[i];
            if (std::memcmp(y.data.get(), want.data.get(), want.desc.bytes()) == 0) continue;
            expect_equal(y, want, absolute, relative);
            if (testing::Test::HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

void expect_refused(const NodeDesc& node, const std::vector<HostTensor>& inputs, const std::string& text) {
  const auto results = run_op(node, inputs);
  ASSERT_FALSE(results.ok()) << node.op << " was taken";
  EXPECT_NE(results.error().message.find(text), std::string::npos) << results.error().message;
}

}  // namespace convoy::ops
