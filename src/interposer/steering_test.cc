// A program's queries answered on the real cuDNN, which offers configurations for a described device without a GPU.
#include "interposer/steering.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "engines/cudnn/described_h200.h"
#include "engines/cudnn/graph.h"
#include "engines/cudnn/properties.h"
#include "interposer/order.h"
#include "interposer/real.h"

namespace convoy::interposer {
namespace {

using Raw = cudnnBackendDescriptor_t;

constexpr const char* kDevice = "NVIDIA H200";
constexpr const char* kDense = "fprop:x=bf16,64x64x56x56,nhwc:w=bf16,64x64x3x3,nhwc:pad=1x1";
constexpr const char* kPositional =
    "fprop:x=bf16,8x768x1x499,nchw:w=bf16,768x48x1x128,nchw:y=bf16,8x768x1x500,nchw:pad=0x64:groups=16";
constexpr const char* kStrictWgrad = "wgrad:x=f32,8x32x28x28,nhwc:w=f32,32x32x3x3,nhwc:pad=1x1";

// A program that asks for the engines of one problem.
class Program {
 public:
  Program(const cuda::CudnnApi& api, const char* problem, Choices choices)
      : problem_(*parse_problem(problem)),
        graph_(api, problem_, nullptr),
        properties_(api, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR),
        steering_(std::move(choices), recorder_),
        row_(recorder_.row(problem_, "CONVOLUTION_FORWARD", "", kDevice)),
        api_(api) {
    const std::string json = cudnn::properties_json(cudnn::described_h200());
    properties_
        .set_array(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, static_cast<std::int64_t>(json.size()),
                   json.c_str())
        .finalize();
  }

  // What it gets into so many places, or into as many as it is told there are. Nothing: it is refused.
  std::optional<std::vector<Candidate>> ask(std::optional<std::int64_t> places = {},
                                            cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A) {
    cudnn::Descriptor heuristic(api_, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    descriptors_.created(heuristic.raw(), CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    const auto set = [&](cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const auto& value) {
      heuristic.set(name, type, value);
      descriptors_.set(heuristic.raw(), name, type, 1, &value);
    };
    set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, graph_.descriptor().raw());
    set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, properties_.raw());
    set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
    heuristic.finalize();
    EXPECT_TRUE(heuristic.ok());
    const auto snapshot = descriptors_.find(heuristic.raw());
    std::vector<Candidate> got;
    if (!places) {
      const auto count = steering_.answer({heuristic.raw(), *snapshot, row_, 0, nullptr});
      answered_ = count.has_value();
      if (!count) {  // nothing to say
        for (const auto& each : heuristic.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, 64)) {
          got.push_back(engine_config_of(each.raw(), nullptr).candidate);
        }
        return got;
      }
      if (count->status != CUDNN_STATUS_SUCCESS) return std::nullopt;
      places = count->count;
    }
    std::vector<cudnn::Descriptor> configurations;
    std::vector<Raw> raw;
    for (std::int64_t i = 0; i < *places; ++i) {
      raw.push_back(configurations.emplace_back(api_, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).raw());
    }
    const auto answered = steering_.answer({heuristic.raw(), *snapshot, row_, *places, raw.data()});
    if (!answered || answered->status != CUDNN_STATUS_SUCCESS) return std::nullopt;
    EXPECT_LE(answered->count, *places);
    for (std::int64_t i = 0; i < answered->count; ++i) got.push_back(engine_config_of(raw[i], nullptr).candidate);
    for (const Raw each : raw) steering_.forget(each);
    steering_.forget(heuristic.raw());
    descriptors_.destroyed(heuristic.raw());
    return got;
  }
  const Steered& steered() const { return row_.steered; }
  void run(const Candidate& candidate, std::vector<std::string> notes) {
    steering_.ran(row_, {candidate, std::move(notes), {}});
  }
  // Whether there was something to say of the last query.
  bool answered() const { return answered_; }

