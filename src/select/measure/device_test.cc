// Selection on a GPU, on device/cuda/testing/fake_driver.cc: its memory is the host's, and 1 MiB. The fake engines
// compute there with the CPU's oracle.
#include "device/cuda/device.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>

#include "convoy/plan_cache.h"
#include "device/cuda/errors.h"
#include "device/cuda/memory.h"
#include "device/cuda/stream.h"
#include "select/measure/device_data.h"
#include "select/measure/recheck.h"
#include "select/measure/testbed.h"
#include "select/testing/fake_engine.h"
#include "select/tune/check.h"

namespace convoy {
namespace {

using testing_support::FakeEngine;

// Before anything asks for the driver.
const bool prepared = [] {
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();  // the build puts it there
  ::setenv("CONVOY_CUDA_DRIVER", (folder / "fake_driver/libcuda.so.1").c_str(), 1);
  for (const char* library : {"CONVOY_NVML", "CONVOY_NVRTC", "CONVOY_CUDNN"}) ::setenv(library, "off", 1);
  return true;
}();

class MemoryStore : public MeasurementStore {
 public:
  Result<std::vector<Measurement>> find(const MeasurementKey& key) override {
    std::vector<Measurement> found;
    for (const auto& [name, measurement] : rows[key]) found.push_back(measurement);
    return found;
  }
  Result<void> store(const MeasurementKey& key, const Measurement& measurement) override {
    if (!measurement.failure || measurement.failure->code != ErrorCode::out_of_memory) {
      rows[key][print(measurement.candidate)] = measurement;
    }
    return {};
  }
  std::map<MeasurementKey, std::map<std::string, Measurement>> rows;
};

FakeEngine::Behaviour on_gpu(FakeEngine::Behaviour behaviour) {
  behaviour.device = DeviceKind::cuda;
  return behaviour;
}

class OnDevice : public testing::Test {
 protected:
  OnDevice() {
    problem_ = *parse_problem("fprop:x=f32,1x4x9x9,nchw:w=f32,4x4x3x3,nchw:pad=1x1");
    request_.cpu = cpu_features();
    request_.cuda = *cuda::describe(0);
    options_.mode = SelectionMode::measured;
    options_.store = &store_;
  }
  Result<Selection> choose(const std::vector<const Engine*>& engines) {
    return select(problem_, engines, options_, request_);
  }
  const Measurement& measured(const Selection& selection, std::string_view engine) {
    for (const Measurement& m : selection.measurements) {
      if (m.candidate.engine == engine) return m;
    }
    static const Measurement none;
    ADD_FAILURE() << engine << " was not measured";
    return none;
  }

