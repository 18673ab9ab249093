#include "report/program_report.h"

#include <gtest/gtest.h>

#include "report/layouts.h"
#include "report/program_view.h"
#include "report/testing/record_of.h"

namespace convoy::report {
namespace {

constexpr const char* kProgramHeader =
    R"({"convoy_record":1,"pid":7,"program":"python train.py --name '<b>'","cudnn":91900,"seconds":1.5,)"
    R"("rules":[{"pattern":"pass=dgrad","candidate":"cudnn.eng3","matched":0,"obeyed":0}],"filters":["filter notes !FFT"]})";
constexpr const char* kClass = "cuda NVIDIA H200 sms=132 l2=60M mem=139G";
constexpr const char* kFprop =
    "fprop:x=bf16,2x8x5x5,nhwc,align=16:w=bf16,8x8x3x3,nhwc,align=16:y=bf16,2x8x5x5,nhwc,align=16:pad=1x1";
constexpr const char* kWgrad =
    "wgrad:x=bf16,2x8x5x5,nhwc,align=16:w=bf16,8x8x3x3,nhwc,align=16:y=bf16,2x8x5x5,nhwc,align=16:pad=1x1";

// Steered: eng5 was put first; cuDNN's own first that can be built is eng9.
std::string fprop_line() {
  return R"({"problem":")" + std::string(kFprop) +
         R"(","operations":"CONVOLUTION_FORWARD","device":"NVIDIA H200","calls":10,"steered":"cudnn.eng5{k2=-1}",)"
         R"("not_placed":[{"candidate":"cudnn.eng11{k2=4}","reason":"the program asked for 1 configuration"}],)"
         R"("plans":[{"candidate":"cudnn.eng5{k2=-1}","notes":["TENSOR_CORE"],"calls":10,"made":1,"workspace_bytes":64,"captured":2},)"
         R"({"candidate":"cudnn.eng7","notes":["TENSOR_CORE"],"calls":0,"made":1,"failure":"CUDNN_STATUS_NOT_SUPPORTED","failure_detail":"no such tile"}],)"
         R"("queries":[{"mode":"instant","asked":1,"offers":[{"candidate":"cudnn.eng7","notes":["TENSOR_CORE"]},)"
         R"({"candidate":"cudnn.eng9{k2=3}","notes":["TENSOR_CORE"]},{"candidate":"cudnn.eng5{k2=-1}","notes":["TENSOR_CORE"]},)"
         R"({"candidate":"cudnn.eng12","notes":["NONDETERMINISTIC","TENSOR_CORE"]}]}]})";
}

std::string wgrad_line(const char* candidate = "cudnn.eng1") {
  return R"({"problem":")" + std::string(kWgrad) +
         R"(","operations":"CONVOLUTION_BACKWARD_FILTER","device":"NVIDIA H200","calls":4,"plans":[{"candidate":")" +
         candidate + R"(","notes":["TENSOR_CORE"],"calls":4,"made":1,"workspace_bytes":0}]})";
}

constexpr const char* kProgramNorm =
    R"({"operations":"NORM_FORWARD","reason":"no convolution","device":"NVIDIA H200","calls":4})";
constexpr const char* kFailure =
    R"({"failure":{"descriptor":"CUDNN_BACKEND_TENSOR_DESCRIPTOR","status":"CUDNN_STATUS_BAD_PARAM","message":"m","count":2,"attributes":{"CUDNN_ATTR_TENSOR_DIMENSIONS":[1,2]}}})";

TuningRecord row(const std::string& problem, const char* candidate, double seconds,
                 CacheState caches = CacheState::cold) {
  TuningRecord record;
  record.key.problem = problem;
  record.key.device = kClass;
  record.key.isa = "sm_90";
  record.key.driver = "580";
  record.key.caches = caches;
  record.measurement.candidate = *parse_candidate(candidate);
  record.measurement.provider = std::string(candidate).starts_with("cudnn") ? "cuDNN 9.19.0" : "";
  record.measurement.state = MeasurementState::complete;
  record.measurement.median_seconds = seconds;
  record.measurement.workspace_bytes = 128;
  if (!(seconds > 0)) record.measurement.failure = Error{ErrorCode::wrong_result, "out[3] is 7, it should be 5"};
  return record;
}

// As `convoy tune` names the problem.
std::string tuned(std::string problem) { return problem + ":math=reduced"; }

