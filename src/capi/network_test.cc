// Networks through the C interface.
#include "convoy/network.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "capi/testing/c_network.h"
#include "convoy.h"
#include "convoy/network_plan.h"
#include "convoy/network_tuning.h"
#include "convoy/tuning_database.h"

namespace convoy::capi {
namespace {

namespace fs = std::filesystem;

int threads_of(const convoy::Session& session, const std::string& nodes) {
  const auto& steps = session.steps();
  const auto found = std::ranges::find(steps, nodes, &convoy::NetworkStep::nodes);
  return found == steps.end() ? 0 : found->threads;
}

TEST_F(CNetwork, ManyThreadsRunOneSessionEachWithResultsOfItsOwn) {
  convoy_options options = CONVOY_OPTIONS_INIT;
  options.threads = 1;
  ASSERT_EQ(prepare(&options), CONVOY_OK) << convoy_error();
  constexpr int kThreads = 8;
  std::vector<std::vector<float>> inputs, expected;
  for (int t = 0; t < kThreads; ++t) {
    inputs.push_back(ramp());
    for (float& value : inputs.back()) value *= static_cast<float>(t + 1);
    ASSERT_EQ(run(inputs.back().data()), CONVOY_OK) << convoy_error();
    convoy_output output = CONVOY_OUTPUT_INIT;
    ASSERT_EQ(convoy_session_output(session, 0, &output), CONVOY_OK);
    const auto* const values = static_cast<const float*>(output.data);
    expected.emplace_back(values, values + output.bytes / sizeof(float));
  }
  std::atomic<int> wrong = 0;
  std::vector<convoy_results*> kept(kThreads, nullptr);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int r = 0; r < 10; ++r) {
        const void* const given[] = {inputs[t].data()};
        convoy_results_destroy(kept[t]);
        if (convoy_session_execute(session, given, 1, &kept[t]) != CONVOY_OK) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  convoy_session_info info = CONVOY_SESSION_INFO_INIT;
  ASSERT_EQ(convoy_session_describe(session, &info), CONVOY_OK);
  EXPECT_GE(info.runs_at_once, 1);
  EXPECT_GT(info.seconds, 0);
  convoy_session_destroy(std::exchange(session, nullptr));  // results outlive it
  for (int t = 0; t < kThreads; ++t) {
    convoy_output output = CONVOY_OUTPUT_INIT;
    ASSERT_EQ(convoy_results_output(kept[t], 0, &output), CONVOY_OK) << convoy_error();
    ASSERT_EQ(output.bytes, static_cast<std::int64_t>(expected[t].size() * sizeof(float)));
    EXPECT_EQ(std::memcmp(output.data, expected[t].data(), static_cast<std::size_t>(output.bytes)), 0) << t;
    EXPECT_EQ(convoy_results_output(kept[t], 1, &output), CONVOY_INVALID_ARGUMENT);
    convoy_results_destroy(kept[t]);
  }
  EXPECT_EQ(wrong, 0);
}

// What has no elements needs no address.
TEST_F(CNetwork, TakesAnEmptyBatchAfterAnother) {
  ASSERT_EQ(prepare(), CONVOY_OK) << convoy_error();
  const std::vector<float> values = ramp();
  ASSERT_EQ(run(values.data()), CONVOY_OK) << convoy_error();
  static constexpr std::int64_t kEmpty[] = {0, 3, 64, 48};
  constexpr convoy_shape shape = {4, kEmpty};
  convoy_session* empty = nullptr;
  ASSERT_EQ(convoy_session_create(network, &shape, 1, nullptr, &empty), CONVOY_OK) << convoy_error();
  const void* inputs[] = {nullptr};
  EXPECT_EQ(convoy_session_run(empty, inputs, 1), CONVOY_OK) << convoy_error();
  convoy_output output = CONVOY_OUTPUT_INIT;
  ASSERT_EQ(convoy_session_output(empty, 0, &output), CONVOY_OK) << convoy_error();
  ASSERT_EQ(output.rank, 2);
  EXPECT_EQ(output.dims[0], 0);
  EXPECT_EQ(output.dims[1], 1000);
  EXPECT_EQ(output.bytes, 0);
  EXPECT_EQ(convoy_session_run(session, inputs, 1), CONVOY_INVALID_ARGUMENT);
  EXPECT_TRUE(says("inputs[0] is null")) << convoy_error();
  convoy_session_destroy(empty);
}

TEST_F(CNetwork, SaysWhatItTakesAndGives) {
  ASSERT_EQ(convoy_network_inputs(network), 1u);
  ASSERT_EQ(convoy_network_outputs(network), 1u);
  const auto model = convoy::Network::load("zoo:squeezenet1_1");
  const convoy::NetworkValue& declared = (*model)->inputs()[0];
  convoy_value value = CONVOY_VALUE_INIT;
  ASSERT_EQ(convoy_network_input(network, 0, &value), CONVOY_OK) << convoy_error();
  EXPECT_EQ(value.name, declared.name);
  EXPECT_STREQ(value.type, "f32");
  ASSERT_EQ(value.rank, static_cast<std::int32_t>(declared.dims.size()));
  bool any_free = false;
  for (std::int32_t i = 0; i < value.rank; ++i) {
    EXPECT_EQ(value.dims[i], declared.dims[i]);
    EXPECT_EQ(value.dim_names[i], declared.dim_names[i]);
    EXPECT_EQ(value.proposed_dims[i], declared.proposed_dims[i]);
    any_free = any_free || value.dims[i] < 0;
  }
  EXPECT_TRUE(any_free);
  ASSERT_EQ(convoy_network_output(network, 0, &value), CONVOY_OK);
  EXPECT_EQ(value.name, (*model)->outputs()[0].name);
  EXPECT_EQ(convoy_network_output(network, 1, &value), CONVOY_INVALID_ARGUMENT);
  EXPECT_STREQ(convoy_error(), "index=1 of 1 outputs");
}

TEST_F(CNetwork, SaysWhatItsFileSaysOfItself) {
  convoy_model_info info = CONVOY_MODEL_INFO_INIT;
  ASSERT_EQ(convoy_network_info(network, &info), CONVOY_OK) << convoy_error();
  const auto model = convoy::Network::load("zoo:squeezenet1_1");
  EXPECT_EQ(info.producer_name, (*model)->info().producer_name);
  EXPECT_EQ(info.graph_name, (*model)->info().graph_name);
  EXPECT_EQ(info.version, (*model)->info().version);
  ASSERT_EQ(info.metadata, (*model)->info().metadata.size());
  ASSERT_EQ(info.metadata, 2U);  // the sizes that it was made for
  EXPECT_STREQ(info.metadata_keys[0], "convoy.size.H");
  EXPECT_STREQ(info.metadata_values[0], "224");
  EXPECT_EQ(convoy_network_info(network, nullptr), CONVOY_INVALID_ARGUMENT);
}

// A caller's threads run all of it, in whatever order; one that has none takes the parts one after another.
TEST_F(CNetwork, RunsOnTheCallersThreads) {
  struct Pool {
    std::atomic<int> calls{0}, parts{0};
    bool threads = false;
  } pool;
  const convoy_parallel_for parallel_for = [](void* user, std::int32_t count, void (*body)(void*, std::int32_t),
                                              void* context) {
    auto& own = *static_cast<Pool*>(user);
    ++own.calls;
    std::vector<std::thread> team;
    for (std::int32_t index = count - 1; index >= 0; --index) {
      ++own.parts;
      if (own.threads) {
        team.emplace_back(body, context, index);
      } else {
        body(context, index);
      }
    }
    for (std::thread& thread : team) thread.join();
  };
  convoy_options options = CONVOY_OPTIONS_INIT;
  options.threads = 3;
  options.engines = "!onednn.*";
  const std::vector<float> values = ramp();
  const auto result = [&] {
    EXPECT_EQ(prepare(&options), CONVOY_OK) << convoy_error();
    EXPECT_EQ(run(values.data()), CONVOY_OK) << convoy_error();
    convoy_output output = CONVOY_OUTPUT_INIT;
    EXPECT_EQ(convoy_session_output(session, 0, &output), CONVOY_OK);
    const auto* first = static_cast<const float*>(output.data);
    return std::vector<float>(first, first + output.bytes / sizeof(float));
  };
  const std::vector<float> expected = result();
  options.parallel_for = parallel_for;
  options.parallel_user = &pool;
  for (const bool threads : {false, true}) {
    pool.threads = threads;
    pool.calls = pool.parts = 0;
    EXPECT_EQ(result(), expected);
    EXPECT_GT(pool.calls, static_cast<int>(convolutions().size()) / 2) << "(tiny steps have one thread)";
    EXPECT_EQ(pool.parts, 3 * pool.calls);
  }
}

// The same bits as through the C++ interface, whatever the alignment of the caller's memory.
TEST_F(CNetwork, RunsAndGivesTimesAndEngines) {
  convoy_options options = CONVOY_OPTIONS_INIT;
  options.threads = 1;
  ASSERT_EQ(prepare(&options), CONVOY_OK) << convoy_error();
  for (const convoy_step& step : convolutions()) EXPECT_EQ(step.seconds, 0);
  convoy_output output = CONVOY_OUTPUT_INIT;
  EXPECT_EQ(convoy_session_output(session, 0, &output), CONVOY_INVALID_ARGUMENT);
  EXPECT_STREQ(convoy_error(), "index=0 of 0 outputs of the last run");

  const auto model = convoy::Network::load("zoo:squeezenet1_1");
  const auto desc = convoy::TensorDesc::packed(convoy::DataType::f32, {1, 3, 64, 48});
  convoy::NetworkOptions same;
  same.threads = 1;
  same.cpu = convoy::cpu_features();
  const auto direct = (*model)->prepare({&desc, 1}, same);
  ASSERT_TRUE(direct.ok());
  const std::vector<float> values = ramp();
  for (const std::size_t shift : {0, 1}) {
    auto input = *convoy::HostTensor::allocate(desc);
    std::copy_n(values.data() + shift, kElements, input.as<float>());
    const auto expected = (*direct)->run({&input, 1});
    ASSERT_EQ(run(values.data() + shift), CONVOY_OK) << convoy_error();
    ASSERT_EQ(convoy_session_output(session, 0, &output), CONVOY_OK) << convoy_error();
    EXPECT_STREQ(output.type, "f32");
    EXPECT_EQ(convoy::Dims(output.dims, output.dims + output.rank), (*expected)[0].desc.dims);
    ASSERT_EQ(output.bytes, (*expected)[0].desc.bytes());
    EXPECT_EQ(std::memcmp(output.data, (*expected)[0].data.get(), static_cast<std::size_t>(output.bytes)), 0);
  }

  convoy_session_info info = CONVOY_SESSION_INFO_INIT;
  ASSERT_EQ(convoy_session_describe(session, &info), CONVOY_OK);
  EXPECT_EQ(info.steps, (*direct)->steps().size());
  EXPECT_GT(info.seconds, 0);
  EXPECT_GT(info.activation_bytes, 0);
  EXPECT_GT(info.weight_bytes, 0);
  const std::vector<convoy_step> steps = convolutions();
  EXPECT_EQ(steps.size(), 26u);
  double sum = 0;
  for (const convoy_step& step : steps) {
    EXPECT_STREQ(step.kind, "conv");
    EXPECT_STREQ(step.reason, "heuristic");
    EXPECT_EQ(step.warnings, nullptr);
    EXPECT_TRUE(std::string(step.problem).starts_with("fprop:x=f32")) << step.problem;
    EXPECT_NE(std::string(step.engine).find('.'), std::string::npos) << step.engine;
    sum += step.seconds;
    EXPECT_EQ(step.threads, threads_of(**direct, step.nodes));
  }
  EXPECT_GT(sum, 0);
  EXPECT_LE(sum, info.seconds);
  convoy_step step = CONVOY_STEP_INIT;
  EXPECT_EQ(convoy_session_step(session, info.steps, &step), CONVOY_INVALID_ARGUMENT);
}

TEST_F(CNetwork, SessionsLiveOnWithoutTheirNetwork) {
  ASSERT_EQ(prepare(), CONVOY_OK) << convoy_error();
  convoy_network_destroy(network);
  network = nullptr;
  EXPECT_EQ(run(ramp().data()), CONVOY_OK) << convoy_error();
}

TEST_F(CNetwork, BytesOfAModelAreParsedAndNotKept) {
  convoy_network_destroy(network);
  {
    const std::string bytes = *convoy::zoo_model("squeezenet1_1");
    ASSERT_EQ(convoy_network_parse(bytes.data(), bytes.size(), nullptr, &network), CONVOY_OK) << convoy_error();
    convoy_network* half = nullptr;
    EXPECT_EQ(convoy_network_parse(bytes.data(), bytes.size() / 2, nullptr, &half), CONVOY_CORRUPT) << convoy_error();
    EXPECT_EQ(half, nullptr);
  }
  ASSERT_EQ(prepare(), CONVOY_OK) << convoy_error();
  EXPECT_EQ(run(ramp().data()), CONVOY_OK) << convoy_error();
}

TEST_F(CNetwork, InitializersMayLieInTheCallersMemory) {
  ASSERT_EQ(prepare(), CONVOY_OK) << convoy_error();
  ASSERT_EQ(run(ramp().data()), CONVOY_OK) << convoy_error();
  convoy_output output = CONVOY_OUTPUT_INIT;
  ASSERT_EQ(convoy_session_output(session, 0, &output), CONVOY_OK);
  const auto* const first = static_cast<const float*>(output.data);
  EXPECT_NE(first[0], first[1]);

  convoy_network_destroy(network);
  network = nullptr;
  const std::string bytes = *convoy::zoo_model("squeezenet1_1");
  std::vector<float> bias(1000, 2.F), weights(std::size_t{1000} * 512, 0.F);
  convoy_initializer given[] = {{"conv10.conv.weight", weights.data(), 4 * 1000 * 512},
                                {"conv10.conv.bias", bias.data(), 4000}};
  ASSERT_EQ(convoy_network_parse_with(bytes.data(), bytes.size(), nullptr, given, 2, &network), CONVOY_OK)
      << convoy_error();
  ASSERT_EQ(prepare(), CONVOY_OK) << convoy_error();
  convoy_network_destroy(network);
  network = nullptr;
  std::ranges::fill(weights, 7.F);
  ASSERT_EQ(run(ramp().data()), CONVOY_OK) << convoy_error();
  ASSERT_EQ(convoy_session_output(session, 0, &output), CONVOY_OK);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(static_cast<const float*>(output.data)[i], 2.F) << i;

  const auto refused = [&](const convoy_initializer* initializers, std::size_t count) {
    return convoy_network_parse_with(bytes.data(), bytes.size(), nullptr, initializers, count, &network);
  };
  EXPECT_EQ(refused(nullptr, 1), CONVOY_INVALID_ARGUMENT);
  EXPECT_STREQ(convoy_error(), "initializers is null");
  given[1].data = nullptr;
  EXPECT_EQ(refused(given, 2), CONVOY_INVALID_ARGUMENT);
  EXPECT_STREQ(convoy_error(), "initializers[1].data is null");
  given[1] = {"conv10.conv.bias", bias.data(), -1};
  EXPECT_EQ(refused(given, 2), CONVOY_INVALID_ARGUMENT);
  EXPECT_STREQ(convoy_error(), "initializers[1].bytes=-1 is negative");
  given[1] = {nullptr, bias.data(), 4000};
  EXPECT_EQ(refused(given, 2), CONVOY_INVALID_ARGUMENT);
  EXPECT_STREQ(convoy_error(), "initializers[1].name is null");
  given[1] = {"conv10.conv.bias", bias.data(), 3996};
  EXPECT_EQ(refused(given, 2), CONVOY_INVALID_ARGUMENT);
  EXPECT_TRUE(says("initializer 'conv10.conv.bias' is given: dims 1000 of f32 need 4000 bytes, not 3996"))
      << convoy_error();
  EXPECT_EQ(network, nullptr);
}

TEST_F(CNetwork, OptionsDecide) {
  convoy_options options = CONVOY_OPTIONS_INIT;
  options.threads = 1;
  options.rules = "filter=3x3 -> cpu.direct\n";
  ASSERT_EQ(prepare(&options), CONVOY_OK) << convoy_error();
  int ruled = 0;
  for (const convoy_step& step : convolutions()) {
    if (std::string(step.reason).find("rule") == std::string::npos) continue;
    ++ruled;
    EXPECT_TRUE(std::string(step.engine).starts_with("cpu.direct")) << step.engine;
  }
  EXPECT_EQ(ruled, 9);
  convoy_session_info info = CONVOY_SESSION_INFO_INIT;
  ASSERT_EQ(convoy_session_describe(session, &info), CONVOY_OK);
  EXPECT_EQ(info.warnings, nullptr);
  options.rules = "filter=3x3 -> cpu.direct\nfilter=9x9 -> cpu.direct\nfilter=3x3 groups=1 -> cpu.gemm\n";
  ASSERT_EQ(prepare(&options), CONVOY_OK) << convoy_error();
  ASSERT_EQ(convoy_session_describe(session, &info), CONVOY_OK);
  ASSERT_NE(info.warnings, nullptr);
  EXPECT_STREQ(info.warnings,
               "rule 'filter=9x9 -> cpu.direct' matched no convolution\n"
               "rule 'filter=3x3 groups=1 -> cpu.gemm' decided nothing, since rules before it match the same");

  options.rules = "filter=3x3 -> cpu.depthwise\n";
  EXPECT_EQ(prepare(&options), CONVOY_UNSUPPORTED);
  EXPECT_TRUE(says("groups=1")) << convoy_error();
  EXPECT_EQ(session, nullptr);
  options.fallback = 1;
  ASSERT_EQ(prepare(&options), CONVOY_OK) << convoy_error();
  int warned = 0;
  for (const convoy_step& step : convolutions()) warned += step.warnings != nullptr;
  EXPECT_EQ(warned, 9);

  options = CONVOY_OPTIONS_INIT;
  options.math = "fast";
  EXPECT_EQ(prepare(&options), CONVOY_INVALID_ARGUMENT);
  EXPECT_STREQ(convoy_error(), "math='fast' is not one of strict, tf32, reduced");
  options.math = "reduced";
  ASSERT_EQ(prepare(&options), CONVOY_OK) << convoy_error();
  EXPECT_NE(std::string(convolutions()[0].problem).find("math=reduced"), std::string::npos);
  options = CONVOY_OPTIONS_INIT;
  for (const char* wrong : {"half", "s8"}) {
    options.precision = wrong;
    EXPECT_EQ(prepare(&options), CONVOY_INVALID_ARGUMENT);
    EXPECT_EQ(convoy_error(), "precision='" + std::string(wrong) + "' is not one of f32, tf32, bf16, f16");
  }
  options.precision = "bf16";  // where no engine runs it, it stays f32
  ASSERT_EQ(prepare(&options), CONVOY_OK) << convoy_error();
  options = CONVOY_OPTIONS_INIT;
  options.target_sms = 3;
  EXPECT_EQ(prepare(&options), CONVOY_INVALID_ARGUMENT);
  options = CONVOY_OPTIONS_INIT;
  options.device = "cuda";
  EXPECT_EQ(prepare(&options), CONVOY_UNSUPPORTED);
}

TEST_F(CNetwork, ABatchRunsInParts) {
  const std::int64_t dims[] = {4, kDims[1], kDims[2], kDims[3]};
  const convoy_shape shape = {4, dims};
  convoy_options options = CONVOY_OPTIONS_INIT;
  options.threads = 2;
  const auto prepared = [&](const char* parts) {
    convoy_session_destroy(std::exchange(session, nullptr));
    options.batch_parts = parts;
    return convoy_session_create(network, &shape, 1, &options, &session);
  };
  std::map<std::string, std::int64_t> activation_bytes;
  for (const char* parts : {"whole", "2", "1/thread"}) {
    ASSERT_EQ(prepared(parts), CONVOY_OK) << convoy_error();
    convoy_session_info info = CONVOY_SESSION_INFO_INIT;
    ASSERT_EQ(convoy_session_describe(session, &info), CONVOY_OK);
    EXPECT_STREQ(info.batch_parts, parts);
    activation_bytes[parts] = info.activation_bytes;
  }
  EXPECT_LT(activation_bytes["2"], activation_bytes["whole"]);
  EXPECT_LT(activation_bytes["1/thread"], activation_bytes["whole"]);
  EXPECT_EQ(prepared("3"), CONVOY_INVALID_ARGUMENT);
  EXPECT_STREQ(convoy_error(), "parts 3 don't make up a batch of 4 images");
  EXPECT_EQ(prepared("0/thread"), CONVOY_INVALID_ARGUMENT);
  EXPECT_TRUE(says("batch_parts: parts of a batch: '0/thread' is not whole")) << convoy_error();
}

// As `convoy tune MODEL` keeps it: beside the database.
TEST_F(CNetwork, AKeptPlanIsObeyed) {
  const std::string path =
      (fs::path(testing::TempDir()) / ("capi-kept-" + std::to_string(::getpid()) + ".db")).string();
  const auto plan = [&](const convoy_options& options) {
    std::string text;
    const auto keep = [](void* user, const char* part, size_t bytes) {
      static_cast<std::string*>(user)->assign(part, bytes);
    };
    EXPECT_EQ(convoy_network_plan(network, &kShape, 1, &options, keep, &text), CONVOY_OK) << convoy_error();
    return text;
  };
  convoy_options options = CONVOY_OPTIONS_INIT;
  options.threads = 1;
  options.database = path.c_str();
  const std::string greedy = plan(options);
  options.how = "uniform:nchw";
  const std::string uniform = plan(options);
  ASSERT_NE(greedy, uniform);
  const auto planned = convoy::parse_plan(uniform);
  ASSERT_TRUE(planned.ok());
  const std::string folder = convoy::kept_plans_folder(path);
  fs::create_directories(folder);
  std::ofstream(convoy::kept_plan_path(folder, planned->header, convoy::cpu_features())) << uniform;
  options.how = nullptr;
  EXPECT_EQ(plan(options), uniform);
  options.how = "tuned";
  EXPECT_EQ(plan(options), uniform);
  options.deterministic_only = 1;
  EXPECT_NE(plan(options), uniform) << "what is asked of engines comes first";
  options.deterministic_only = 0;
  options.how = "greedy";
  EXPECT_EQ(plan(options), greedy);
  fs::remove_all(folder);
}

// A database that isn't there yet knows nothing; a measured session makes it, and a later one follows it.
TEST_F(CNetwork, APlanStaysWithinAnError) {
  const std::vector<float> values = ramp();
  const void* const inputs[] = {values.data()};
  convoy_options options = CONVOY_OPTIONS_INIT;
  options.threads = 1;
  std::string text;
  const auto keep = [](void* user, const char* part, size_t bytes) {
    static_cast<std::string*>(user)->assign(part, bytes);
  };
  const auto plan = [&](double max_error) {
    return convoy_network_plan_within(network, &kShape, 1, inputs, 1, max_error, &options, keep, &text);
  };
  EXPECT_EQ(plan(1), CONVOY_INVALID_ARGUMENT);
  EXPECT_NE(std::string(convoy_error()).find("precision=f32"), std::string::npos) << convoy_error();
  options.precision = "bf16";
  EXPECT_EQ(plan(-1), CONVOY_INVALID_ARGUMENT);
  EXPECT_NE(std::string(convoy_error()).find("max_error=-1"), std::string::npos) << convoy_error();
  ASSERT_EQ(plan(0), CONVOY_OK) << convoy_error();
  EXPECT_EQ(text.find("bf16"), std::string::npos) << text;
  ASSERT_EQ(plan(1), CONVOY_OK) << convoy_error();
  options.precision = nullptr;
  options.plan = text.c_str();
  ASSERT_EQ(prepare(&options), CONVOY_OK) << convoy_error() << text;
  EXPECT_EQ(run(values.data()), CONVOY_OK) << convoy_error();
}

TEST_F(CNetwork, TheDatabaseKeepsWhatIsMeasured) {
  const fs::path file = fs::path(testing::TempDir()) / ("capi-network-" + std::to_string(::getpid()) + ".db");
  fs::remove(file);
  convoy_options options = CONVOY_OPTIONS_INIT;
  options.threads = 1;
  const std::string path = file.string();
  options.database = path.c_str();
  ASSERT_EQ(prepare(&options), CONVOY_OK) << convoy_error();
  EXPECT_FALSE(fs::exists(file));
  options.budget_seconds = 30;  // far more than one engine on small convolutions needs
  options.engines = "cpu.direct";
  ASSERT_EQ(prepare(&options), CONVOY_OK) << convoy_error();
  for (const convoy_step& step : convolutions()) EXPECT_STREQ(step.reason, "measured");
  options.budget_seconds = 0;
  ASSERT_EQ(prepare(&options), CONVOY_OK) << convoy_error();
  int stored = 0;
  for (const convoy_step& step : convolutions()) stored += std::string_view(step.reason) == "stored";
  EXPECT_GT(stored, 0);
  const std::string folder = testing::TempDir();
  options.database = folder.c_str();
  EXPECT_NE(prepare(&options), CONVOY_OK);
  EXPECT_TRUE(says(folder)) << convoy_error();
  convoy_session_destroy(session);
  session = nullptr;
  for (const char* suffix : {"", "-wal", "-shm"}) fs::remove(path + suffix);
}

TEST_F(CNetwork, WrongShapesAndInputsAreNamed) {
  convoy_network* none = network;
  EXPECT_EQ(convoy_network_load("missing.onnx", &none), CONVOY_NOT_FOUND);
  EXPECT_TRUE(says("missing.onnx")) << convoy_error();
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(convoy_network_load("zoo:squeezenet9", &none), CONVOY_NOT_FOUND);
  EXPECT_EQ(convoy_session_create(network, &kShape, 2, nullptr, &session), CONVOY_INVALID_ARGUMENT);
  EXPECT_STREQ(convoy_error(), "shape_count=2, the network has 1 inputs");
  const std::int64_t dims[] = {1, 5, -7, 64};
  for (const convoy_shape& shape : {convoy_shape{4, dims}, convoy_shape{3, dims}, convoy_shape{-1, dims},
                                    convoy_shape{1 << 30, dims}, convoy_shape{4, nullptr}}) {
    EXPECT_EQ(convoy_session_create(network, &shape, 1, nullptr, &session), CONVOY_INVALID_ARGUMENT);
    EXPECT_EQ(session, nullptr);
  }
  ASSERT_EQ(prepare(), CONVOY_OK);
  EXPECT_EQ(convoy_session_run(session, nullptr, 1), CONVOY_INVALID_ARGUMENT);
  EXPECT_STREQ(convoy_error(), "inputs is null");
  EXPECT_EQ(run(nullptr), CONVOY_INVALID_ARGUMENT);
  EXPECT_STREQ(convoy_error(), "inputs[0] is null");
  const void* inputs[2] = {};
  EXPECT_EQ(convoy_session_run(session, inputs, 2), CONVOY_INVALID_ARGUMENT);
  EXPECT_STREQ(convoy_error(), "input_count=2, the network has 1 inputs");
  convoy_session_info info = CONVOY_SESSION_INFO_INIT;
  info.weight_bytes = -7;
  info.size = offsetof(convoy_session_info, weight_bytes);  // an older program's
  ASSERT_EQ(convoy_session_describe(session, &info), CONVOY_OK);
  EXPECT_GT(info.steps, 0u);
  EXPECT_EQ(info.weight_bytes, -7);
}

TEST_F(CNetwork, WithoutShapesTheModelsOwnAreTaken) {
  convoy_value value = CONVOY_VALUE_INIT;
  ASSERT_EQ(convoy_network_input(network, 0, &value), CONVOY_OK);
  bool all = true;
  for (std::int32_t i = 0; i < value.rank; ++i) all = all && value.proposed_dims[i] > 0;
  const convoy_status status = convoy_session_create(network, nullptr, 0, nullptr, &session);
  if (all) {
    EXPECT_EQ(status, CONVOY_OK) << convoy_error();
  } else {
    EXPECT_EQ(status, CONVOY_INVALID_ARGUMENT);
    EXPECT_TRUE(says("is free")) << convoy_error();
  }
}

TEST(CNetworkHandles, NullIsAnErrorAndNeverACrash) {
  convoy_value value = CONVOY_VALUE_INIT;
  convoy_output output = CONVOY_OUTPUT_INIT;
  convoy_step step = CONVOY_STEP_INIT;
  convoy_session_info info = CONVOY_SESSION_INFO_INIT;
  convoy_session* session = nullptr;
  convoy_network* network = nullptr;
  for (const convoy_status status :
       {convoy_network_load(nullptr, &network), convoy_network_load("zoo:unet", nullptr),
        convoy_network_parse(nullptr, 0, nullptr, &network), convoy_network_input(nullptr, 0, &value),
        convoy_network_output(nullptr, 0, &value), convoy_session_create(nullptr, nullptr, 0, nullptr, &session),
        convoy_session_create(nullptr, nullptr, 0, nullptr, nullptr), convoy_session_run(nullptr, nullptr, 0),
        convoy_session_execute_into(nullptr, nullptr, 0, nullptr, 0, nullptr),
        convoy_session_output_value(nullptr, 0, &value), convoy_session_output(nullptr, 0, &output),
        convoy_session_describe(nullptr, &info), convoy_session_step(nullptr, 0, &step)}) {
    EXPECT_EQ(status, CONVOY_INVALID_ARGUMENT);
    EXPECT_TRUE(says("is null")) << convoy_error();
  }
  EXPECT_EQ(convoy_network_inputs(nullptr), 0u);
  EXPECT_EQ(convoy_network_outputs(nullptr), 0u);
  convoy_network_destroy(nullptr);
  convoy_session_destroy(nullptr);
}

}  // namespace
}  // namespace convoy::capi