  ConvProblem problem_;
  PlanRequest request_;
  SelectionOptions options_;
  MemoryStore store_;
  FakeEngine quick_{"fake.quick", on_gpu({.predicted = 2e-4})};
  FakeEngine slow_{"fake.slow", on_gpu({.predicted = 1e-4, .sleep_seconds = 0.01})};
  FakeEngine wrong_{"fake.wrong", on_gpu({.predicted = 5e-5, .wrong = true})};
  FakeEngine cpu_{"fake.cpu", {.predicted = 1e-6}};
};

// Making the first plan takes seconds on a GPU: it isn't left out for that.
TEST_F(OnDevice, AShortBudgetStillMeasuresTheFirst) {
  options_.budget_seconds = 1e-6;
  const auto selection = choose({&quick_, &slow_});
  ASSERT_TRUE(selection.ok()) << selection.error().message;
  ASSERT_EQ(selection->measurements.size(), 1U);
  EXPECT_EQ(selection->measurements[0].candidate.engine, "fake.slow");
  EXPECT_EQ(selection->by, SelectedBy::measured);
  EXPECT_TRUE(selection->partial);
}

TEST_F(OnDevice, TheFastestRightOneWinsAndIsStoredUnderTheDevice) {
  ASSERT_TRUE(prepared);
  const auto selection = choose({&cpu_, &slow_, &wrong_, &quick_});
  ASSERT_TRUE(selection.ok()) << selection.error().message;
  EXPECT_EQ(selection->candidate.engine, "fake.quick");
  EXPECT_EQ(selection->measurements.size(), 3u);
  EXPECT_EQ(measured(*selection, "fake.quick").state, MeasurementState::complete);
  EXPECT_GT(measured(*selection, "fake.quick").median_seconds, 0);
  EXPECT_GT(measured(*selection, "fake.slow").median_seconds, 0.01);
  ASSERT_TRUE(measured(*selection, "fake.wrong").failure.has_value());
  EXPECT_EQ(measured(*selection, "fake.wrong").failure->code, ErrorCode::wrong_result);
  EXPECT_NE(measured(*selection, "fake.wrong").failure->message.find("cuda:0 Fake 9000"), std::string::npos);
  ASSERT_EQ(store_.rows.size(), 1u);
  const MeasurementKey& key = store_.rows.begin()->first;
  EXPECT_EQ(key.device, "cuda Fake 9000 sms=7 l2=7 mem=0G");
  EXPECT_EQ(key.isa, "sm_90");
  EXPECT_EQ(key.driver, "CUDA 13.0");
  EXPECT_FALSE(key.constant_weights);

  // What was measured is not measured again, and the heuristic's choice knows it.
  const auto again = choose({&slow_, &wrong_, &quick_});
  EXPECT_EQ(again->by, SelectedBy::stored);
  options_.mode = SelectionMode::heuristic;
  EXPECT_EQ(choose({&slow_, &quick_})->candidate.engine, "fake.quick");
  // Other SMs, another key.
  request_.target_sms = 3;
  EXPECT_EQ(choose({&slow_, &quick_})->candidate.engine, "fake.slow");
  EXPECT_EQ(measurement_key(problem_, request_, CacheState::cold).isa, "sm_90 target_sms=3");
}

TEST_F(OnDevice, AHostThatCameLateOnceDoesNotCutACandidateOff) {
  for (const CacheState caches : {CacheState::cold, CacheState::warm, CacheState::rotating}) {
    options_.caches = caches;
    std::atomic<int> late =
        2;  // in its first execution, which is not timed, and in the one that says whether it is hopeless
    const FakeEngine unlucky("fake.unlucky", on_gpu({.predicted = 1e-4, .disturbed_runs = &late}));
    const FakeEngine steady("fake.steady", on_gpu({.predicted = 1e-4, .sleep_seconds = 1e-3}));
    const auto selection = choose({&unlucky, &steady});
    ASSERT_TRUE(selection.ok()) << selection.error().message;
    EXPECT_EQ(selection->candidate.engine, "fake.unlucky") << name_of(caches);
    EXPECT_EQ(measured(*selection, "fake.unlucky").state, MeasurementState::complete);
    EXPECT_GT(measured(*selection, "fake.unlucky").samples, 1);
  }
}

TEST_F(OnDevice, WhatIsFarSlowerIsExecutedOnce) {
  int executions = 0;
  // On a loaded machine the quick one's own time may be disturbed, and then the slow one is not hopeless yet.
  for (int attempt = 0; attempt < 5 && executions != 1; ++attempt) {
    store_.rows.clear();
    std::atomic<int> disturbed = 0;  // counts down with every execution
    const FakeEngine hopeless("fake.hopeless",
                              on_gpu({.predicted = 3e-4, .sleep_seconds = 0.09, .disturbed_runs = &disturbed}));
    const auto selection = choose({&quick_, &hopeless});
    ASSERT_TRUE(selection.ok()) << selection.error().message;
    EXPECT_EQ(measured(*selection, "fake.hopeless").state, MeasurementState::cut_off);
    executions = -disturbed;
  }
  EXPECT_EQ(executions, 1);
}

TEST_F(OnDevice, AnExecutionThatIsLateHoweverLongItsHostIsAheadIsNotRepeatedInVain) {
  // The fake driver has executed whatever it was given, so every sample's host is late.
  for (const CacheState caches : {CacheState::cold, CacheState::rotating}) {
    options_.caches = caches;
    std::atomic<int> disturbed = 0;  // counts down with every execution
    const FakeEngine lengthy("fake.lengthy",
                             on_gpu({.predicted = 1e-4, .sleep_seconds = 0.01, .disturbed_runs = &disturbed}));
    const auto selection = choose({&lengthy, &quick_});
    ASSERT_TRUE(selection.ok()) << selection.error().message;
    EXPECT_EQ(measured(*selection, "fake.lengthy").state, MeasurementState::cut_off);
    EXPECT_LT(-disturbed, 6) << "its first and a sample for every head start; " << name_of(caches);
  }
}

TEST_F(OnDevice, StoredMeasurementsAreMeasuredAgainOnTheirGpu) {
  const std::vector<const Engine*> engines = {&quick_};
  ASSERT_TRUE(choose(engines).ok());
  ASSERT_EQ(store_.rows.size(), 1U);
  const auto& [key, measurements] = *store_.rows.begin();
  Measurement stored = measurements.begin()->second;
  EXPECT_EQ(selection::inapplicable(key, stored, request_, engines), std::nullopt);
  const auto again = selection::measure_again(key, stored.candidate, request_, engines, 0);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_FALSE(again->failure.has_value());
  EXPECT_EQ(again->candidate, stored.candidate);
  EXPECT_GT(again->median_seconds, 0);

  const FakeEngine wrong(stored.candidate.engine, on_gpu({.predicted = 1e-4, .wrong = true}));
  const auto bad = selection::measure_again(key, stored.candidate, request_, std::vector<const Engine*>{&wrong}, 0);
  ASSERT_TRUE(bad.ok()) << bad.error().message;
  ASSERT_TRUE(bad->failure.has_value());
  EXPECT_EQ(bad->failure->code, ErrorCode::wrong_result);

  MeasurementKey carved = key;  // with some of its multiprocessors
  carved.isa += " target_sms=1";
  EXPECT_EQ(selection::inapplicable(carved, stored, request_, engines), std::nullopt);
  carved.isa += "000";
  EXPECT_NE(selection::inapplicable(carved, stored, request_, engines), std::nullopt);
  MeasurementKey other = key;
  other.driver += "1";
  EXPECT_EQ(selection::inapplicable(other, stored, request_, engines), "another driver");
  stored.revision += 1;
  EXPECT_EQ(selection::inapplicable(key, stored, request_, engines), "an outdated engine or library");
  PlanRequest processor = request_;
  processor.cuda.reset();
  EXPECT_EQ(selection::inapplicable(key, stored, processor, engines), "another device");
}

// Whether an engine takes the problem is asked where it would win, or where there are times to choose by.
TEST_F(OnDevice, AnEmptyMemoryRanksNothing) {
  struct Asked : FakeEngine {
    using FakeEngine::FakeEngine;
    std::optional<Estimate> estimate(const ConvProblem&, const PlanRequest&) const override {
      return Estimate{{}, 1, false};
    }
    std::optional<Refusal> check(const ConvProblem&, const PlanRequest&) const override {
      ++times;
      return std::nullopt;
    }
    mutable int times = 0;
  };
  const Asked asked("fake.asked", on_gpu({.predicted = 1}));
  options_.mode = SelectionMode::heuristic;
  EXPECT_EQ(choose({&quick_, &asked})->by, SelectedBy::heuristic);
  EXPECT_EQ(asked.times, 0);
  options_.mode = SelectionMode::measured;
  ASSERT_TRUE(choose({&quick_}).ok());
  options_.mode = SelectionMode::heuristic;
  EXPECT_EQ(choose({&quick_, &asked})->by, SelectedBy::stored);
  EXPECT_GT(asked.times, 0);
}

TEST_F(OnDevice, RowsOfTheOtherKindOfDeviceAreRefused) {
  const std::vector<const Engine*> engines = {&cpu_, &quick_};
  const auto on_gpu = list_candidates(problem_, engines, request_);
  EXPECT_EQ(on_gpu[0].refusal->reason, "device=cuda:0: this engine runs on the CPU");
  EXPECT_FALSE(on_gpu[1].refusal.has_value());
  request_.cuda.reset();
  const auto on_cpu = list_candidates(problem_, engines, request_);
  EXPECT_FALSE(on_cpu[0].refusal.has_value());
  EXPECT_EQ(on_cpu[1].refusal->reason, "device=cpu: this engine needs a CUDA device");
  const auto nobody = select(problem_, std::vector<const Engine*>{&quick_}, {}, request_);
  EXPECT_EQ(nobody.error().message, "no engine can run " + print(problem_));  // and no word of rows of a GPU
}

TEST_F(OnDevice, RotationGivesEachExecutionTensorsOfItsOwnWithTheSameContents) {
  for (const char* text : {"fprop:x=f16,2x4x9x9,nhwc:w=f16,4x4x3x3,nchw:pad=1x1:gamma=0.5",
                           "dgrad:x=f32,2x4x9x9,nhwc:w=f32,4x4x3x3,nchw:y=f32,2x4x9x9,nhwc:pad=1x1",
                           "wgrad:x=f32,2x4x9x9,nhwc:w=f32,4x4x3x3,nchw:y=f32,2x4x9x9,nhwc:pad=1x1"}) {
    SCOPED_TRACE(text);
    const ConvProblem problem = *parse_problem(text);
    const Device& gpu = device_of(request_);
    const auto queue = gpu.make_queue(1);
    ASSERT_TRUE(queue.ok()) << queue.error().message;
    const auto data = selection::DeviceData::make(problem, 1, gpu, **queue);
    ASSERT_TRUE(data.ok()) << data.error().message;
    const ConvArgs first = data->args(data->prior(problem.pass).data());
    constexpr std::int64_t kCache = 4096;
    auto rotation = selection::Rotation::make(problem, first, kCache, gpu, **queue);
    ASSERT_TRUE(rotation.ok()) << rotation.error().message;
    ASSERT_TRUE((*queue)->finish().ok());

    const auto sets = (4 * kCache + rotation->bytes_of_one() - 1) / rotation->bytes_of_one();
    ASSERT_GE(sets, 2);
    const std::vector<std::tuple<const void * ConvArgs::*, std::size_t, bool>> inputs = {
        {&ConvArgs::x, problem.x.bytes(), problem.pass != Pass::dgrad},
        {&ConvArgs::w, problem.w.bytes(), problem.pass != Pass::wgrad},
        {&ConvArgs::y, problem.y.bytes(), problem.pass != Pass::fprop},
        {&ConvArgs::z, problem.out().bytes(), first.z != nullptr}};
    std::set<const void*> outputs, read;
    for (std::int64_t i = 0; i < sets; ++i) {
      const ConvArgs& args = rotation->next();
      outputs.insert(args.out);
      EXPECT_EQ(std::memcmp(args.out, first.out, static_cast<std::size_t>(problem.out().bytes())), 0);
      for (const auto& [input, bytes, reads] : inputs) {
        if (!reads) continue;
        EXPECT_TRUE(read.insert(args.*input).second) << "a tensor of another execution";
        EXPECT_EQ(std::memcmp(args.*input, first.*input, bytes), 0);
      }
    }
    EXPECT_EQ(outputs.size(), static_cast<std::size_t>(sets));
    EXPECT_EQ(rotation->next().out, first.out);  // round again
    constexpr std::int64_t kSmall = 7;           // what is larger than the cache drives itself out
    EXPECT_EQ(selection::Rotation::make(problem, first, kSmall, gpu, **queue)->next().out, first.out);
  }
}

TEST_F(OnDevice, ExecutionsInARowAreOfGpusOnly) {
  request_.cuda.reset();
  const auto made = selection::make_testbed(problem_, request_, CacheState::rotating, 1'000'000);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(made.error().message.find("caches=rotating"), std::string::npos) << made.error().message;
}

TEST_F(OnDevice, EveryStateOfTheCachesAndTheOthersOfAProblem) {
  // A strided batch in half precision with everything an epilogue has.
  for (const char* text : {"wgrad:x=f32,2x4x9x9,nhwc:w=f32,4x4x3x3,nchw:y=f32,2x4x9x9,nhwc:pad=1x1",
                           "dgrad:x=f32,2x4x9x9,nhwc:w=f32,4x4x3x3,nchw:y=f32,2x4x9x9,nhwc:pad=1x1:beta=0.5",
                           "fprop:x=f16,2x4x9x9,nhwc:w=f16,4x4x3x3,nchw:pad=1x1:bias=1:gamma=0.5:act=relu"}) {
    const auto problem = parse_problem(text);
    ASSERT_TRUE(problem.ok()) << problem.error().message;
    for (const CacheState caches : {CacheState::cold, CacheState::warm, CacheState::all_cold, CacheState::rotating}) {
      auto made = selection::make_testbed(*problem, request_, caches, 1'000'000);
      ASSERT_TRUE(made.ok()) << made.error().message;
      selection::Testbed* const bed = made->get();
      const auto plan = quick_.plan(*problem, {}, request_);
      ASSERT_TRUE(bed->poison((*plan)->workspace_bytes()).ok());
      ASSERT_TRUE(bed->run(**plan).ok());
      const auto verification = bed->compare(Arithmetic::direct);
      ASSERT_TRUE(verification.ok()) << verification.error().message;
      EXPECT_TRUE(verification->ok()) << text << " " << verification->max_error;
      EXPECT_TRUE(verification->full);
      const auto seconds = bed->timed_run(**plan);
      ASSERT_TRUE(seconds.ok()) << name_of(caches) << ": " << seconds.error().message;
      EXPECT_GT(*seconds, 0);
      EXPECT_GE(*bed->run_for(**plan, 0), 1);
    }
  }
}

TEST_F(OnDevice, MemoryThatEndsWhileTuningFailsOneCandidate) {
  FakeEngine greedy("fake.greedy", on_gpu({.predicted = 1e-5, .workspace = 4 << 20}));
  const auto selection = choose({&greedy, &quick_});
  ASSERT_TRUE(selection.ok()) << selection.error().message;
  EXPECT_EQ(selection->candidate.engine, "fake.quick");
  const auto& failure = measured(*selection, "fake.greedy").failure;
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->code, ErrorCode::out_of_memory);
  EXPECT_NE(failure->message.find("4.0 MiB needed for the workspace"), std::string::npos) << failure->message;
  EXPECT_NE(failure->message.find("are free"), std::string::npos) << failure->message;
  EXPECT_EQ(store_.rows.begin()->second.size(), 1u);  // it says nothing about the candidate