std::vector<TuningRecord> database() {
  std::vector<TuningRecord> rows = {row(tuned(kFprop), "cudnn.eng5", 2e-5),
                                    row(tuned(kFprop), "cudnn.eng9{k2=3}", 3e-5),
                                    row(tuned(kFprop), "cudnn.eng11{k2=4}", 1.5e-5),
                                    row(tuned(kFprop), "cudnn.eng12", 1e-5),
                                    row(tuned(kFprop), "cuda.depthwise", 1.7e-5),
                                    row(tuned(kFprop), "cudnn.eng30", 0),
                                    row(tuned(kFprop), "cudnn.eng5", 9e-5, CacheState::warm)};
  rows[0].measurement.energy_joules = 0.5;
  return rows;
}

std::optional<std::vector<std::string>> notes(const std::string&, const ConvProblem&, const Candidate& candidate) {
  if (candidate.engine == "cuda.depthwise") return std::vector<std::string>{"RUNTIME_COMPILATION"};
  if (candidate.engine == "cudnn.eng11") return std::vector<std::string>{"TENSOR_CORE"};
  return std::nullopt;
}

TEST(ProgramReport, GainsAreCountedWithinWhatIsPermitted) {
  const KnownTimes known(database(), "9.19.0");
  const ProgramReport report = make_program_report(
      record_of({kProgramHeader, fprop_line(), wgrad_line(), kProgramNorm, kFailure}), known, notes);
  ASSERT_EQ(report.convolutions.size(), 2u);
  const Convolution& fprop = report.convolutions[0];
  const auto name = [&](const std::optional<std::size_t>& index) {
    return index ? fprop.algorithms[*index].candidate : std::string();
  };
  EXPECT_EQ(fprop.number, 1);
  EXPECT_EQ(name(fprop.used), "cudnn.eng5{k2=-1}") << "a knob left to cuDNN is as one that isn't named";
  EXPECT_EQ(name(fprop.asked), "cudnn.eng5{k2=-1}");
  EXPECT_EQ(name(fprop.instead), "cudnn.eng9{k2=3}") << "eng7 can't be built";
  EXPECT_EQ(name(fprop.best), "cudnn.eng11{k2=4}");
  EXPECT_EQ(name(fprop.best_forbidden), "cudnn.eng12") << "it is nondeterministic; what ran is not";
  EXPECT_FALSE(fprop.best_elsewhere);
  EXPECT_EQ(fprop.caches, CacheState::cold);
  EXPECT_NEAR(fprop.seconds, 2e-4, 1e-12);
  EXPECT_NEAR(fprop.gain_taken, 1e-4, 1e-12);
  EXPECT_NEAR(fprop.gain_not_taken, 5e-5, 1e-12);
  EXPECT_NEAR(fprop.joules.value_or(0), 5, 1e-12);
  EXPECT_EQ(fprop.share, 1);
  // Offered ones in cuDNN's order, then the fastest, what failed last.
  std::vector<std::string> order;
  for (const Algorithm& algorithm : fprop.algorithms) order.push_back(algorithm.candidate);
  EXPECT_EQ(order, (std::vector<std::string>{"cudnn.eng7", "cudnn.eng9{k2=3}", "cudnn.eng5{k2=-1}", "cudnn.eng12",
                                             "cudnn.eng11{k2=4}", "cuda.depthwise", "cudnn.eng30"}));
  EXPECT_EQ(fprop.algorithms[0].detail, "no such tile");
  EXPECT_EQ(fprop.algorithms[4].not_placed, "the program asked for 1 configuration");
  EXPECT_NE(fprop.algorithms[6].failure.find("out[3] is 7"), std::string::npos);

  const Convolution& wgrad = report.convolutions[1];
  EXPECT_EQ(wgrad.timed_calls, 0) << "what has no time is not guessed";
  EXPECT_EQ(wgrad.share, 0);
  EXPECT_EQ(report.calls, 14);
  EXPECT_EQ(report.timed_calls, 10);
  EXPECT_EQ(layer_of(fprop.problem), layer_of(wgrad.problem));
  ASSERT_EQ(report.others.size(), 1u);
}