 private:
  const ConvProblem problem_;
  const cudnn::Graph graph_;
  cudnn::Descriptor properties_;
  Descriptors descriptors_;
  Recorder recorder_;
  Steering steering_;
  GraphRecord& row_;
  const cuda::CudnnApi& api_;
  bool answered_ = false;
};

class SteeringOnCudnn : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto api = cuda::cudnn();
    if (!api) GTEST_SKIP() << "skipped: no cuDNN: " << api.error().message;
    if (real().version < 90800) GTEST_SKIP() << "skipped: this cuDNN can't be told of a device";
    if (const std::string why = cudnn::wants_driver(real()); !why.empty()) GTEST_SKIP() << "skipped: " << why;
    const cudnn::DeviceProperties described = cudnn::device_properties(real(), cudnn::described_h200());
    ASSERT_TRUE(described.descriptor.ok()) << described.why_not;
  }
  static Choices parsed(const std::string& lines) {
    auto choices = Choices::parse("convoy-choices 2\n" + lines);
    EXPECT_TRUE(choices.ok()) << lines;
    return *std::move(choices);
  }
  static std::string time(const char* problem, const Candidate& candidate, double seconds) {
    return fmt::format("time\t{}\t{}\t{}\t{}\t{}\n", kDevice, cudnn_version(), print(*parse_problem(problem)),
                       print(without_automatic(candidate)), seconds);
  }
  static std::vector<Candidate> plain(const char* problem, cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A) {
    return *Program(real(), problem, {}).ask({}, mode);
  }
};

std::multiset<std::string> names(const std::vector<Candidate>& candidates) {
  std::multiset<std::string> all;
  for (const Candidate& candidate : candidates) all.insert(print(candidate));
  return all;
}

TEST_F(SteeringOnCudnn, CountsAndFillsAgree) {
  const std::vector<Candidate> own = plain(kDense);
  ASSERT_GT(own.size(), 10u);
  EXPECT_FALSE(own.front().knobs.empty()) << "cuDNN counts no knobs where it is asked how many there are";
  std::string times;  // the last is the fastest
  for (std::size_t i = 0; i < own.size(); ++i) times += time(kDense, own[i], 1.0 / static_cast<double>(i + 1));
  Program program(real(), kDense, parsed(times));
  const auto all = program.ask();
  ASSERT_TRUE(all);
  EXPECT_EQ(names(*all), names(own)) << "none is dropped";
  EXPECT_NE(all->front(), own.front());
  for (const std::int64_t places : {1, 2, 7, 100}) {
    const auto some = program.ask(places);
    ASSERT_TRUE(some);
    ASSERT_EQ(some->size(), std::min<std::size_t>(places, own.size()));
    EXPECT_TRUE(std::equal(some->begin(), some->end(), all->begin())) << places;
  }
}

// One place of cuDNN's list tells, so the first iteration of a program whose choices are right costs what it did.
TEST_F(SteeringOnCudnn, WhereTheFirstIsAsGoodAsAnythingCudnnAnswers) {
  const std::vector<Candidate> own = plain(kDense);
  ASSERT_GT(own.size(), 10u);
  const std::string nearly = time(kDense, own[0], 1.0) + time(kDense, own[1], 0.99);
  Program program(real(), kDense, parsed(nearly));
  program.ask();
  EXPECT_TRUE(program.answered()) << "nobody knows yet whether the program takes tensor cores";
  program.run(own[0], {"TENSOR_CORE"});
  EXPECT_EQ(*program.ask(), own);
  EXPECT_FALSE(program.answered());
  // A tenth faster, by less than a launch takes.
  Program small(real(), kDense, parsed(time(kDense, own[0], 10e-6) + time(kDense, own[1], 9e-6)));
  small.run(own[0], {"TENSOR_CORE"});
  EXPECT_EQ(*small.ask(), own);
  EXPECT_FALSE(small.answered());
  // Nothing goes before what nobody measured.
  Program unmeasured(real(), kDense, parsed(time(kDense, own[1], 0.99)));
  unmeasured.run(own[0], {"TENSOR_CORE"});
  EXPECT_EQ(*unmeasured.ask(), own);
  EXPECT_FALSE(unmeasured.answered());
}

