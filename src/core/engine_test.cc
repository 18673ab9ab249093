#include "convoy/engine.h"

#include <gtest/gtest.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <string>

namespace convoy {
namespace {

class FakeEngine final : public Engine {
 public:
  EngineInfo declared;
  std::optional<Refusal> own_refusal;

  const EngineInfo& info() const override { return declared; }
  std::optional<Refusal> check(const ConvProblem&, const PlanRequest&) const override { return own_refusal; }
  double predict_seconds(const ConvProblem&, const KnobValues&, const PlanRequest&) const override { return 1; }
  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem&, const KnobValues&, const PlanRequest&) const override {
    return Error{ErrorCode::unsupported, "a fake"};
  }
};

const char* const kPlain = "fprop:x=f32,1x8x8x8,nhwc:w=f32,8x8x3x3:pad=1x1";
const char* const kAdding = "fprop:x=u8,1x8x8x8,nhwc:w=s8,8x8x3x3:pad=1x1:requant=tensor:residual=1,0,1,0";

struct Case {
  RefusalCode code;
  std::function<void(EngineInfo&)> limit;
  std::string problem;
  std::string reason;
};

void expect_limits(const std::vector<Case>& cases) {
  PlanRequest request;
  request.cpu.isa = Isa::avx2;
  for (const Case& c : cases) {
    const auto problem = parse_problem(c.problem);
    ASSERT_TRUE(problem.ok()) << problem.error().message;
    FakeEngine engine;
    declare_everything(engine.declared);
    EXPECT_EQ(refuse(engine, *problem, request), std::nullopt) << c.problem;
    c.limit(engine.declared);
    const auto refusal = refuse(engine, *problem, request);
    ASSERT_TRUE(refusal.has_value()) << c.reason;
    EXPECT_EQ(refusal->code, c.code);
    EXPECT_EQ(refusal->reason, c.reason);
    EXPECT_FALSE(admits(engine.declared, *problem, request)) << c.reason;
  }
}

// Every field of EngineInfo that limits: with the limit the problem is refused, without it it is not.
TEST(Refuse, EnforcesEveryDeclaredLimit) {
  const std::string plain = kPlain;
  const std::string bytes = "fprop:x=u8,1x8x8x8,nhwc:w=s8,8x8x3x3:pad=1x1";
  const std::vector<Case> cases = {
      {RefusalCode::instruction_set, [](EngineInfo& i) { i.min_isa = Isa::avx512; }, plain,
       "instruction set=avx2: this engine needs avx512"},
      {RefusalCode::pass,
       [](EngineInfo& i) {
         i.passes = {Pass::dgrad, Pass::wgrad};
       },
       plain, "pass=fprop: this engine computes dgrad, wgrad"},
      {RefusalCode::data_type,
       [](EngineInfo& i) {
         i.any_types = false;
         i.types = {{DataType::bf16, DataType::bf16, DataType::f32, DataType::f32}};
       },
       plain, "types x=f32 w=f32 y=f32 compute=f32: this engine takes x=bf16 w=bf16 y=f32 compute=f32"},
      {RefusalCode::layout,
       [](EngineInfo& i) {
         i.any_layouts = false;
         i.layouts = {{Layout::nchw16c, Layout::nchw16c}, {Layout::nchw, Layout::nhwc}};
       },
       plain, "layouts x=nhwc, y=nhwc: this engine takes x/y in nchw16c/nchw16c, nchw/nhwc"},
      {RefusalCode::layout, [](EngineInfo& i) { i.any_weight_strides = false; },
       "fprop:x=f32,1x8x8x8:w=f32,8x8x3x3,nhwc:pad=1x1", "layout w=nhwc: this engine takes w in nchw only"},
      {RefusalCode::spatial_dims, [](EngineInfo& i) { i.min_spatial_dims = i.max_spatial_dims = 2; },
       "fprop:x=f32,1x8x8:w=f32,8x8x3", "spatial dims=1: this engine takes 2"},
      {RefusalCode::spatial_dims, [](EngineInfo& i) { i.max_spatial_dims = 2; },
       "fprop:x=f32,1x8x8x8x8:w=f32,8x8x3x3x3", "spatial dims=3: this engine takes 1 to 2"},
      {RefusalCode::groups, [](EngineInfo& i) { i.groups = false; }, "fprop:x=f32,1x8x8x8:w=f32,8x4x3x3:groups=2",
       "groups=2: this engine takes groups=1 only"},
      {RefusalCode::stride, [](EngineInfo& i) { i.strided = false; }, plain + ":stride=1x2",
       "stride=1x2: this engine takes stride 1 only"},
      {RefusalCode::dilation, [](EngineInfo& i) { i.dilated = false; }, plain + ":dilation=2x1",
       "dilation=2x1: this engine takes dilation 1 only"},
      {RefusalCode::mode, [](EngineInfo& i) { i.flipped = false; }, plain + ":mode=conv",
       "mode=conv: this engine computes cross-correlation only"},
      {RefusalCode::scaling, [](EngineInfo& i) { i.alpha_beta = false; }, plain + ":beta=0.5",
       "alpha=1, beta=0.5: this engine takes alpha=1 and beta=0 only"},
      {RefusalCode::scaling, [](EngineInfo& i) { i.alpha_beta = false; }, plain + ":alpha=2",
       "alpha=2, beta=0: this engine takes alpha=1 and beta=0 only"},
      {RefusalCode::scaling, [](EngineInfo& i) { i.gate = false; }, plain + ":gate=1",
       "gate=1: this engine multiplies x by no gate"},
      {RefusalCode::epilogue, [](EngineInfo& i) { i.bias = false; }, plain + ":bias=1",
       "bias=1: this engine adds no bias"},
      {RefusalCode::epilogue, [](EngineInfo& i) { i.narrow_bias = false; },
       "fprop:x=bf16,1x8x8x8:w=bf16,8x8x3x3:bias=out", "bias=out: this engine adds a bias of type f32 only"},
      {RefusalCode::epilogue, [](EngineInfo& i) { i.float_bias = false; }, bytes + ":bias=f32",
       "bias=f32: this engine adds a bias of type s32 only"},
      {RefusalCode::epilogue, [](EngineInfo& i) { i.residual = false; }, plain + ":gamma=1",
       "gamma=1: this engine adds no residual"},
      {RefusalCode::epilogue,
       [](EngineInfo& i) {
         i.any_activation = false;
         i.activations = {ActivationKind::relu, ActivationKind::clip};
       },
       plain + ":act=mish", "act=mish: this engine fuses relu, clip only"},
      {RefusalCode::epilogue, [](EngineInfo& i) { i.requantize = false; }, bytes + ":requant=channel",
       "requant=channel: this engine doesn't requantize"},
      {RefusalCode::epilogue, [](EngineInfo& i) { i.quantized_residual = false; }, kAdding,
       "residual: this engine adds none behind the requantization"},
      {RefusalCode::epilogue, [](EngineInfo& i) { i.zero_points = false; }, bytes + ":zp=3,0,0",
       "zp=3,0,0: this engine takes zero points of 0 only"},
      {RefusalCode::epilogue, [](EngineInfo& i) { i.given_zero_points = false; }, bytes + ":zp=given,0,0",
       "zp: x's is given at execution: this engine takes zero points that are known when it plans only"},
      {RefusalCode::epilogue, [](EngineInfo& i) { i.given_zero_points = false; }, bytes + ":zp=0,given,0",
       "zp: one for each output channel of w is given at execution: this engine takes zero points that are known when "
       "it plans only"},
      {RefusalCode::size, [](EngineInfo& i) { i.max_elements = 575; }, plain,
       "w.dims=8x8x3x3: it spans 576 elements, this engine takes at most 575"},
  };
  expect_limits(cases);
}

// Every field that admits something: at its default it doesn't, and names itself.
TEST(Refuse, WhatIsNotDeclaredIsRefused) {
  const std::string plain = kPlain;
  const std::string bytes = "fprop:x=u8,1x8x8x8,nhwc:w=s8,8x8x3x3:pad=1x1";
  const EngineInfo fresh;
  const std::vector<Case> cases = {
      {RefusalCode::instruction_set, [&](EngineInfo& i) { i.min_isa = fresh.min_isa; }, plain,
       "instruction set=avx2: this engine declares none"},
      {RefusalCode::pass, [&](EngineInfo& i) { i.passes = fresh.passes; }, plain,
       "pass=fprop: this engine computes none"},
      {RefusalCode::data_type, [&](EngineInfo& i) { i.any_types = fresh.any_types; }, plain,
       "types x=f32 w=f32 y=f32 compute=f32: this engine takes none"},
      {RefusalCode::spatial_dims, [&](EngineInfo& i) { i.max_spatial_dims = fresh.max_spatial_dims; }, plain,
       "spatial dims=2: this engine takes none"},
      {RefusalCode::layout, [&](EngineInfo& i) { i.any_layouts = fresh.any_layouts; }, plain,
       "layouts x=nhwc, y=nhwc: this engine takes x/y in none"},
      {RefusalCode::layout, [&](EngineInfo& i) { i.any_weight_strides = fresh.any_weight_strides; },
       "fprop:x=f32,1x8x8x8:w=f32,8x8x3x3,nhwc:pad=1x1", "layout w=nhwc: this engine takes w in nchw only"},
      {RefusalCode::groups, [&](EngineInfo& i) { i.groups = fresh.groups; },
       "fprop:x=f32,1x8x8x8:w=f32,8x4x3x3:groups=2", "groups=2: this engine takes groups=1 only"},
      {RefusalCode::stride, [&](EngineInfo& i) { i.strided = fresh.strided; }, plain + ":stride=2x2",
       "stride=2x2: this engine takes stride 1 only"},
      {RefusalCode::dilation, [&](EngineInfo& i) { i.dilated = fresh.dilated; }, plain + ":dilation=2x1",
       "dilation=2x1: this engine takes dilation 1 only"},
      {RefusalCode::mode, [&](EngineInfo& i) { i.flipped = fresh.flipped; }, plain + ":mode=conv",
       "mode=conv: this engine computes cross-correlation only"},
      {RefusalCode::scaling, [&](EngineInfo& i) { i.alpha_beta = fresh.alpha_beta; }, plain + ":beta=0.5",
       "alpha=1, beta=0.5: this engine takes alpha=1 and beta=0 only"},
      {RefusalCode::scaling, [&](EngineInfo& i) { i.gate = fresh.gate; }, plain + ":gate=1",
       "gate=1: this engine multiplies x by no gate"},
      {RefusalCode::epilogue, [&](EngineInfo& i) { i.bias = fresh.bias; }, plain + ":bias=1",
       "bias=1: this engine adds no bias"},
      {RefusalCode::epilogue, [&](EngineInfo& i) { i.float_bias = fresh.float_bias; }, bytes + ":bias=f32",
       "bias=f32: this engine adds a bias of type s32 only"},
      {RefusalCode::epilogue, [&](EngineInfo& i) { i.residual = fresh.residual; }, plain + ":gamma=1",
       "gamma=1: this engine adds no residual"},
      {RefusalCode::epilogue, [&](EngineInfo& i) { i.any_activation = fresh.any_activation; }, plain + ":act=relu",
       "act=relu: this engine fuses none"},
      {RefusalCode::epilogue, [&](EngineInfo& i) { i.requantize = fresh.requantize; }, bytes + ":requant=tensor",
       "requant=tensor: this engine doesn't requantize"},
      {RefusalCode::epilogue, [&](EngineInfo& i) { i.quantized_residual = fresh.quantized_residual; }, kAdding,
       "residual: this engine adds none behind the requantization"},
      {RefusalCode::epilogue, [&](EngineInfo& i) { i.zero_points = fresh.zero_points; }, bytes + ":zp=0,1,0",
       "zp=0,1,0: this engine takes zero points of 0 only"},
      {RefusalCode::epilogue, [&](EngineInfo& i) { i.given_zero_points = fresh.given_zero_points; },
       bytes + ":zp=given,0,0",
       "zp: x's is given at execution: this engine takes zero points that are known when it plans only"},
      {RefusalCode::size, [&](EngineInfo& i) { i.max_elements = fresh.max_elements; },
       "fprop:x=f32,1x2147483648x1x1,nhwc:w=f32,1x2147483648x1x1",
       "x.dims=1x2147483648x1x1: it spans 2147483648 elements, this engine takes at most 2147483647"},
  };
  expect_limits(cases);
  EXPECT_FALSE(fresh.deterministic || fresh.thread_invariant) << "claims";
  EngineInfo on_gpu;
  on_gpu.device = DeviceKind::cuda;
  declare_everything(on_gpu);
  on_gpu.min_architecture = fresh.min_architecture;
  PlanRequest request;
  request.cuda = CudaDevice{.ordinal = 0, .name = "a GPU", .architecture = 90};
  EXPECT_FALSE(admits(on_gpu, *parse_problem(kPlain), request));
}

// oneDNN's engines for SSE4.1 would be planned for a request that says nothing.
TEST(PlanRequest, IsForTheProcessorUnlessItSaysOtherwise) { EXPECT_EQ(PlanRequest{}.cpu, cpu_features()); }

TEST(Refuse, DeclaredLimitsAdmitWhatFitsThem) {
  FakeEngine engine;
  declare_everything(engine.declared);
  engine.declared.any_layouts = engine.declared.any_activation = false;
  engine.declared.layouts = {{Layout::nchw16c, Layout::nchw16c}, {Layout::nhwc, Layout::nhwc}};
  engine.declared.activations = {ActivationKind::relu};
  engine.declared.min_isa = Isa::avx2;
  engine.declared.max_elements = 576;
  PlanRequest request;
  request.cpu.isa = Isa::avx512;
  EXPECT_EQ(refuse(engine, *parse_problem(kPlain), request), std::nullopt);
  EXPECT_EQ(refuse(engine, *parse_problem(std::string(kPlain) + ":act=relu"), request), std::nullopt);
  // x and y must fit the same pair.
  const auto mixed = parse_problem("fprop:x=f32,1x8x8x8,nhwc:w=f32,8x8x3x3:y=f32,1x8x8x8,nchw16c:pad=1x1");
  EXPECT_EQ(refuse(engine, *mixed, request)->code, RefusalCode::layout);
  // One channel: nchw strides are packed nhwc as well.
  EXPECT_EQ(refuse(engine, *parse_problem("fprop:x=f32,1x1x8x8:w=f32,1x1x3x3"), request), std::nullopt);
}

TEST(Refuse, TheDeviceComesFirst) {
  FakeEngine engine;  // without a single pass
  PlanRequest on_gpu;
  on_gpu.cuda = CudaDevice{.ordinal = 1, .name = "a GPU", .architecture = 75};
  const auto problem = parse_problem(kPlain);
  const auto expect = [&](const PlanRequest& request, RefusalCode code, std::string_view reason) {
    const auto refusal = refuse(engine, *problem, request);
    ASSERT_TRUE(refusal.has_value());
    EXPECT_EQ(refusal->code, code);
    EXPECT_EQ(refusal->reason, reason);
    EXPECT_FALSE(admits(engine.declared, *problem, request));
  };
  expect(on_gpu, RefusalCode::device, "device=cuda:1: this engine runs on the CPU");
  declare_everything(engine.declared);
  engine.declared.passes.clear();
  engine.declared.device = DeviceKind::cuda;
  engine.declared.min_architecture = 80;
  engine.declared.min_isa = Isa::avx512;  // says nothing about a GPU
  expect({}, RefusalCode::device, "device=cpu: this engine needs a CUDA device");
  expect(on_gpu, RefusalCode::device, "device=cuda:1, sm_75: this engine needs sm_80 or newer");
  on_gpu.cuda->architecture = 80;
  EXPECT_EQ(refuse(engine, *problem, on_gpu)->code, RefusalCode::pass);
  engine.declared.passes = {Pass::fprop};
  EXPECT_TRUE(admits(engine.declared, *problem, on_gpu));
}

TEST(Refuse, AsksTheEngineLast) {
  FakeEngine engine;
  declare_everything(engine.declared);
  engine.own_refusal = Refusal{RefusalCode::filter, "filter=3x3: no"};
  PlanRequest request;
  request.cpu.isa = Isa::portable;
  EXPECT_EQ(refuse(engine, *parse_problem(kPlain), request)->code, RefusalCode::filter);
  engine.declared.min_isa = Isa::avx2;
  EXPECT_EQ(refuse(engine, *parse_problem(kPlain), request)->code, RefusalCode::instruction_set);
}

TEST(Refuse, CodesHaveNames) {
  EXPECT_EQ(name_of(RefusalCode::device), "device");
  EXPECT_EQ(name_of(RefusalCode::padding), "padding");
  EXPECT_EQ(name_of(RefusalCode::size), "size");
  EXPECT_EQ(name_of(RefusalCode::not_built), "not_built");
}

// true would be stored as 1 and 'm' as 109, and neither would read back as what was written.
static_assert(std::constructible_from<KnobSetting, int> && std::constructible_from<KnobSetting, std::uint8_t> &&
              std::constructible_from<KnobSetting, const char*> && std::constructible_from<KnobSetting, std::string>);
static_assert(!std::constructible_from<KnobSetting, bool> && !std::constructible_from<KnobSetting, char> &&
              !std::constructible_from<KnobSetting, double>);

TEST(Candidate, PrintsAndParses) {
  const Candidate plain{"cpu.direct", {}}, tuned{"cpu.winograd", {{"k_block", -2}, {"m", 4}}};
  EXPECT_EQ(print(plain), "cpu.direct");
  EXPECT_EQ(print(tuned), "cpu.winograd{k_block=-2,m=4}");
  EXPECT_EQ(*parse_candidate("cpu.direct"), plain);
  EXPECT_EQ(*parse_candidate("cpu.direct{}"), plain);
  EXPECT_EQ(*parse_candidate(" cpu.winograd{m=4,k_block=-2}\n"), tuned);
  EXPECT_EQ(knob_or(tuned.knobs, "m", 2), 4);
  EXPECT_EQ(knob_or(tuned.knobs, "n", 2), 2);
  const Candidate named{"cuda.x", {{"kernel", "plane_bands"}, {"rows", 7}}};
  EXPECT_EQ(print(named), "cuda.x{kernel=plane_bands,rows=7}");
  EXPECT_EQ(*parse_candidate("cuda.x{rows=7,kernel=plane_bands}"), named);
  EXPECT_EQ(word_or(named.knobs, "kernel", "patch"), "plane_bands");
  EXPECT_EQ(word_or(named.knobs, "rows", "patch"), "patch") << "a number";
  EXPECT_EQ(knob_or(named.knobs, "kernel", 3), 3) << "a word";
}

TEST(Configurations, CombinationsAreCompletedByTheirDefaults) {
  const Configurations all{{{"tile", {4, 2}, ""}, {"order", {"rows", "columns"}, ""}}, {}};
  EXPECT_EQ(print(Candidate{"", default_knobs(all)}), "{order=rows,tile=4}");
  EXPECT_EQ(print(Candidate{"", *completed({{"tile", 2}}, all)}), "{order=rows,tile=2}");
  EXPECT_EQ(completed({{"tile", 3}}, all).error().message, "knob tile=3: the values for this problem are 4, 2");
  EXPECT_EQ(completed({{"order", 0}}, all).error().message,
            "knob order=0: the values for this problem are rows, columns");
  EXPECT_EQ(completed({{"tiles", 4}}, all).error().message, "knob 'tiles' is unknown; this engine has tile, order");
  EXPECT_EQ(completed({{"m", 4}}, {}).error().message, "knob 'm': this engine has no knobs for this problem");
  EXPECT_EQ(*completed({}, {}), KnobValues{});
}

TEST(Configurations, ListedOnesAreCompletedByTheFirstThatHasWhatIsNamed) {
  const KnobValues patch = {{"columns", 2}, {"kernel", "patch"}, {"rows", 7}};
  const KnobValues wide = {{"columns", 7}, {"kernel", "patch"}, {"rows", 1}};
  const KnobValues general = {{"kernel", "general"}};
  const Configurations listed = listed_configurations(
      {patch, wide, general}, {{"kernel", {}, "which"}, {"rows", {}, ""}, {"columns", {}, ""}, {"unused", {}, ""}});
  ASSERT_EQ(listed.knobs.size(), 3u);
  EXPECT_EQ(listed.knobs[0].values, (std::vector<KnobSetting>{"patch", "general"}));
  EXPECT_EQ(listed.knobs[0].text, "which");
  EXPECT_EQ(listed.knobs[1].values, (std::vector<KnobSetting>{7, 1}));
  EXPECT_EQ(default_knobs(listed), patch);
  EXPECT_EQ(*completed({}, listed), patch);
  EXPECT_EQ(*completed({{"columns", 7}}, listed), wide);
  EXPECT_EQ(*completed({{"kernel", "general"}}, listed), general);
  EXPECT_EQ(completed({{"kernel", "mma"}}, listed).error().message,
            "knob kernel=mma: the values for this problem are patch, general");
  EXPECT_EQ(
      completed({{"columns", 7}, {"rows", 7}}, listed).error().message,
      "these knob values don't go together; the configurations for this problem are {columns=2,kernel=patch,rows=7}, "
      "{columns=7,kernel=patch,rows=1}, {kernel=general}");
}

TEST(Candidate, ErrorsQuoteTheText) {
  const auto error = [](std::string_view text) {
    const auto candidate = parse_candidate(text);
    return candidate.ok() ? "" : candidate.error().message;
  };
  EXPECT_EQ(error(""), "engine name '' is not letters, digits, '.', '_' and '-'");
  EXPECT_EQ(error("a b"), "engine name 'a b' is not letters, digits, '.', '_' and '-'");
  EXPECT_EQ(error("cpu.x{m=4"), "candidate 'cpu.x{m=4' does not end in '}'");
  EXPECT_EQ(error("cpu.x{"), "candidate 'cpu.x{' does not end in '}'");
  EXPECT_EQ(error("cpu.x{m}"), "candidate 'cpu.x{m}': 'm' is not NAME=VALUE");
  EXPECT_EQ(error("cpu.x{m=4,m=5}"), "candidate 'cpu.x{m=4,m=5}': knob 'm' is given twice");
  EXPECT_EQ(error("cpu.x{m=4four}"), "candidate 'cpu.x{m=4four}': knob 'm': '4four' is not an integer");
  EXPECT_EQ(error("cpu.x{m=}"), "candidate 'cpu.x{m=}': knob 'm': '' is not an integer");
  EXPECT_EQ(error("cpu.x{m=a b}"), "candidate 'cpu.x{m=a b}': knob 'm': 'a b' is not an integer");
}

}  // namespace
}  // namespace convoy
