#include "ops/generated/testing/cases.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "ops/operator_row.h"

namespace convoy::ops {
namespace {

constexpr std::size_t kAround = 256;  // bytes on each side

// Memory between NaNs, which are its contents, too.
class Guarded {
 public:
  explicit Guarded(std::size_t bytes) : bytes_(bytes), memory_(allocate_aligned(bytes + 2 * kAround)) {
    std::memset(memory_.get(), 0xff, bytes_ + 2 * kAround);
  }
  std::byte* data() const { return memory_.get() + kAround; }
  bool is_whole() const {
    const auto untouched = [](const std::byte* p) {
      return std::all_of(p, p + kAround, [](std::byte b) { return b == std::byte{0xff}; });
    };
    return untouched(memory_.get()) && untouched(data() + bytes_);
  }

 private:
  std::size_t bytes_;
  std::shared_ptr<std::byte> memory_;
};

Layout layout_of(const TensorDesc& desc, Layout layout) { return desc.rank() >= 3 ? layout : Layout::nchw; }

double step_of(DataType type) { return type == DataType::f16 ? 0x1p-10 : type == DataType::bf16 ? 0x1p-7 : 0; }

void expect_near(const HostTensor& got, const HostTensor& want, const Tolerance& tolerance) {
  const double relative = tolerance.relative + step_of(want.desc.type);
  const double largest = want.desc.type == DataType::f16 ? 65504 : want.desc.type == DataType::bf16 ? 3.38e38 : 3.4e38;
  for (std::int64_t i = 0; i < want.desc.elements(); ++i) {
    const double a = got.at(i), b = want.at(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    // What rounds to the largest number for one may be infinite for the other.
    if (std::abs(a) >= largest && std::abs(b) >= largest && std::signbit(a) == std::signbit(b)) continue;
    ASSERT_LE(std::abs(a - b), tolerance.absolute + relative * std::abs(b))
        << "element " << i << ": " << a << ", not " << b;
  }
}

}  // namespace

bool GeneratedCases::add(const NodeDesc& node, const std::vector<HostTensor>& inputs, Layout layout,
                         const Tolerance& tolerance, const std::vector<HostTensor>& expected) {
  const OperatorRow* const row = find_row(node.domain, node.op);
  if (row == nullptr) {
    ADD_FAILURE() << "no operator " << node.op;
    return false;
  }
  Case made{.title = fmt::format("{} {}", node.op, name_of(layout, 2)), .tolerance = tolerance};
  std::vector<Input> descs;
  for (const HostTensor& input : inputs) {
    if (input.data == nullptr) {
      made.inputs.emplace_back();
      descs.emplace_back();
      continue;
    }
    const auto copy = converted(input, input.desc.with_layout(layout_of(input.desc, layout)));
    made.inputs.push_back(*copy);
    descs.push_back({true, copy->desc, copy->data.get()});
    made.title += fmt::format(" {}:{}", name_of(input.desc.type), to_string(input.desc.dims));
  }
  const auto outputs = row->infer(node, descs);
  if (!outputs.ok()) {
    ADD_FAILURE() << made.title << ": " << outputs.error().message;
    return false;
  }
  for (const TensorDesc& desc : *outputs) made.outputs.push_back(desc.with_layout(layout_of(desc, layout)));
  const int shared = row->in_place(node);
  if (shared >= 0 && made.inputs[static_cast<std::size_t>(shared)].desc == made.outputs[0]) made.in_place = shared;
  auto kernel = describe({*row->implementation, node, descs, made.outputs}, next_name(), architecture_);
  if (!kernel.ok()) {
    EXPECT_EQ(kernel.error().code, ErrorCode::unsupported) << kernel.error().message;
    ++refusals_[kernel.error().message];
    return false;
  }
  made.expected = expected;
  if (expected.empty()) {
    auto want = run_op(node, inputs);
    if (!want.ok()) {
      ADD_FAILURE() << made.title << ": " << want.error().message;
      return false;
    }
    made.expected = *std::move(want);
  }
  cases_.push_back(std::move(made));
  kernels_.push_back(*std::move(kernel));
  return true;
}

void GeneratedCases::add_conversion(const HostTensor& from, const TensorDesc& to) {
  auto kernel = describe_conversion(from.desc, to, next_name());
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  cases_.push_back({fmt::format("{} to {}", name_of(from.desc.type), name_of(to.type)),
                    {from},
                    {*converted(from, TensorDesc::packed(to.type, to.dims))},
                    {to},
                    {}});
  kernels_.push_back(*std::move(kernel));
}

int GeneratedCases::with_schedule(std::string_view schedule) const {
  return static_cast<int>(std::count_if(kernels_.begin(), kernels_.end(), [&](const generate::Kernel& kernel) {
    return kernel.schedule.starts_with(schedule);
  }));
}

void GeneratedCases::run_case(const Case& each, const generate::Kernel& kernel, const generate::Walk& walk) {
  SCOPED_TRACE(each.title + " " + kernel.schedule);
  std::vector<Guarded> inputs;
  for (const HostTensor& input : each.inputs) {
    const auto bytes = static_cast<std::size_t>(input.data == nullptr ? 0 : input.desc.bytes());
    inputs.emplace_back(bytes);
    if (bytes > 0) std::memcpy(inputs.back().data(), input.data.get(), bytes);
  }
  std::vector<std::vector<std::byte>> first;
  for (const bool backwards : {false, true}) {
    std::vector<Guarded> outputs;
    for (const TensorDesc& desc : each.outputs) outputs.emplace_back(static_cast<std::size_t>(desc.bytes()));
    std::vector<void*> pointers;
    for (const int i : kernel.inputs) pointers.push_back(inputs[static_cast<std::size_t>(i)].data());
    for (const int i : kernel.outputs) pointers.push_back(outputs[static_cast<std::size_t>(i)].data());
    const auto ran = walk.run(kernel, pointers, backwards);
    ASSERT_TRUE(ran.ok()) << ran.error().message;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      SCOPED_TRACE(fmt::format("output {}", i));
      ASSERT_TRUE(outputs[i].is_whole()) << "memory around it was written";
      const TensorDesc& desc = each.outputs[i];
      const auto bytes = static_cast<std::size_t>(desc.bytes());
      if (backwards) {
        ASSERT_TRUE(std::equal(first[i].begin(), first[i].end(), outputs[i].data())) << "the order of threads shows";
        continue;
      }
      first.emplace_back(outputs[i].data(), outputs[i].data() + bytes);
      HostTensor got = *HostTensor::allocate(desc);
      if (bytes > 0) std::memcpy(got.data.get(), outputs[i].data(), bytes);
      expect_near(*converted(got, TensorDesc::packed(desc.type, desc.dims)), each.expected[i], each.tolerance);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
  if (each.in_place < 0 || kernel.outputs.size() != 1) return;
  std::vector<void*> pointers;
  for (const int i : kernel.inputs) pointers.push_back(inputs[static_cast<std::size_t>(i)].data());
  const Guarded& shared = inputs[static_cast<std::size_t>(each.in_place)];
  pointers.push_back(shared.data());
  const auto ran = walk.run(kernel, pointers);
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  ASSERT_TRUE(std::equal(first[0].begin(), first[0].end(), shared.data())) << "in place it is another";
}

void GeneratedCases::run() const {
  const auto walk = generate::Walk::compile(kernels_);
  ASSERT_TRUE(walk.ok()) << walk.error().message;
  for (std::size_t i = 0; i < cases_.size(); ++i) {
    run_case(cases_[i], kernels_[i], *walk);
    if (testing::Test::HasFatalFailure()) {
      ADD_FAILURE() << kernels_[i].text;
      return;
    }
  }
}

}  // namespace convoy::ops