// Nor does it need all of the list where one is faster, which then stands in front of it.
TEST_F(SteeringOnCudnn, TheFastestGoesInFrontOfCudnnsOrder) {
  const std::vector<Candidate> own = plain(kDense);
  ASSERT_GT(own.size(), 10u);
  Program program(real(), kDense, parsed(time(kDense, own[0], 1.0) + time(kDense, own[3], 0.9)));
  program.run(own[0], {"TENSOR_CORE"});
  std::vector<Candidate> expected = own;
  expected.insert(expected.begin(), own[3]);
  EXPECT_EQ(*program.ask(), expected);
  EXPECT_TRUE(program.answered());
  EXPECT_EQ(program.steered().first, without_automatic(own[3]));
  expected.resize(3);
  EXPECT_EQ(*program.ask(3), expected) << "a program with too few places";
  EXPECT_EQ(program.ask(1)->front(), own[3]);
}

TEST_F(SteeringOnCudnn, WhatItDoesNotOfferIsMade) {
  const std::vector<Candidate> own = plain(kDense);
  const std::vector<Candidate> fallback = plain(kDense, CUDNN_HEUR_MODE_FALLBACK);
  ASSERT_FALSE(fallback.empty());
  const auto found = std::find_if(fallback.begin(), fallback.end(), [&](const Candidate& each) {
    return std::none_of(own.begin(), own.end(), [&](const Candidate& other) { return fits(other, {each.engine, {}}); });
  });
  ASSERT_NE(found, fallback.end()) << "an engine that mode A does not offer";
  Program ruled(real(), kDense, parsed(fmt::format("rule\tpass=fprop\t{}\n", found->engine)));
  const auto all = ruled.ask();
  ASSERT_TRUE(all);
  EXPECT_EQ(all->front().engine, found->engine);
  EXPECT_EQ(all->size(), own.size() + 1);
  EXPECT_TRUE(ruled.steered().obeyed);
  EXPECT_EQ(ruled.ask(1)->front().engine, found->engine);
  Program filtered(real(), kDense, parsed(fmt::format("filter\tengines\t{}\nstrict\n", found->engine)));
  ASSERT_TRUE(filtered.ask());
  EXPECT_EQ(filtered.ask()->front().engine, found->engine) << "from the fallback list, since nothing else is permitted";
  EXPECT_EQ(filtered.ask()->size(), 1u);
}

// wav2vec 2.0's positional convolution: of its first list cuDNN gives nothing, and PyTorch takes the fallback list's
// first.
TEST_F(SteeringOnCudnn, WhereTheFirstListIsEmptyTheFastestKnownIsOffered) {
  if (!plain(kPositional).empty()) GTEST_SKIP() << "skipped: this cuDNN's first list is not empty";
  const std::vector<Candidate> fallback = plain(kPositional, CUDNN_HEUR_MODE_FALLBACK);
  ASSERT_GE(fallback.size(), 2u);
  const Candidate& slow = fallback[0];
  const Candidate fast = *parse_candidate("cudnn.eng28{k2=3,k3=0}");
  Program program(real(), kPositional, parsed(time(kPositional, slow, 3.0) + time(kPositional, fast, 1.0)));
  const auto all = program.ask();
  ASSERT_TRUE(all);
  EXPECT_EQ(all->size(), fallback.size() + 1);
  EXPECT_EQ(without_automatic(all->front()), fast);
  EXPECT_EQ(program.steered().first, fast);
  EXPECT_TRUE(program.steered().reordered);
  Program same(real(), kPositional, parsed(time(kPositional, slow, 1.0) + time(kPositional, fast, 3.0)));
  EXPECT_TRUE(same.ask()->empty()) << "as without us: the program asks for the fallback list itself";
  EXPECT_FALSE(same.answered());
}

// Engine 27 has the note TENSOR_CORE, the fallback list's have not.
TEST_F(SteeringOnCudnn, TensorCoresLoseNothingOfABf16ProgramThatUsesThem) {
  const std::vector<Candidate> fallback = plain(kPositional, CUDNN_HEUR_MODE_FALLBACK);
  if (!plain(kPositional).empty()) GTEST_SKIP() << "skipped: this cuDNN's first list is not empty";
  ASSERT_FALSE(fallback.empty());
  const Candidate slow = without_automatic(fallback[0]);
  const Candidate cores = *parse_candidate("cudnn.eng27{k14=5,k2=1,k5=3}");
  const std::string times = time(kPositional, slow, 3.0) + time(kPositional, cores, 1.0);
  Program unknown(real(), kPositional, parsed(times));
  EXPECT_TRUE(unknown.ask()->empty()) << "nobody knows yet whether the program takes tensor cores";
  Program without(real(), kPositional, parsed(times));
  without.run(slow, {});
  EXPECT_TRUE(without.ask()->empty());
  Program program(real(), kPositional, parsed(times));
  program.run(slow, {"TENSOR_CORE"});
  const auto all = program.ask();
  ASSERT_TRUE(all && !all->empty());
  EXPECT_EQ(without_automatic(all->front()), cores);
  EXPECT_EQ(std::ranges::count(program.steered().adds, "TENSOR_CORE"), 1);
}

