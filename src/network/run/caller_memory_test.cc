// Runs that write into the caller's memory.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "engines/reference/reference.h"
#include "network/testing/graphs.h"

namespace convoy::network {
namespace {

// The oracle, and where it wrote last.
class Witness final : public Engine {
 public:
  explicit Witness(const void*& wrote) : wrote_(wrote) {
    info_.name = "fake.witness";
    declare_everything(info_);
  }
  const EngineInfo& info() const override { return info_; }
  double predict_seconds(const ConvProblem&, const KnobValues&, const PlanRequest&) const override { return 1e-6; }
  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues&,
                                         const PlanRequest& request) const override {
    CONVOY_TRY(auto right, reference_engine().plan(problem, {}, request));
    return std::unique_ptr<ConvPlan>(std::make_unique<Plan>(std::move(right), wrote_));
  }

 private:
  struct Plan : ConvPlan {
    Plan(std::unique_ptr<ConvPlan> right, const void*& wrote) : right(std::move(right)), wrote(wrote) {}
    Candidate candidate() const override { return {"fake.witness", {}}; }
    std::size_t workspace_bytes() const override { return right->workspace_bytes(); }
    Result<void> execute(const ConvArgs& args, const ExecContext& context) const override {
      wrote = args.out;
      return right->execute(args, context);
    }
    std::unique_ptr<ConvPlan> right;
    const void*& wrote;
  };
  EngineInfo info_;
  const void*& wrote_;
};

// Memory for `desc`, `offset` bytes behind a multiple of 64, and bytes on both sides that nobody may write.
struct Memory {
  Memory(const TensorDesc& desc, std::size_t offset)
      : size(static_cast<std::size_t>(desc.bytes())), all(allocate_aligned(size + 192)) {
    std::memset(all.get(), kMark, size + 192);
    tensor = {desc, std::shared_ptr<std::byte>(all, all.get() + 64 + offset)};
  }
  bool untouched_around() const {
    const std::byte* begin = tensor.data.get();
    for (const std::byte* at = all.get(); at < all.get() + size + 192; ++at) {
      if ((at < begin || at >= begin + size) && *at != std::byte{kMark}) return false;
    }
    return true;
  }
  static constexpr int kMark = 0x5A;
  std::size_t size;
  std::shared_ptr<std::byte> all;
  HostTensor tensor;
};

bool same(const HostTensor& a, const HostTensor& b) {
  return a.desc == b.desc && std::memcmp(a.data.get(), b.data.get(), static_cast<std::size_t>(a.desc.bytes())) == 0;
}

// Two outputs, the second also read by the step behind the first.
Graph two_outputs(std::int64_t images = 2) {
  GraphBuilder b;
  const int y = b.conv(b.input("x", {images, 3, 9, 9}), 3, 5, 3);
  b.output(b.node("Sigmoid", {y}));
  b.output(y);
  return std::move(b.graph);
}

TEST(CallerMemory, IsWrittenInPlaceWhereItIsAligned) {
  GraphBuilder b;
  b.output(b.conv(b.input("x", {1, 3, 9, 9}), 3, 5, 3));
  const void* wrote = nullptr;
  const Witness witness(wrote);
  const Engine* engines[] = {&witness};
  const auto session = prepare_graph(b.graph, {.options = test_options(), .engines = engines});
  ASSERT_TRUE(session.ok()) << session.error().message;
  const std::vector inputs = inputs_for(b.graph);
  const auto expected = (*session)->run(inputs);
  ASSERT_TRUE(expected.ok());
  const TensorDesc desc = *(*session)->outputs()[0];
  EXPECT_EQ(desc, (*expected)[0].desc);
  for (const std::size_t offset : {0, 4, 1, 32}) {
    Memory memory(desc, offset);
    ASSERT_TRUE((*session)->run_into(inputs, {&memory.tensor, 1}).ok());
    EXPECT_EQ(wrote == memory.tensor.data.get(), offset == 0) << offset;
    EXPECT_TRUE(same(memory.tensor, (*expected)[0])) << offset;
    EXPECT_TRUE(memory.untouched_around()) << offset;
  }
}

TEST(CallerMemory, IsForSomeOutputsOrAllAndForPartsOfABatch) {
  NetworkOptions in_parts = test_options();
  in_parts.parts = BatchParts{1, true};
  for (const NetworkOptions& options : {test_options(), in_parts}) {
    const Graph graph = two_outputs();
    const auto session = prepare_graph(graph, {.options = options});
    ASSERT_TRUE(session.ok()) << session.error().message;
    const std::vector inputs = inputs_for(graph);
    const auto expected = (*session)->run(inputs);
    ASSERT_TRUE(expected.ok());
    for (int given = 0; given < 4; ++given) {
      Memory first(*(*session)->outputs()[0], 4), second(*(*session)->outputs()[1], 0);
      std::vector<HostTensor> outputs(2);
      if (given & 1) outputs[0] = first.tensor;
      if (given & 2) outputs[1] = second.tensor;
      ASSERT_TRUE((*session)->run_into(inputs, outputs).ok());
      EXPECT_EQ(outputs[0].data == first.tensor.data, (given & 1) != 0);
      EXPECT_EQ(outputs[1].data == second.tensor.data, (given & 2) != 0);
      for (int k = 0; k < 2; ++k) EXPECT_TRUE(same(outputs[k], (*expected)[k])) << k << " of " << given;
      EXPECT_TRUE(first.untouched_around() && second.untouched_around());
    }
  }
}

TEST(CallerMemory, IsFilledWhereTheRunDecidesTheSize) {
  GraphBuilder b;
  b.output(b.node("NonZero", {b.input("x", {2, 6})}));
  b.graph.values[b.graph.outputs[0]].name = "where";
  const auto session = prepare_graph(b.graph, {.options = test_options()});
  ASSERT_TRUE(session.ok()) << session.error().message;
  EXPECT_FALSE((*session)->outputs()[0].has_value());
  const std::vector inputs = {tensor_of(DataType::f32, {2, 6}, {0, 1, 0, 0, 2, 0, 0, 0, 0, 3, 0, 0})};
  const auto expected = (*session)->run(inputs);
  ASSERT_TRUE(expected.ok());
  ASSERT_EQ((*expected)[0].desc.dims, (Dims{2, 3}));
  Memory enough(TensorDesc::packed(DataType::u8, {48}), 8);
  HostTensor output = enough.tensor;
  ASSERT_TRUE((*session)->run_into(inputs, {&output, 1}).ok());
  EXPECT_EQ(output.data, enough.tensor.data);
  EXPECT_TRUE(same(output, (*expected)[0]));
  EXPECT_TRUE(enough.untouched_around());
  Memory little(TensorDesc::packed(DataType::u8, {47}), 0);
  const auto refused = (*session)->run_into(inputs, {&little.tensor, 1});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "output 'where' is s64 2x3, 48 bytes, its memory has 47");
}

TEST(CallerMemory, OfAnotherShapeIsRefused) {
  const Graph graph = two_outputs();
  const auto session = prepare_graph(graph, {.options = test_options()});
  ASSERT_TRUE(session.ok());
  const std::vector inputs = inputs_for(graph);
  std::vector<HostTensor> outputs(2);
  outputs[1] = spread({2, 5, 9, 8});
  auto refused = (*session)->run_into(inputs, outputs);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("its memory is for f32 2x5x9x8, it is f32 2x5x9x9"), std::string::npos)
      << refused.error().message;
  outputs[1] = spread({2, 5, 9, 9}, -1, 1, DataType::f64);
  EXPECT_FALSE((*session)->run_into(inputs, outputs).ok());
  refused = (*session)->run_into(inputs, {outputs.data(), 1});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "1 outputs given, the network has 2");
}

}  // namespace
}  // namespace convoy::network
