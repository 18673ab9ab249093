#include "select/choose/names.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "convoy/selection.h"
#include "convoy/selection_check.h"
#include "core/declared_names.h"
#include "select/choose/glob.h"

namespace convoy {
namespace {

std::string error_of(const Result<void>& result) { return result.ok() ? "" : result.error().message; }

std::string filter_error(const std::string& engines, const std::string& notes = "*") {
  SelectionFilter filter;
  filter.engines = engines;
  filter.notes = notes;
  return error_of(check_names(filter, all_engines()));
}

void expect_within(const std::string& what, const std::string& text) {
  EXPECT_NE(text.find(what), std::string::npos) << text;
}

TEST(Names, EveryEntryOfAListOfEnginesMatchesOne) {
  for (const char* right : {"*", "", "cpu.*,!cpu.winograd", "cpu.gemm,cudnn.*", "reference", "!onednn.ref"}) {
    EXPECT_EQ(filter_error(right), "") << right;
  }
  expect_within("engines: 'cpu.gem' matches no engine; did you mean cpu.gemm? (convoy list engines shows all)",
                filter_error("cpu.gem"));
  expect_within("'cpu.winogard' matches no engine; did you mean cpu.winograd?", filter_error("*,!cpu.winogard"));
  expect_within("did you mean onednn.*?", filter_error("onedn.*"));
  for (const char* right : {"cpu.nhwc{engine=cpu.winograd,m=4}", "!*{engine=*winograd*},cpu.gemm", "cudnn.eng*{k2=1}",
                            "cpu.winograd{m=?}"}) {
    EXPECT_EQ(filter_error(right), "") << right;
  }
  expect_within("engines: cpu.nhwc: knob engine has no value 'cpu.winogard'; did you mean cpu.winograd?",
                filter_error("cpu.nhwc{engine=cpu.winogard}"));
  expect_within("cpu.winograd has no knob 'tile'", filter_error("cpu.gemm,cpu.winograd{tile=2}"));
  expect_within("'cpu.nhwc{m=4' does not end in '}'", filter_error("cpu.nhwc{m=4"));
  expect_within("'m' is not KNOB=VALUE", filter_error("cpu.winograd{m}"));
  EXPECT_LT(filter_error("cpu.unicorn").size(), 200U);  // not every engine's name
}

TEST(Names, EveryEntryOfAListOfNotesMatchesOne) {
  for (const char* right : {"*", "!WINOGRAD", "!WINOGRAD,!FFT", "!TENSOR_CORE", "!TF32", "!NOTE_12", "!*COMPILATION"}) {
    EXPECT_EQ(filter_error("*", right), "") << right;
  }
  expect_within("notes: 'WINOGARD' matches no note; did you mean WINOGRAD?", filter_error("*", "!WINOGARD"));
  expect_within("'nosuch' matches no note; there are ", filter_error("*", "nosuch"));
  expect_within("TRANSFORMED_WEIGHTS", filter_error("*", "nosuch"));
}

std::string rules_error(std::string_view text) {
  const auto rules = parse_rules(text, all_engines());
  return rules.ok() ? "" : rules.error().message;
}

TEST(Names, RulesAreCheckedWhenTheyAreRead) {
  EXPECT_EQ(rules_error("node=x -> cpu.winograd{m=4}\n* -> cudnn.eng3{k2=7}\n* -> onednn.ref\n"), "");
  EXPECT_EQ(rules_error("* -> cpu.gem\n"),
            "rules line 1: engine 'cpu.gem' does not exist; did you mean cpu.gemm? (convoy list engines shows all)");
  EXPECT_EQ(rules_error("\n* -> cpu.gemm{tiel=12}\n"),
            "rules line 2: cpu.gemm has no knob 'tiel'; it has positions, channel_vectors, channels, position_vectors");
  EXPECT_EQ(rules_error("* -> cpu.gemm{position=12}\n"),
            "rules line 1: cpu.gemm has no knob 'position'; did you mean positions?");
  EXPECT_EQ(rules_error("* -> cuda.depthwise{kernel=patches}\n"),
            "rules line 1: cuda.depthwise: knob kernel has no value 'patches'; did you mean patch?");
  EXPECT_EQ(rules_error("* -> cuda.depthwise{kernel=2}\n"),
            "rules line 1: cuda.depthwise: knob kernel has no value '2'; it has general, patch, rolling, planes, mma, "
            "plane_bands, pixel_bands, signal");
  EXPECT_EQ(rules_error("* -> cpu.winograd{m=four}\n"), "rules line 1: cpu.winograd: knob m is a number, not 'four'");
  EXPECT_EQ(rules_error("* -> cpu.gemm{tile=142}\n* -> cuda.depthwise{tile=600562232}\n"), "")
      << "as it was written before";
  EXPECT_EQ(rules_error("* -> reference{tile=12}\n"), "rules line 1: reference has no knobs, so no 'tile'");
  EXPECT_TRUE(parse_rules("* -> somebodys.engine\n").ok());  // without engines only the form is checked
}

// Otherwise rules and filters that are right would be refused.
TEST(Names, EnginesDeclareTheKnobsAndNotesThatTheyHave) {
  PlanRequest request;
  request.cpu = cpu_features();
  int knobs = 0, notes = 0;
  for (const char* text :
       {"fprop:x=f32,1x32x14x14,nhwc:w=f32,32x32x3x3:pad=1x1", "fprop:x=f32,1x32x14x14:w=f32,32x32x3x3:pad=1x1",
        "fprop:x=f32,1x32x14x14,nhwc:w=f32,32x1x3x3:pad=1x1:groups=32", "fprop:x=f16,1x32x9x9,nhwc:w=f16,32x32x1x1",
        "fprop:x=f32,1x32x14x14,nhwc:w=f32,32x32x3x3:pad=1x1:math=tf32",
        "fprop:x=f32,1x32x14x14,nhwc:w=f32,32x32x3x3:pad=1x1:math=reduced",
        "fprop:x=u8,1x32x14x14,nhwc:w=s8,32x32x3x3:y=s32,1x32x14x14,nhwc:pad=1x1:compute=s32",
        "dgrad:x=f32,1x32x14x14,nhwc:w=f32,32x32x3x3:y=f32,1x32x14x14,nhwc:pad=1x1",
        "wgrad:x=f32,1x32x14x14,nhwc:w=f32,32x32x3x3:y=f32,1x32x14x14,nhwc:pad=1x1"}) {
    const auto problem = parse_problem(text);
    ASSERT_TRUE(problem.ok()) << text << ": " << problem.error().message;
    for (const EngineAnswer& answer : list_candidates(*problem, all_engines(), request)) {
      if (answer.refusal) continue;
      const std::vector<DeclaredKnob> declared = declared_knobs_of(*answer.engine);
      const std::vector<std::string> declared_notes = note_names_of(*answer.engine);
      for (const Knob& knob : answer.configurations.knobs) {
        ++knobs;
        const auto own = std::find_if(declared.begin(), declared.end(),
                                      [&](const DeclaredKnob& each) { return each.name == knob.name; });
        ASSERT_NE(own, declared.end()) << answer.engine->info().name << " has the knob " << knob.name;
        for (const KnobSetting& value : knob.values) {
          EXPECT_EQ(std::find(own->words.begin(), own->words.end(), print(value)) != own->words.end(),
                    value.word() != nullptr)
              << answer.engine->info().name << " sets " << knob.name << " to " << print(value);
        }
      }
      for (const std::string& note : answer.engine->notes(*problem, answer.default_candidate.knobs, request)) {
        ++notes;
        EXPECT_NE(std::find(declared_notes.begin(), declared_notes.end(), note), declared_notes.end())
            << answer.engine->info().name << " has the note " << note;
      }
    }
  }
  EXPECT_GT(knobs, 10);
  EXPECT_GT(notes, 10);
}

TEST(Names, RuleUsesCountMatchesAndDecisions) {
  const auto rules = parse_rules("node=head* -> a\nfprop:* -> b\nfilter=3x3 -> c\nnode=tial -> d\n");
  ASSERT_TRUE(rules.ok());
  const ConvProblem conv = *parse_problem("fprop:x=f32,1x4x9x9:w=f32,4x4x3x3");
  const std::vector<ConvolutionNode> nodes = {{conv, "head"}, {conv, "body"}, {conv, "tail"}};
  const auto uses = rule_uses(*rules, nodes);
  ASSERT_TRUE(uses.ok());
  const auto pair = [&](std::size_t i) { return std::pair((*uses)[i].matched, (*uses)[i].decided); };
  EXPECT_EQ(pair(0), std::pair(std::int64_t{1}, std::int64_t{1}));
  EXPECT_EQ(pair(1), std::pair(std::int64_t{3}, std::int64_t{2}));
  EXPECT_EQ(pair(2), std::pair(std::int64_t{3}, std::int64_t{0}));
  EXPECT_EQ(pair(3), std::pair(std::int64_t{0}, std::int64_t{0}));
  const SelectionRule broken{"channels>=many", {"a", {}}};
  EXPECT_FALSE(rule_uses({&broken, 1}, nodes).ok());
}

}  // namespace
}  // namespace convoy