// cuda.depthwise stood in for eng1, which rounds f32, in six of ten calls.
TEST(ProgramReport, WhatStoodInForAPlanIsWhatRan) {
  const std::string problem = "fprop:x=f32,2x8x5x5,nhwc:w=f32,8x1x3x3,nhwc:y=f32,2x8x5x5,nhwc:pad=1x1:groups=8";
  const std::string line = R"({"problem":")" + problem +
                           R"(","operations":"CONVOLUTION_FORWARD","device":"NVIDIA H200","calls":10,"plans":[)"
                           R"({"candidate":"cudnn.eng1","notes":["TENSOR_CORE"],"calls":10,"made":1,)"
                           R"("substitute":"cuda.depthwise","substituted":6}]})";
  const std::string key = problem + ":math=tf32";
  const std::vector<TuningRecord> rows = {row(key, "cudnn.eng1", 4e-5), row(key, "cuda.depthwise", 1e-5),
                                          row(key, "cudnn.eng3", 2e-5), row(key, "cuda.reference", 0.5e-5)};
  const KnownTimes known(rows, "9.19.0");
  const ProgramReport report = make_program_report(record_of({kProgramHeader, line}), known, notes);
  const Convolution& convolution = report.convolutions[0];
  EXPECT_EQ(convolution.math.math, MathMode::tf32) << "by the plan that it stood in for";
  const auto name = [&](const std::optional<std::size_t>& index) {
    return index ? convolution.algorithms[*index].candidate : std::string();
  };
  EXPECT_EQ(name(convolution.used), "cuda.depthwise");
  EXPECT_EQ(name(convolution.instead), "cudnn.eng1");
  EXPECT_EQ(name(convolution.best), "cuda.depthwise") << "an oracle is for no program";
  EXPECT_EQ(convolution.algorithms[*convolution.used].in_place_of, "cudnn.eng1");
  EXPECT_NEAR(convolution.seconds, 6 * 1e-5 + 4 * 4e-5, 1e-12);
  EXPECT_NEAR(convolution.gain_taken, 6 * 3e-5, 1e-12);
  EXPECT_NEAR(convolution.gain_not_taken, 4 * 3e-5, 1e-12);
  const std::string text = text_of(report, compare_layouts(report, known, notes), Page());
  EXPECT_NE(text.find("in place of cudnn.eng1"), std::string::npos) << text;
}

// What PyTorch runs itself, and what ran in its place, have no other times than those that were taken in the program.
TEST(ProgramReport, PyTorchsOwnKernelsHaveTheProgramsTimes) {
  const std::string problem = "fprop:x=f32,2x8x5x5,nchw:w=f32,8x1x3x3:y=f32,2x8x5x5,nchw:pad=1x1:groups=8";
  const std::string line = R"({"problem":")" + problem +
                           R"(","operations":"aten::_conv_depthwise2d","device":"NVIDIA H200","calls":10,"plans":[)"
                           R"({"candidate":"torch.depthwise","calls":10,"made":1,"seconds":4e-5,)"
                           R"("substitute":"cuda.depthwise","substituted":6,"substitute_seconds":1e-5}]})";
  const ProgramReport report = make_program_report(record_of({kProgramHeader, line}), KnownTimes(), notes);
  const Convolution& convolution = report.convolutions[0];
  EXPECT_EQ(convolution.timed_calls, 10);
  EXPECT_NEAR(convolution.seconds, 6 * 1e-5 + 4 * 4e-5, 1e-12);
  EXPECT_NEAR(convolution.gain_taken, 6 * 3e-5, 1e-12);
  EXPECT_TRUE(convolution.algorithms[*convolution.used].rough);
}

TEST(ProgramReport, WithoutSteeringNothingWasTaken) {
  std::string line = fprop_line();
  const std::string steered = R"("steered":"cudnn.eng5{k2=-1}",)";
  line.erase(line.find(steered), steered.size());
  const KnownTimes known(database(), "9.19.0");
  const ProgramReport report = make_program_report(record_of({kProgramHeader, line}), known, notes);
  const Convolution& fprop = report.convolutions.at(0);
  EXPECT_EQ(fprop.instead, fprop.used) << "the program's own filters passed eng9 over";
  EXPECT_EQ(fprop.gain_taken, 0);
  EXPECT_EQ(fprop.asked, 0u) << "eng7, whose plan failed";
}

TEST(ProgramReport, TimesAreOfThisDeviceCudnnAndAlignment) {
  const auto fprop = parse_problem(kFprop);
  EXPECT_TRUE(KnownTimes(database(), "9.18.0").find("NVIDIA H200", *fprop, "")->times.size() == 1) << "the own kernel";
  EXPECT_FALSE(KnownTimes(database(), "9.19.0").find("NVIDIA H100", *fprop, ""));
  ConvProblem lower = *fprop;
  lower.x.alignment = 8;
  EXPECT_FALSE(KnownTimes(database(), "9.19.0").find("NVIDIA H200", lower, "")) << "measured at 16 bytes";
  ConvProblem higher = *fprop;
  higher.x.alignment = 32;
  EXPECT_TRUE(KnownTimes(database(), "9.19.0").find("NVIDIA H200", higher, ""));
}

