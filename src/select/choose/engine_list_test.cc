#include "select/choose/engine_list.h"

#include <gtest/gtest.h>

#include "convoy/selection.h"

namespace convoy::selection {
namespace {

bool matches(std::string_view list, std::string_view candidate) {
  const Candidate parsed = *parse_candidate(candidate);
  const bool does = engine_list_matches(list, parsed.engine, parsed.knobs);
  EXPECT_TRUE(!does || engine_list_may_match(list, parsed.engine)) << list << " " << candidate;
  return does;
}

TEST(EngineList, NamesWithoutBracesAreOfAllCandidates) {
  EXPECT_TRUE(matches("cpu.*,!cpu.winograd", "cpu.direct{positions=4}"));
  EXPECT_FALSE(matches("cpu.*,!cpu.winograd", "cpu.winograd{m=4}"));
  EXPECT_TRUE(matches("!cpu.*,cpu.gemm", "cpu.gemm"));
  EXPECT_FALSE(matches("!cpu.*", "cpu.gemm"));
  EXPECT_TRUE(matches("", "cpu.gemm"));
  EXPECT_FALSE(matches("onednn.*", "cpu.gemm"));
}

TEST(EngineList, ACandidateHasAllKnobsThatAreNamed) {
  const char* winograd = "cpu.nhwc{engine=cpu.winograd,m=4}";
  EXPECT_TRUE(matches("cpu.nhwc{engine=cpu.winograd}", winograd));
  EXPECT_TRUE(matches("cpu.nhwc{m=4,engine=cpu.winograd}", winograd));
  EXPECT_TRUE(matches("cpu.gemm,*{engine=*wino*,m=?}", winograd));
  EXPECT_FALSE(matches("cpu.nhwc{engine=cpu.winograd,m=2}", winograd));
  EXPECT_FALSE(matches("cpu.nhwc{engine=cpu.direct}", winograd));
  EXPECT_FALSE(matches("cpu.in_f32{engine=cpu.winograd}", winograd));
  EXPECT_FALSE(matches("cpu.nhwc{wino*}", winograd));
  EXPECT_FALSE(matches("cpu.nhwc{engine=cpu.winograd", winograd));
  EXPECT_FALSE(matches("!cpu.nhwc{engine=cpu.winograd}", winograd));
  EXPECT_TRUE(matches("!cpu.nhwc{engine=cpu.winograd}", "cpu.nhwc{engine=cpu.direct,positions=4}"));
  EXPECT_TRUE(matches("!cpu.nhwc{engine=cpu.winograd,m=2},cpu.gemm", winograd));
}

TEST(EngineList, WhatIsExcludedRunsInNoOtherEngineEither) {
  const char* winograd = "cpu.nhwc{engine=cpu.winograd,m=4}";
  EXPECT_FALSE(matches("!*winograd*", winograd));
  EXPECT_FALSE(matches("*,!cpu.winograd", winograd));
  EXPECT_TRUE(matches("!*winograd*", "cpu.nhwc{engine=cpu.direct}"));
  EXPECT_TRUE(matches("!cpu.winograd,cpu.nhwc", winograd));
  EXPECT_FALSE(matches("cpu.winograd", winograd));
}

TEST(EngineList, CudnnsEnginesAreNumbersInsideOfAnother) {
  EXPECT_FALSE(matches("!cudnn.eng62", "cudnn.nhwc{engine=62}"));
  EXPECT_FALSE(matches("cudnn.*,!cudnn.eng6?", "cudnn.nhwc{engine=62}"));
  EXPECT_TRUE(matches("!cudnn.eng62", "cudnn.nhwc{engine=6}"));
  EXPECT_TRUE(matches("!cudnn.eng62{k2=4}", "cudnn.nhwc{engine=62}"));
  EXPECT_TRUE(matches("!onednn.*,!cpu.eng62", "cudnn.nhwc{engine=62}"));
  EXPECT_FALSE(matches("cudnn.eng62", "cudnn.nhwc{engine=62}"));
}

TEST(EngineList, ItsNameTellsWhetherAnyCandidateMay) {
  EXPECT_TRUE(engine_list_may_match("cpu.nhwc{m=4}", "cpu.nhwc"));
  EXPECT_FALSE(engine_list_may_match("cpu.nhwc{m=4}", "cpu.winograd"));
  EXPECT_TRUE(engine_list_may_match("!cpu.nhwc{m=4}", "cpu.nhwc"));
  EXPECT_FALSE(engine_list_may_match("cpu.nhwc{m=4},!cpu.*", "cpu.nhwc"));
  EXPECT_TRUE(engine_list_may_match("", "cpu.nhwc"));
}

TEST(EngineList, OnlyWhatIsSpelledOutIsNamed) {
  EXPECT_TRUE(engine_list_names("*,onednn.ref", "onednn.ref"));
  EXPECT_TRUE(engine_list_names("cpu.nhwc{m=4,positions=2},onednn.ref", "onednn.ref"));
  EXPECT_FALSE(engine_list_names("onednn.*,!onednn.ref", "onednn.ref"));
  EXPECT_FALSE(engine_list_names("onednn.reference", "onednn.ref"));
  EXPECT_FALSE(engine_list_names("", "onednn.ref"));
}

// With real engines: cpu.nhwc's default is predicted to be Winograd's here, which a filter may leave out or ask for.
class NamedCandidates : public ::testing::Test {
 protected:
  std::string chosen(const std::string& engines, SelectionMode mode = SelectionMode::heuristic) {
    SelectionOptions options;
    options.filter.engines = engines;
    options.mode = mode;
    options.budget_seconds = mode == SelectionMode::measured ? 0.2 : 0;
    const auto selection = select(problem_, all_engines(), options, {});
    if (!selection.ok()) return selection.error().message;
    const auto best = predict_best(problem_, all_engines(), options.filter, {});
    EXPECT_TRUE(mode == SelectionMode::measured || (best && best->candidate == selection->candidate)) << engines;
    for (const Measurement& m : selection->measurements) {
      EXPECT_TRUE(engine_list_matches(engines, m.candidate.engine, m.candidate.knobs)) << print(m.candidate);
    }
    return print(selection->candidate);
  }

