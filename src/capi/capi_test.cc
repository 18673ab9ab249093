// What C callers depend on: statuses, sentences, null and mis-sized arguments, structs of older programs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "convoy.h"

namespace {

// On every machine as on one without a GPU; before anything asks for the driver. What there is on a device:
// device_test.cc, tests/gpu.
const bool prepared = ::setenv("CONVOY_CUDA_DRIVER", "off", 1) == 0;

bool says(std::string_view part) { return std::string_view(convoy_error()).find(part) != std::string_view::npos; }

constexpr const char* kText = "fprop:x=f32,1x8x6x6,nhwc:w=f32,8x8x3x3:pad=1x1";

struct CInterface : testing::Test {
  void SetUp() override { ASSERT_EQ(convoy_problem_create(kText, &problem), CONVOY_OK) << convoy_error(); }
  void TearDown() override { convoy_problem_destroy(problem); }
  convoy_problem* problem = nullptr;
};

TEST_F(CInterface, AnErrorIsAStatusAndASentenceThatNamesTheField) {
  convoy_problem* none = problem;
  EXPECT_EQ(convoy_problem_create("fprop:x=f32,1x8x6x6:w=f32,8x7x3x3", &none), CONVOY_INVALID_ARGUMENT);
  EXPECT_EQ(none, nullptr);
  EXPECT_NE(std::string(convoy_error()).find("w.dims[1]"), std::string::npos) << convoy_error();
}

TEST_F(CInterface, NullIsAnErrorAndNeverACrash) {
  convoy_choice* choice = nullptr;
  convoy_plan* plan = nullptr;
  EXPECT_EQ(convoy_problem_create(nullptr, nullptr), CONVOY_INVALID_ARGUMENT);
  EXPECT_EQ(convoy_problem_tensor(problem, CONVOY_X, nullptr), CONVOY_INVALID_ARGUMENT);
  EXPECT_EQ(convoy_query(problem, nullptr, nullptr, nullptr), CONVOY_INVALID_ARGUMENT);
  EXPECT_EQ(convoy_select(nullptr, nullptr, &choice), CONVOY_INVALID_ARGUMENT);
  EXPECT_EQ(convoy_select(problem, nullptr, nullptr), CONVOY_INVALID_ARGUMENT);
  EXPECT_EQ(convoy_plan_create(problem, nullptr, nullptr, nullptr, &plan), CONVOY_INVALID_ARGUMENT);
  EXPECT_STREQ(convoy_error(), "candidate is null");
  EXPECT_EQ(convoy_plan_execute(nullptr, nullptr), CONVOY_INVALID_ARGUMENT);
  EXPECT_EQ(convoy_choice_measured(nullptr), 0u);
  convoy_problem_destroy(nullptr);
  convoy_choice_destroy(nullptr);
  convoy_plan_destroy(nullptr);
}

TEST_F(CInterface, MissingTensorsAtExecutionAreNamed) {
  convoy_plan* plan = nullptr;
  ASSERT_EQ(convoy_plan_create(problem, "reference", nullptr, nullptr, &plan), CONVOY_OK) << convoy_error();
  convoy_arguments arguments = CONVOY_ARGUMENTS_INIT;
  EXPECT_EQ(convoy_plan_execute(plan, &arguments), CONVOY_INVALID_ARGUMENT);
  EXPECT_NE(std::string(convoy_error()).find("x"), std::string::npos);
  convoy_plan_destroy(plan);
}

// Nothing to compute is no error; where there are no terms a sum is 0, and the rest of the formula stays.
TEST_F(CInterface, EmptyProblemsRun) {
  const auto run = [](const char* text, convoy_arguments arguments, const char* engine = nullptr) {
    convoy_problem* empty = nullptr;
    ASSERT_EQ(convoy_problem_create(text, &empty), CONVOY_OK) << text << ": " << convoy_error();
    convoy_options options = CONVOY_OPTIONS_INIT;
    options.engines = engine;  // filters choose among engines that multiply
    convoy_choice* choice = nullptr;
    ASSERT_EQ(convoy_select(empty, &options, &choice), CONVOY_OK) << text << ": " << convoy_error();
    EXPECT_STREQ(convoy_choice_candidate(choice), "cpu.empty");
    EXPECT_EQ(convoy_choice_warnings(choice), nullptr) << convoy_choice_warnings(choice);
    convoy_plan* plan = nullptr;
    ASSERT_EQ(convoy_plan_create(empty, convoy_choice_candidate(choice), &options, nullptr, &plan), CONVOY_OK)
        << convoy_error();
    EXPECT_EQ(convoy_plan_execute(plan, &arguments), CONVOY_OK) << text << ": " << convoy_error();
    convoy_plan_destroy(plan);
    convoy_choice_destroy(choice);
    convoy_problem_destroy(empty);
  };
  const convoy_arguments nothing = CONVOY_ARGUMENTS_INIT;
  alignas(64) float w[4 * 3 * 9] = {}, out[16] = {};
  convoy_arguments with = nothing;
  with.w = w;
  run("fprop:x=f32,0x3x8x8:w=f32,4x3x3x3:pad=1x1", with);
  run("fprop:x=f32,0x3x8x8,nhwc:w=f32,4x3x3x3:bias=1:act=relu", with, "cpu.gemm");
  run("dgrad:y=f32,0x4x8x8:w=f32,4x3x3x3", with);
  run("fprop:x=f32,2x3x8x8:w=f32,0x3x3x3", nothing);
  // out = act(bias), a channel of out each.
  const float bias[2] = {3, -5};
  with = nothing;
  with.bias = bias, with.out = out;
  run("fprop:x=f32,2x0x3x3:w=f32,2x0x3x2:bias=1:act=relu", with);
  EXPECT_EQ(std::vector<float>(out, out + 8), (std::vector<float>{3, 3, 0, 0, 3, 3, 0, 0}));
  // beta*out of a gradient over no images.
  std::fill_n(out, 16, 6.0F);
  with = nothing;
  with.out = out;
  run("wgrad:x=f32,0x2x4x4:y=f32,0x2x3x3:filter=2x2:beta=0.5", with);
  EXPECT_EQ(std::vector<float>(out, out + 16), std::vector<float>(16, 3.0F));
  run("wgrad:x=f32,0x2x4x4:y=f32,0x2x3x3:filter=2x2", with);
  EXPECT_EQ(std::vector<float>(out, out + 16), std::vector<float>(16, 0.0F));
}

TEST_F(CInterface, GivenZeroPointsAreTaken) {
  const char* text = "fprop:x=u8,1x1x1x2,nhwc:w=s8,1x1x1x1:y=s32,1x1x1x2,nhwc:zp=given,given,0";
  convoy_problem* quantized = nullptr;
  ASSERT_EQ(convoy_problem_create(text, &quantized), CONVOY_OK) << convoy_error();
  convoy_plan* plan = nullptr;
  ASSERT_EQ(convoy_plan_create(quantized, "reference", nullptr, nullptr, &plan), CONVOY_OK) << convoy_error();
  alignas(64) const std::uint8_t x[2] = {7, 9};
  alignas(64) const std::int8_t w = 5;
  const std::int32_t x_zero = 3, w_zero = 2;
  alignas(64) std::int32_t y[2] = {};
  convoy_arguments arguments = CONVOY_ARGUMENTS_INIT;
  arguments.x = x, arguments.w = &w, arguments.out = y;
  arguments.x_zero_point = &x_zero, arguments.w_zero_points = &w_zero;
  EXPECT_EQ(convoy_plan_execute(plan, &arguments), CONVOY_OK) << convoy_error();
  EXPECT_EQ(y[0], (7 - 3) * (5 - 2));
  EXPECT_EQ(y[1], (9 - 3) * (5 - 2));
  arguments.size = offsetof(convoy_arguments, x_zero_point);  // an older program's
  EXPECT_EQ(convoy_plan_execute(plan, &arguments), CONVOY_INVALID_ARGUMENT);
  EXPECT_STREQ(convoy_error(), "x_zero_point is null, and the problem has it given");
  convoy_plan_destroy(plan);
  convoy_problem_destroy(quantized);
}

TEST_F(CInterface, AnOlderProgramsShorterStructIsTaken) {
  convoy_options options = CONVOY_OPTIONS_INIT;
  options.engines = "cpu.direct";
  options.budget_seconds = -1;  // beyond what this older program knows of: never read
  options.size = offsetof(convoy_options, budget_seconds);
  convoy_choice* choice = nullptr;
  ASSERT_EQ(convoy_select(problem, &options, &choice), CONVOY_OK) << convoy_error();
  EXPECT_EQ(std::string(convoy_choice_candidate(choice)).substr(0, 10), "cpu.direct");
  convoy_choice_destroy(choice);
  options.size = sizeof options;
  EXPECT_EQ(convoy_select(problem, &options, &choice), CONVOY_INVALID_ARGUMENT);
  EXPECT_NE(std::string(convoy_error()).find("budget_seconds=-1"), std::string::npos) << convoy_error();
  options.size = 0;
  EXPECT_EQ(convoy_select(problem, &options, &choice), CONVOY_INVALID_ARGUMENT);

  convoy_tensor tensor = CONVOY_TENSOR_INIT;
  tensor.bytes = -7;
  tensor.size = offsetof(convoy_tensor, bytes);
  ASSERT_EQ(convoy_problem_tensor(problem, CONVOY_W, &tensor), CONVOY_OK);
  EXPECT_EQ(tensor.rank, 4);
  EXPECT_EQ(tensor.dims[3], 3);
  EXPECT_EQ(tensor.bytes, -7) << "written past the end of the caller's struct";
}

// Every function that takes options.
std::vector<convoy_status> all_with(const convoy_problem* problem, const convoy_options& options) {
  convoy_choice* choice = nullptr;
  convoy_plan* plan = nullptr;
  const auto ignore = [](void*, const char*, const char*, const char*, double) {};
  return {convoy_plan_create(problem, "reference", &options, nullptr, &plan), convoy_tune(problem, &options, &choice),
          convoy_select(problem, &options, &choice), convoy_query(problem, &options, ignore, nullptr)};
}

TEST_F(CInterface, TheDeviceIsNamed) {
  ASSERT_TRUE(prepared);
  for (const char* device : {"", "gpu", "cuda:", "cuda:-1", "cuda:99999"}) {
    convoy_options options = CONVOY_OPTIONS_INIT;
    options.device = device;
    for (const convoy_status status : all_with(problem, options)) EXPECT_EQ(status, CONVOY_INVALID_ARGUMENT);
    EXPECT_TRUE(says("device: '" + std::string(device) + "' is not a device")) << convoy_error();
  }
}

TEST_F(CInterface, WithoutAGpuTheReasonIsSaid) {
  convoy_options options = CONVOY_OPTIONS_INIT;
  options.device = "cuda";
  for (const convoy_status status : all_with(problem, options)) EXPECT_EQ(status, CONVOY_UNSUPPORTED);
  EXPECT_STREQ(convoy_error(), "device=cuda: no CUDA device: no CUDA driver: CONVOY_CUDA_DRIVER: it is switched off");
}

TEST_F(CInterface, WhatIsForAGpuIsRefusedOnTheProcessor) {
  convoy_options options = CONVOY_OPTIONS_INIT;
  options.target_sms = 3;
  for (const convoy_status status : all_with(problem, options)) EXPECT_EQ(status, CONVOY_INVALID_ARGUMENT);
  EXPECT_STREQ(convoy_error(), "target_sms=3: it is for device=cuda");

  options.target_sms = 0;
  options.device = "cpu";
  options.threads = 1;
  convoy_plan* plan = nullptr;
  ASSERT_EQ(convoy_plan_create(problem, "cuda.reference", &options, nullptr, &plan), CONVOY_UNSUPPORTED);
  EXPECT_TRUE(says("device=cpu: this engine needs a CUDA device")) << convoy_error();
  ASSERT_EQ(convoy_plan_create(problem, "reference", &options, nullptr, &plan), CONVOY_OK) << convoy_error();
  alignas(64) float x[8 * 6 * 6] = {}, w[8 * 8 * 3 * 3] = {}, y[8 * 6 * 6];
  convoy_arguments arguments = CONVOY_ARGUMENTS_INIT;
  arguments.x = x, arguments.w = w, arguments.out = y;
  EXPECT_EQ(convoy_plan_execute(plan, &arguments), CONVOY_OK) << convoy_error();
  arguments.stream = x;
  EXPECT_EQ(convoy_plan_execute(plan, &arguments), CONVOY_INVALID_ARGUMENT);
  EXPECT_TRUE(says("stream")) << convoy_error();
  arguments.size = offsetof(convoy_arguments, stream);  // an older program's: never read
  EXPECT_EQ(convoy_plan_execute(plan, &arguments), CONVOY_OK) << convoy_error();
  convoy_plan_destroy(plan);
}

TEST_F(CInterface, OnlyEnginesOfTheDeviceAnswer) {
  convoy_options options = CONVOY_OPTIONS_INIT;
  options.threads = 1;
  options.budget_seconds = -1;  // how to choose is not what a query reads
  std::vector<std::string> engines;
  const auto keep = [](void* user, const char* engine, const char* reason, const char* candidate, double) {
    EXPECT_NE(reason == nullptr, candidate == nullptr);
    static_cast<std::vector<std::string>*>(user)->push_back(engine);
  };
  ASSERT_EQ(convoy_query(problem, &options, keep, &engines), CONVOY_OK) << convoy_error();
  EXPECT_EQ(engines.front(), "cpu.direct");
  EXPECT_EQ(engines.back(), "reference");
  for (const std::string& engine : engines) EXPECT_FALSE(engine.starts_with("cu")) << engine;
}

TEST_F(CInterface, RefusalsSayWhyAndRulesAreStrictUnlessFallback) {
  convoy_options options = CONVOY_OPTIONS_INIT;
  options.rules = "* -> cpu.depthwise";
  convoy_choice* choice = nullptr;
  EXPECT_EQ(convoy_select(problem, &options, &choice), CONVOY_UNSUPPORTED) << convoy_error();
  EXPECT_NE(std::string(convoy_error()).find("groups=1"), std::string::npos) << convoy_error();
  options.fallback = 1;
  ASSERT_EQ(convoy_select(problem, &options, &choice), CONVOY_OK) << convoy_error();
  convoy_choice_destroy(choice);
}

TEST_F(CInterface, APlanRunsOnTheCallersThreads) {
  convoy_options options = CONVOY_OPTIONS_INIT;
  options.threads = 2;
  std::vector<int> parts;
  options.parallel_user = &parts;
  options.parallel_for = [](void* user, std::int32_t count, void (*body)(void*, std::int32_t), void* context) {
    for (std::int32_t index = 0; index < count; ++index) {
      static_cast<std::vector<int>*>(user)->push_back(index);
      body(context, index);
    }
  };
  convoy_problem* larger = nullptr;
  ASSERT_EQ(
      convoy_problem_create(
          "fprop:x=f32,1x64x28x28,nhwc,align=4:w=f32,64x64x3x3,align=4:y=f32,1x64x28x28,nhwc,align=4:pad=1x1", &larger),
      CONVOY_OK);
  convoy_tensor x = CONVOY_TENSOR_INIT, w = CONVOY_TENSOR_INIT, y = CONVOY_TENSOR_INIT;
  convoy_problem_tensor(larger, CONVOY_X, &x);
  convoy_problem_tensor(larger, CONVOY_W, &w);
  convoy_problem_tensor(larger, CONVOY_Y, &y);
  const std::vector<float> ones(std::max(x.bytes, w.bytes) / sizeof(float), 1);
  std::vector<float> lent(y.bytes / sizeof(float)), own(lent.size());
  convoy_arguments arguments = CONVOY_ARGUMENTS_INIT;
  arguments.x = ones.data();
  arguments.w = ones.data();
  for (std::vector<float>* out : {&lent, &own}) {
    convoy_plan* plan = nullptr;
    ASSERT_EQ(convoy_plan_create(larger, "cpu.direct", &options, nullptr, &plan), CONVOY_OK) << convoy_error();
    parts.clear();
    arguments.out = out->data();
    EXPECT_EQ(convoy_plan_execute(plan, &arguments), CONVOY_OK) << convoy_error();
    EXPECT_EQ(parts.empty(), options.parallel_for == nullptr);
    convoy_plan_destroy(plan);
    options.parallel_for = nullptr;
  }
  EXPECT_EQ(lent, own);
  convoy_problem_destroy(larger);
}

// Numbers in memory that begins `offset` bytes behind a multiple of 64.
struct Placed {
  Placed(std::int64_t bytes, std::size_t offset) : all(static_cast<std::size_t>(bytes) / sizeof(float) + 32) {
    data = all.data();
    while (reinterpret_cast<std::uintptr_t>(data) % 64 != offset) ++data;
    for (float* at = all.data(); at < all.data() + all.size(); ++at) *at = static_cast<float>((at - data) % 7 - 3);
  }
  std::vector<float> all;
  float* data;
};

// Every engine of the processor, on pointers that are aligned to an element, where the problem says so.
TEST_F(CInterface, PointersAreAlignedAsTheProblemSays) {
  int plans = 0;
  for (const std::string text :
       {"fprop:x=f32,1x24x9x11,nchw,A:w=f32,20x24x3x3,A:y=f32,1x20x9x11,nchw,A:pad=1x1:bias=1:act=relu",
        "fprop:x=f32,1x24x9x11,nhwc,A:w=f32,20x24x3x3,A:y=f32,1x20x9x11,nhwc,A:pad=1x1:bias=1:act=prelu:gamma=1",
        "fprop:x=f32,1x24x9x11,nhwc,A:w=f32,24x1x3x3,A:y=f32,1x24x9x11,nhwc,A:pad=1x1:groups=24:gamma=1",
        "fprop:x=f32,1x24x9x11,nhwc,A:w=f32,24x1x3x3,A:y=f32,1x24x9x11,nhwc,A:pad=1x1:groups=24:beta=1",
        "fprop:x=f32,2x16x9x7,nchw8c,A:w=f32,40x16x1x1,A:y=f32,2x40x9x7,nchw8c,A:beta=1",
        "fprop:x=f32,2x17x9x7,nhwc,A:w=f32,40x17x1x1,A:y=f32,2x40x9x7,nhwc,A:bias=1",
        "dgrad:x=f32,1x24x9x11,nhwc,A:y=f32,1x20x9x11,nhwc,A:w=f32,20x24x3x3,A:pad=1x1",
        "wgrad:x=f32,1x24x9x11,nchw,A:y=f32,1x20x9x11,nchw,A:w=f32,20x24x3x3,A:pad=1x1",
        "wgrad:x=f32,1x24x9x11,nhwc,A:y=f32,1x24x9x11,nhwc,A:w=f32,24x1x3x3,A:pad=1x1:groups=24"}) {
    std::string said = text;
    for (std::size_t at = 0; (at = said.find(",A", at)) != std::string::npos;) said.replace(at, 2, ",align=4");
    convoy_problem* made = nullptr;
    ASSERT_EQ(convoy_problem_create(said.c_str(), &made), CONVOY_OK) << convoy_error();
    convoy_tensor tensors[3] = {CONVOY_TENSOR_INIT, CONVOY_TENSOR_INIT, CONVOY_TENSOR_INIT};
    for (const convoy_operand operand : {CONVOY_X, CONVOY_W, CONVOY_Y}) {
      ASSERT_EQ(convoy_problem_tensor(made, operand, &tensors[operand]), CONVOY_OK);
    }
    const convoy_tensor& result = tensors[text[0] == 'f' ? CONVOY_Y : text[0] == 'd' ? CONVOY_X : CONVOY_W];
    std::vector<std::string> candidates;
    const auto answer = [](void* user, const char*, const char* reason, const char* candidate, double) {
      if (reason == nullptr) static_cast<std::vector<std::string>*>(user)->emplace_back(candidate);
    };
    ASSERT_EQ(convoy_query(made, nullptr, answer, &candidates), CONVOY_OK) << convoy_error();
    for (const std::string& candidate : candidates) {
      std::vector<float> outs[2];
      for (const std::size_t offset : {0, 4}) {
        const Placed x(tensors[0].bytes, offset), w(tensors[1].bytes, offset), y(tensors[2].bytes, offset);
        const Placed bias(1024, offset), z(result.bytes, offset);
        Placed out(result.bytes, offset);
        convoy_plan* plan = nullptr;
        ASSERT_EQ(convoy_plan_create(made, candidate.c_str(), nullptr, text[0] == 'w' ? nullptr : w.data, &plan),
                  CONVOY_OK)
            << candidate << ": " << convoy_error();
        convoy_arguments arguments = CONVOY_ARGUMENTS_INIT;
        arguments.x = x.data, arguments.w = w.data, arguments.y = y.data, arguments.out = out.data;
        arguments.bias = bias.data, arguments.slopes = bias.data, arguments.z = z.data;
        ASSERT_EQ(convoy_plan_execute(plan, &arguments), CONVOY_OK) << candidate << ": " << convoy_error();
        outs[offset / 4].assign(out.data, out.data + result.bytes / sizeof(float));
        convoy_plan_destroy(plan);
        ++plans;
      }
      for (std::size_t i = 0; i < outs[1].size(); ++i) {
        ASSERT_NEAR(outs[0][i], outs[1][i], 0.01) << candidate << " of " << text << ", element " << i;
      }
    }
    convoy_problem_destroy(made);
  }
  EXPECT_GT(plans, 100);
}

TEST_F(CInterface, PointersThatAreLessAlignedAreNamed) {
  convoy_plan* plan = nullptr;
  ASSERT_EQ(convoy_plan_create(problem, "reference", nullptr, nullptr, &plan), CONVOY_OK) << convoy_error();
  const Placed aligned(4096, 0), less(4096, 16);
  Placed out(4096, 0);
  convoy_arguments arguments = CONVOY_ARGUMENTS_INIT;
  arguments.x = less.data, arguments.w = aligned.data, arguments.out = out.data;
  EXPECT_EQ(convoy_plan_execute(plan, &arguments), CONVOY_INVALID_ARGUMENT);
  EXPECT_TRUE(says("is aligned to 16 bytes, the problem says 64")) << convoy_error();
  EXPECT_TRUE(says("align=16 in the problem string")) << convoy_error();
  arguments.x = aligned.data;
  EXPECT_EQ(convoy_plan_execute(plan, &arguments), CONVOY_OK) << convoy_error();
  convoy_plan_destroy(plan);

  ASSERT_EQ(convoy_plan_create(problem, "cpu.direct", nullptr, nullptr, &plan), CONVOY_OK) << convoy_error();
  ASSERT_GT(convoy_plan_workspace_bytes(plan), 0u);
  Placed workspace(static_cast<std::int64_t>(convoy_plan_workspace_bytes(plan)), 16);
  arguments.workspace = workspace.data, arguments.workspace_bytes = convoy_plan_workspace_bytes(plan);
  EXPECT_EQ(convoy_plan_execute(plan, &arguments), CONVOY_INVALID_ARGUMENT);
  EXPECT_STREQ(convoy_error(), "workspace is not aligned to 64 bytes");
  convoy_plan_destroy(plan);
}

TEST_F(CInterface, TuningMeasuresAndVerifies) {
  convoy_options options = CONVOY_OPTIONS_INIT;
  options.threads = 1;
  options.budget_seconds = 1;
  options.engines = "cpu.*";
  convoy_choice* choice = nullptr;
  ASSERT_EQ(convoy_tune(problem, &options, &choice), CONVOY_OK) << convoy_error();
  ASSERT_GT(convoy_choice_measured(choice), 0u);
  convoy_measurement best = CONVOY_MEASUREMENT_INIT;
  ASSERT_EQ(convoy_choice_measurement(choice, 0, &best), CONVOY_OK);
  EXPECT_STREQ(best.candidate, convoy_choice_candidate(choice));
  EXPECT_EQ(best.failure, nullptr);
  EXPECT_GT(best.median_seconds, 0);
  EXPECT_LE(best.max_error, 1);
  EXPECT_EQ(convoy_choice_measurement(choice, convoy_choice_measured(choice), &best), CONVOY_INVALID_ARGUMENT);
  convoy_choice_destroy(choice);
}

TEST_F(CInterface, TheDatabaseRemembers) {
  const std::string file = testing::TempDir() + "capi_test.db";
  std::remove(file.c_str());
  convoy_options options = CONVOY_OPTIONS_INIT;
  options.threads = 1;
  options.engines = "cpu.direct";
  options.database = file.c_str();
  convoy_choice *first = nullptr, *second = nullptr;
  ASSERT_EQ(convoy_tune(problem, &options, &first), CONVOY_OK) << convoy_error();
  EXPECT_STREQ(convoy_choice_reason(first), "measured");
  ASSERT_EQ(convoy_tune(problem, &options, &second), CONVOY_OK) << convoy_error();
  EXPECT_STREQ(convoy_choice_reason(second), "stored");
  EXPECT_STREQ(convoy_choice_candidate(second), convoy_choice_candidate(first));
  convoy_choice_destroy(first);
  convoy_choice_destroy(second);
  options.database = "/proc/no/such/folder/convoy.db";
  EXPECT_NE(convoy_tune(problem, &options, &second), CONVOY_OK);
  EXPECT_NE(std::string(convoy_error()).find(options.database), std::string::npos) << convoy_error();
  std::remove(file.c_str());
}

TEST_F(CInterface, EachThreadHasItsOwnError) {
  convoy_problem* none = nullptr;
  EXPECT_NE(convoy_problem_create("nonsense", &none), CONVOY_OK);
  const std::string mine = convoy_error();
  std::string theirs = "unset";
  std::thread([&] { theirs = convoy_error(); }).join();
  EXPECT_EQ(theirs, "");
  EXPECT_EQ(convoy_error(), mine);
}

TEST(CInterfaceVersion, IsOneNumber) {
  EXPECT_EQ(convoy_version_number(), CONVOY_VERSION_MAJOR * 10000 + CONVOY_VERSION_MINOR * 100 + CONVOY_VERSION_PATCH);
  EXPECT_EQ(std::string(convoy_version_text()), std::to_string(CONVOY_VERSION_MAJOR) + "." +
                                                    std::to_string(CONVOY_VERSION_MINOR) + "." +
                                                    std::to_string(CONVOY_VERSION_PATCH));
}

TEST(Operators, AreKnownByDomainAndName) {
  EXPECT_EQ(convoy_knows_operator("", "Conv"), 1);
  EXPECT_EQ(convoy_knows_operator("ai.onnx", "Loop"), 1);
  EXPECT_EQ(convoy_knows_operator("", "SequenceAt"), 0);
  EXPECT_EQ(convoy_knows_operator("com.microsoft", "FusedConv"), 1);
  EXPECT_EQ(convoy_knows_operator("", "FusedConv"), 0);
  EXPECT_EQ(convoy_knows_operator("com.example", "Conv"), 0);
  EXPECT_EQ(convoy_knows_operator("", nullptr), 0);
}

}  // namespace