TEST(ProgramReport, OtherLayoutsCountTheirConversions) {
  std::vector<TuningRecord> rows = database();
  const auto fprop = parse_problem(tuned(kFprop));
  ASSERT_TRUE(fprop.ok());
  rows.push_back(row(print(twin_of(*fprop, Layout::nchw)), "cudnn.eng5", 8e-5));
  const KnownTimes known(rows, "9.19.0");
  const ProgramReport report =
      make_program_report(record_of({kProgramHeader, fprop_line(), wgrad_line()}), known, notes);
  const LayoutComparison slow = compare_layouts(report, known, notes, 1e6);  // copies take longer than they save
  EXPECT_NEAR(slow.totals[0].seconds, 8e-4, 1e-12);
  EXPECT_EQ(slow.totals[0].converted, 0);
  EXPECT_NEAR(slow.totals[1].seconds, 1.5e-4, 1e-12) << "eng12 is not permitted";
  EXPECT_NEAR(slow.totals[1].as_it_ran, 2e-4, 1e-12);
  EXPECT_NEAR(slow.totals[1].best_as_it_is, 1.5e-4, 1e-12);
  const LayoutComparison fast = compare_layouts(report, known, notes);  // an H200 copies 4.27 TB/s
  const double bytes = 2.0 * 2 * (2 * 8 * 5 * 5 * 2 + 8 * 8 * 3 * 3);
  EXPECT_NEAR(fast.totals[0].seconds, 10 * (1.5e-5 + bytes / 4.27e12), 1e-12);
  EXPECT_EQ(fast.totals[0].converted, 1);
  EXPECT_EQ(fast.twins.find("fprop:"), std::string::npos) << fast.twins;
  EXPECT_NE(fast.twins.find("4 wgrad:x=bf16,2x8x5x5,nchw"), std::string::npos) << "it was never measured";
}

TEST(ProgramReport, ViewsSayTheSame) {
  const KnownTimes known(database(), "9.19.0");
  const ProgramReport report = make_program_report(
      record_of({kProgramHeader, fprop_line(), wgrad_line(), kProgramNorm, kFailure}), known, notes);
  const LayoutComparison layouts = compare_layouts(report, known, notes);
  const std::string text = text_of(report, layouts, Page());
  for (const char* said : {"2 distinct convolutions, 14 calls", "10 of the calls (71.4%) have a time; they took 200 us",
                           "gain taken 100 us (33.3%", "not taken 50.0 us (25.0%)",
                           "rule pass=dgrad -> cudnn.eng3: matched nothing", "filter: filter notes !FFT",
                           "NORM_FORWARD: 4 calls: no convolution", "1 convolution ran on engines that have no time",
                           "2 calls were captured", "2 descriptors and plans could not be built"}) {
    EXPECT_NE(text.find(said), std::string::npos) << said << "\n" << text;
  }
  for (const std::size_t width : {40u, 80u, 120u}) {
    const std::string narrow = text_of(report, layouts, Page{width, false});
    for (std::size_t at = 0; at < narrow.size();) {
      const std::size_t end = narrow.find('\n', at);
      EXPECT_LE(columns_of(std::string_view(narrow).substr(at, end - at)), width) << narrow;
      at = end + 1;
    }
  }
  const std::string layer = layers_text(report, {2}, Page());
  EXPECT_LT(layer.find("#1 3x3"), layer.find("#2 wgrad")) << "the passes of a layer are shown together:\n" << layer;
  EXPECT_NE(layer.find("ran; put first"), std::string::npos) << layer;
  EXPECT_NE(layer.find("not placed: the program asked for 1 configuration"), std::string::npos) << layer;
  const Json json = to_json(report, layouts);
  EXPECT_EQ(json["convolutions"][0]["best"], "cudnn.eng11{k2=4}");
  EXPECT_EQ(json["convolutions"][1]["seconds"], nullptr);
  EXPECT_EQ(json["failures"][0]["attributes"]["CUDNN_ATTR_TENSOR_DIMENSIONS"][1], 2);
  const std::string page = html_of(report, layouts);
  EXPECT_NE(page.find("--name &#39;&lt;b&gt;&#39;"), std::string::npos) << "what the program says is text";
  EXPECT_EQ(page.find("<b>'"), std::string::npos);
  EXPECT_EQ(page.find("http"), page.find("http-equiv")) << "nothing is fetched from elsewhere";
  EXPECT_NE(page.find("href=\"#c1\""), std::string::npos);
  EXPECT_NE(page.find("<details id=\"c1\">"), std::string::npos);
  EXPECT_EQ(rendered(report, layouts, "r.html"), page);
  EXPECT_EQ(rendered(report, layouts, "r.txt"), text);
}

}  // namespace
}  // namespace convoy::report