TEST_F(SteeringOnCudnn, WhatCannotBeMadeIsSaid) {
  Program none(real(), kDense, parsed("rule\t*\tcudnn.eng4711\nstrict\n"));
  EXPECT_FALSE(none.ask());
  EXPECT_NE(none.steered().disobeyed.find("CUDNN_STATUS_"), std::string::npos) << none.steered().disobeyed;
  Program knob(real(), kDense, parsed(fmt::format("rule\t*\t{}{{k2=12345}}\n", plain(kDense).front().engine)));
  EXPECT_EQ(names(*knob.ask()), names(plain(kDense)));
  EXPECT_FALSE(knob.steered().disobeyed.empty());
}

// eng68's f32 wgrad cuts its inputs off to tf32, which no note of cuDNN's says.
TEST_F(SteeringOnCudnn, HiddenNotesCount) {
  const std::vector<Candidate> own = plain(kStrictWgrad);
  const auto hidden =
      std::find_if(own.begin(), own.end(), [](const Candidate& c) { return c.engine == "cudnn.eng68"; });
  if (hidden == own.end()) GTEST_SKIP() << "skipped: this cuDNN does not offer eng68";
  std::string times;
  for (const Candidate& each : own) times += time(kStrictWgrad, each, each.engine == "cudnn.eng68" ? 1.0 : 2.0);
  Program program(real(), kStrictWgrad, parsed(times));
  const auto all = program.ask();
  ASSERT_TRUE(all);
  const auto before =
      std::find_if(all->begin(), all->end(), [](const Candidate& c) { return c.engine == "cudnn.eng68"; });
  for (auto each = all->begin(); each != before; ++each) {
    EXPECT_TRUE(std::find(own.begin(), hidden, *each) != hidden)
        << print(*each) << " stands before it in cuDNN's own order, too";
  }
  EXPECT_GT(before - all->begin(), 0) << "it is the fastest, and still behind what is more precise";
  program.run(own[0], {"TENSOR_CORE"});  // TF32 is another precision than f32, whatever else the program takes
  EXPECT_EQ(*program.ask(), *all);
}

// The program keeps eng68 where that is all it knows; the record says what it does.
TEST_F(SteeringOnCudnn, HiddenNotesAreRecorded) {
  const ConvProblem problem = *parse_problem(kStrictWgrad);
  const cudnn::Graph graph(real(), problem, nullptr);
  const std::string json = cudnn::properties_json(cudnn::described_h200());
  cudnn::Descriptor properties(real(), CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  properties
      .set_array(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, static_cast<std::int64_t>(json.size()),
                 json.c_str())
      .finalize();
  const cudnn::Descriptor configuration(real(), CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  const auto parts =
      configure(configuration.raw(), {graph.descriptor().raw(), properties.raw(), {}}, {"cudnn.eng68", {}});
  if (!parts.ok()) GTEST_SKIP() << "skipped: " << parts.error().message;
  const EngineConfig engine_config = engine_config_of(configuration.raw(), &problem);
  EXPECT_EQ(engine_config.candidate.engine, "cudnn.eng68");
  EXPECT_EQ(engine_config.hidden_notes, std::vector<std::string>{"DOWN_CONVERT_INPUTS"});
  Recorder recorder;
  recorder.plan(recorder.row(problem, "CONVOLUTION_BACKWARD_FILTER", "", kDevice), engine_config, 0, "", "");
  EXPECT_NE(recorder.lines().find(R"("hidden_notes":["DOWN_CONVERT_INPUTS"])"), std::string::npos) << recorder.lines();
}

}  // namespace
}  // namespace convoy::interposer