  ConvProblem problem_ = *parse_problem("fprop:x=f32,1x32x28x28:w=f32,32x32x3x3:pad=1x1");
};

TEST_F(NamedCandidates, AFilterTakesThemByTheirWholeName) {
  EXPECT_EQ(chosen("cpu.nhwc{engine=cpu.winograd,m=2}"), "cpu.nhwc{engine=cpu.winograd,m=2}");
  EXPECT_EQ(chosen("cpu.nhwc{engine=cpu.winograd,m=2}", SelectionMode::measured), "cpu.nhwc{engine=cpu.winograd,m=2}");
  EXPECT_TRUE(chosen("cpu.nhwc{engine=cpu.direct}").find("engine=cpu.direct") != std::string::npos);
  const std::string other = chosen("cpu.nhwc,!cpu.winograd");
  EXPECT_TRUE(other.starts_with("cpu.nhwc{") && other.find("winograd") == std::string::npos) << other;
  const std::string four = chosen("cpu.nhwc{m=4},!cpu.nhwc{engine=cpu.winograd}");
  EXPECT_NE(four.find("this candidate is not among them"), std::string::npos) << four;
}

TEST_F(NamedCandidates, ALayoutsRefusalNamesTheOneThatCopies) {
  const std::string around = "; cpu.nhwc{engine=cpu.winograd} runs it on copies";
  const std::string nobody = chosen("cpu.winograd");
  EXPECT_NE(nobody.find(around), std::string::npos) << nobody;
  SelectionOptions options;
  options.rules = {{"*", {"cpu.winograd", {}}}};
  const auto refused = select(problem_, all_engines(), options, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find(around), std::string::npos) << refused.error().message;
}

}  // namespace
}  // namespace convoy::selection