  const auto large = parse_problem("fprop:x=f32,64x64x56x56,nhwc:w=f32,64x64x3x3,nchw:pad=1x1");
  const auto nothing = select(*large, std::vector<const Engine*>{&quick_}, options_, request_);
  ASSERT_FALSE(nothing.ok());
  EXPECT_EQ(nothing.error().code, ErrorCode::out_of_memory);
  EXPECT_NE(nothing.error().message.find("needed for x"), std::string::npos) << nothing.error().message;
}

TEST_F(OnDevice, TheCheckerRunsThere) {
  selection::CheckSetup setup;
  setup.problem = problem_;
  setup.request = request_;
  const std::vector<const Engine*> engines = {&quick_, &wrong_};
  auto checker = selection::CandidateChecker::make(setup, engines);
  ASSERT_TRUE(checker.ok()) << checker.error().message;
  const auto right = checker->check({"fake.quick", {}});
  EXPECT_EQ(right.fault, selection::CheckFault::none) << right.failure;
  EXPECT_EQ(right.deterministic, selection::BitTest::same);
  EXPECT_EQ(right.thread_invariant, selection::BitTest::not_run);  // a GPU's plans have no threads
  EXPECT_EQ(checker->check({"fake.wrong", {}}).fault, selection::CheckFault::wrong_result);
}

TEST_F(OnDevice, ThePlanCacheEnqueuesOnTheCallersStream) {
  void* seen = nullptr;
  std::size_t workspace = 0;
  FakeEngine watched("fake.watched", on_gpu({.workspace = 1000, .launch = [&](const ExecContext& context) {
                                               seen = context.stream();
                                               workspace = context.workspace_bytes;
                                               return Result<void>();
                                             }}));
  const auto stream = cuda::Stream::create(0);
  const auto x = cuda::DeviceMemory::allocate(0, 4096, "x"), w = cuda::DeviceMemory::allocate(0, 4096, "w"),
             y = cuda::DeviceMemory::allocate(0, 4096, "y");
  const PlanSettings settings({&watched}, {}, request_);
  PlanCache cache;
  const ConvArgs args{.x = x->data(), .w = w->data(), .out = y->data()};
  const auto ran = cache.run(problem_, settings, args, {}, {}, stream->get());
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  EXPECT_EQ(seen, stream->get());
  EXPECT_EQ(workspace, 1000u);

  std::vector<float> host(1024);
  const auto there = cache.run(problem_, settings, {.x = host.data(), .w = w->data(), .out = y->data()});
  ASSERT_FALSE(there.ok());
  EXPECT_EQ(there.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(there.error().message.find("x"), std::string::npos) << there.error().message;
}

TEST_F(OnDevice, AShortageOfMemoryNamesWhatWouldFit) {
  FakeEngine greedy("fake.greedy", on_gpu({.predicted = 1e-5, .workspace = 4 << 20}));
  FakeEngine large("fake.large", on_gpu({.predicted = 2e-5, .workspace = 1 << 20}));
  FakeEngine broken("fake.broken", on_gpu({.predicted = 3e-5, .plan_fails = true}));
  FakeEngine small("fake.small", on_gpu({.predicted = 4e-5, .workspace = 100 << 10}));
  FakeEngine none("fake.none", on_gpu({.predicted = 5e-5}));
  const auto taken = cuda::DeviceMemory::allocate(0, 512 << 10, "somebody else");
  const auto x = cuda::DeviceMemory::allocate(0, 4096, "x"), w = cuda::DeviceMemory::allocate(0, 4096, "w"),
             y = cuda::DeviceMemory::allocate(0, 4096, "y");
  ASSERT_TRUE(taken.ok() && x.ok() && w.ok() && y.ok());
  const ConvArgs args{.x = x->data(), .w = w->data(), .out = y->data()};
  const auto message = [&](std::vector<const Engine*> engines) {
    PlanCache cache;
    const auto ran = cache.run(problem_, PlanSettings(std::move(engines), {}, request_), args);
    EXPECT_FALSE(ran.ok());
    EXPECT_EQ(ran.error().code, ErrorCode::out_of_memory);
    return ran.error().message;
  };
  const std::string begin = print(problem_) +
                            ": cuda:0: 4.0 MiB needed for the workspace of fake.greedy{tile=4}, 0.5 MiB of 1.0 MiB are "
                            "free; ";
  EXPECT_EQ(message({&none, &small, &broken, &large, &greedy}),
            begin +
                "fake.small{tile=4} would fit: 0.1 MiB, predicted to take 4.00 times as long; a workspace limit of "
                "512000 bytes keeps to such candidates");
  EXPECT_EQ(message({&greedy, &large, &broken}), begin + "none of the 2 other candidates would fit");
  EXPECT_EQ(message({&greedy}), begin + "no other candidate can run it");
}

// Last: the fake driver, like a real one, takes no more calls of this process afterwards.
TEST_F(OnDevice, ZDeviceLostWhileTuningKeepsWhatWasMeasured) {
  const auto crash = [](const ExecContext& context) {
    CUlaunchConfig config{};
    config.gridDimX = config.blockDimX = 1;
    config.hStream = static_cast<CUstream>(context.stream());
    (*cuda::driver())->LaunchKernelEx(&config, nullptr, nullptr, nullptr);
    return Result<void>();
  };
  // Plans are taken in the order in which they are ready.
  FakeEngine fatal("fake.fatal", on_gpu({.predicted = 3e-4, .launch = crash, .plan_seconds = 0.05}));
  FakeEngine late("fake.late", on_gpu({.predicted = 4e-4, .plan_seconds = 0.1}));
  const auto selection = choose({&quick_, &fatal, &late});
  ASSERT_TRUE(selection.ok()) << selection.error().message;
  EXPECT_EQ(selection->candidate.engine, "fake.quick");
  EXPECT_TRUE(selection->partial);
  ASSERT_TRUE(measured(*selection, "fake.fatal").failure.has_value());
  EXPECT_EQ(measured(*selection, "fake.fatal").failure->code, ErrorCode::device_failed);
  EXPECT_EQ(selection->measurements.size(), 2u);  // nothing is said of the one behind it
  EXPECT_EQ(store_.rows.begin()->second.size(), 2u);
  ASSERT_FALSE(selection->warnings.empty());
  const auto next = choose({&late});  // the process lives on
  EXPECT_FALSE(next.ok());
}

}  // namespace
}  // namespace convoy
