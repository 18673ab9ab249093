#include "engines/cost/cost_model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engines/cost/fitted_engine.h"

namespace convoy::cost {
namespace {

ConvProblem problem(const char* text) { return *parse_problem(text); }

TEST(CostModel, ShapeTermsAreBounded) {
  for (const char* text : {"fprop:x=f32,1x1x1x1:w=f32,1x1x1x1", "fprop:x=f32,1x1x4000000000:w=f32,1x1x1",
                           "wgrad:x=bf16,65536x3x1x1:w=bf16,1000000x3x1x1:y=bf16,65536x1000000x1x1",
                           "dgrad:x=f32,1x64x512x512x512:w=f32,64x1x9x9x9:y=f32,1x64x504x504x504:groups=64"}) {
    const Terms all = terms(problem(text), 1, 0);
    for (int i = 0; i < kSumTerms; ++i) EXPECT_GE(all[i], 0) << text << " sum term " << i;
    for (int i = kSumTerms; i < kSumTerms + kShapeTerms; ++i) EXPECT_LE(std::abs(all[i]), 1) << text << " term " << i;
  }
}

TEST(CostModel, MoreToDoTakesLonger) {
  Model model{};
  for (int i = 0; i < kSumTerms; ++i) model.coefficients[i] = 1;
  const double one = model.seconds(terms(problem("fprop:x=f32,1x64x56x56:w=f32,64x64x3x3"), 1e-3, 0));
  const double copied = model.seconds(terms(problem("fprop:x=f32,1x64x56x56:w=f32,64x64x3x3"), 1e-3, 1e6));
  const double batch = model.seconds(terms(problem("fprop:x=f32,4x64x56x56:w=f32,64x64x3x3"), 4e-3, 0));
  EXPECT_GT(one, 1e-3);
  EXPECT_GT(copied, one);
  EXPECT_GT(batch, 3 * one);
}

// Channels last, each group's products pass over the whole of x and y: one channel of 16 costs as 16 do.
TEST(CostModel, GroupsShareCacheLines) {
  Model model{};
  model.coefficients[8] = 1;  // by_groups
  const auto seconds = [&](const char* text) { return model.seconds(terms(problem(text), 0, 0)); };
  EXPECT_EQ(seconds("fprop:x=f32,1x16x32x32,nhwc:w=f32,16x16x1x1"), 0);
  const double four = seconds("fprop:x=f32,1x64x32x32,nhwc:w=f32,64x16x1x1:groups=4");
  EXPECT_DOUBLE_EQ(seconds("fprop:x=f32,1x64x32x32,nhwc:w=f32,64x1x1x1:groups=64"), 16 * four);
  EXPECT_EQ(seconds("fprop:x=f32,1x64x32x32,nchw:w=f32,64x1x1x1:groups=64"), 0);
}

// bf16 has models of its own where the processor multiplies it, and where it has tiles; of f32 one serves all.
TEST(CostModel, Bf16IsFittedAsMultipliedAndAsEmulated) {
  const auto find = [](DataType x, Products products) {
    return find_model("onednn.gemm", Pass::fprop, x, Grouping::dense, Isa::avx512, products);
  };
  ASSERT_NE(find(DataType::bf16, Products::native), nullptr);
  ASSERT_NE(find(DataType::bf16, Products::emulated), nullptr);
  EXPECT_NE(find(DataType::bf16, Products::native), find(DataType::bf16, Products::emulated));
  EXPECT_EQ(find(DataType::f32, Products::native), find(DataType::f32, Products::emulated));
  EXPECT_NE(find(DataType::bf16, Products::tiles), find(DataType::bf16, Products::native));
  EXPECT_EQ(find(DataType::f32, Products::tiles), find(DataType::f32, Products::emulated));
}

// A model of tiles is fitted for engines that use them of themselves; others have what was fitted without.
TEST(CostModel, OfTilesOnlyWhereTheyMatter) {
  const auto find = [](const char* engine, Products products) {
    return find_model(engine, Pass::fprop, DataType::u8, Grouping::dense, Isa::avx512, products);
  };
  EXPECT_NE(find("onednn.gemm_s8u8s32", Products::tiles), find("onednn.gemm_s8u8s32", Products::native));
  EXPECT_EQ(find("cpu.int8", Products::tiles), find("cpu.int8", Products::native));
  EXPECT_NE(find("cpu.int8", Products::tiles), nullptr);
}

TEST(CostModel, EnginesFindTheirModels) {
  EXPECT_EQ(find_model("cpu.nothing", Pass::fprop, DataType::f32, Grouping::dense, Isa::avx512), nullptr);
  const Model* direct = find_model("cpu.direct", Pass::fprop, DataType::f32, Grouping::dense, Isa::avx512);
  ASSERT_NE(direct, nullptr);
  const EngineModels models("cpu.direct", Isa::avx512);
  EXPECT_EQ(models.of(problem("fprop:x=f32,1x64x56x56:w=f32,64x64x3x3")), direct);
  // f64 shares that of f32.
  EXPECT_EQ(models.of(problem("fprop:x=f64,1x64x56x56:w=f64,64x64x3x3")), direct);
  // Both 8-bit integers share a model.
  EXPECT_EQ(find_model("cpu.int8", Pass::fprop, DataType::s8, Grouping::dense, Isa::avx512),
            find_model("cpu.int8", Pass::fprop, DataType::u8, Grouping::dense, Isa::avx512));
}

TEST(CostModel, ProcessorsHaveModelsOfTheirOwn) {
  const auto find = [](const char* engine, DataType x, Products products, FittedOn processor) {
    return find_model(engine, Pass::fprop, x, Grouping::dense, Isa::avx512, products, processor);
  };
  const Model* amd = find("cpu.direct", DataType::f32, Products::emulated, FittedOn::amd);
  ASSERT_NE(amd, nullptr);
  EXPECT_NE(amd, find("cpu.direct", DataType::f32, Products::emulated, FittedOn::intel));
  // What was fitted on one only serves both: tiles are Intel's.
  EXPECT_EQ(find("onednn.gemm", DataType::bf16, Products::tiles, FittedOn::amd),
            find("onednn.gemm", DataType::bf16, Products::tiles, FittedOn::intel));
  // Own engines' code for AVX2 has models, wherever it runs.
  for (const char* engine : {"cpu.direct", "cpu.gemm", "cpu.depthwise"}) {
    const Grouping grouping = engine == std::string_view("cpu.depthwise") ? Grouping::depthwise : Grouping::dense;
    const Model* model =
        find_model(engine, Pass::fprop, DataType::f32, grouping, Isa::avx2, Products::emulated, FittedOn::avx2);
    ASSERT_NE(model, nullptr) << engine;
    EXPECT_EQ(model,
              find_model(engine, Pass::fprop, DataType::f32, grouping, Isa::avx2, Products::emulated, FittedOn::intel))
        << engine;
  }
  CpuFeatures cpu;
  cpu.brand = "AMD EPYC";
  cpu.isa = Isa::avx2;
  EXPECT_EQ(fitted_on(cpu), FittedOn::avx2);
  cpu.isa = Isa::avx512;
  EXPECT_EQ(fitted_on(cpu), FittedOn::amd);
  cpu.brand = "Intel(R) Xeon(R) Processor";
  EXPECT_EQ(fitted_on(cpu), FittedOn::intel);
}

// Has no model.
class Unfitted final : public FittedEngine {
 public:
  Unfitted() : FittedEngine({.name = "test.unfitted"}) {}
  std::optional<Refusal> check(const ConvProblem&, const PlanRequest&) const override { return std::nullopt; }
  Configurations configurations(const ConvProblem&, const PlanRequest&) const override { return {}; }
  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem&, const KnobValues&, const PlanRequest&) const override {
    return Error{ErrorCode::unsupported, "it only predicts"};
  }

 protected:
  Work work(const ConvProblem&, const KnobValues&, const PlanRequest&) const override { return {.seconds = 1e-6}; }
};

TEST(CostModel, WeightsBeyondTheSharedCacheComeFromMemory) {
  const ConvProblem large = problem("fprop:x=f32,1x4096x1x1:w=f32,4096x4096x1x1");
  const Unfitted engine;
  PlanRequest request;
  request.cpu.l3_bytes = large.w.bytes();
  EXPECT_EQ(engine.predict_seconds(large, {}, request), 1e-6);
  --request.cpu.l3_bytes;
  const double from_memory = engine.predict_seconds(large, {}, request);
  EXPECT_GT(from_memory, 1e-3);  // 64 MB
  request.threads = 2;
  EXPECT_NEAR(engine.predict_seconds(large, {}, request), from_memory / 2, 1e-9);
}

}  // namespace
}  // namespace convoy::cost
