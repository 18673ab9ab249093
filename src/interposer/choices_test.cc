#include "interposer/choices.h"

#include <gtest/gtest.h>

#include <limits>

namespace convoy::interposer {
namespace {

Choices parsed(const std::string& lines) {
  auto choices = Choices::parse("convoy-choices 2\n" + lines);
  EXPECT_TRUE(choices.ok()) << choices.error().message;
  return *std::move(choices);
}

TEST(Choices, AreFoundByDeviceVersionAndProblem) {
  const Choices choices = parsed(
      "time\tNVIDIA H200\t9.19.0\tfprop:a\tcudnn.eng5\t2e-05\ntime\tNVIDIA H200\t9.19.0\tfprop:a\t"
      "cudnn.eng7{k2=1}\t1e-05\n");
  const auto known = choices.find("NVIDIA H200", "9.19.0", "fprop:a");
  ASSERT_EQ(known.size(), 2u);
  EXPECT_EQ(print(known[1].candidate), "cudnn.eng7{k2=1}");
  EXPECT_EQ(known[1].seconds, 1e-5);
  EXPECT_TRUE(choices.find("NVIDIA H100", "9.19.0", "fprop:a").empty());
  EXPECT_TRUE(choices.find("NVIDIA H200", "9.20.0", "fprop:a").empty());
}

TEST(Choices, ALowerAlignmentServesAHigherOne) {
  const auto row = [](const std::string& x, const std::string& w, const char* candidate, const char* seconds) {
    return "time\tg\t9\tfprop:x=f32,2x8,nhwc" + x + ":w=f32,8x8,nhwc" + w + ":pad=1x1\t" + candidate + "\t" + seconds +
           "\n";
  };
  const Choices choices =
      parsed(row(",align=4", "", "cudnn.enga", "3") + row(",align=16", ",align=16", "cudnn.enga", "2") +
             row("", "", "cudnn.enga", "1") + row(",align=8", ",align=8", "cudnn.enga", "9") +
             row(",align=4", ",align=4", "cudnn.engb", "inf"));
  const auto found = [&](const std::string& x, const std::string& w) {
    std::string text;
    for (const auto& known : choices.find("g", "9", "fprop:x=f32,2x8,nhwc" + x + ":w=f32,8x8,nhwc" + w + ":pad=1x1")) {
      text += known.candidate.engine.substr(9) + (known.seconds == 1   ? "1"
                                                  : known.seconds == 2 ? "2"
                                                  : known.seconds == 3 ? "3"
                                                                       : "!");
    }
    return text;
  };
  EXPECT_EQ(found("", ""), "a1") << "the default is 64 bytes";
  EXPECT_EQ(found(",align=32", ",align=32"), "a2");
  EXPECT_EQ(found(",align=16", ""), "a2");
  EXPECT_EQ(found(",align=8", ",align=8"), "a!") << "its own counts before faster ones of lower alignment";
  EXPECT_EQ(found(",align=8", ""), "a3");
  EXPECT_EQ(found(",align=4", ",align=32"), "") << "w was measured at 64";
  EXPECT_EQ(found(",align=4", ",align=4"), "b!") << "and a failure serves its own alignment only";
}

TEST(Choices, LearnTimesLater) {
  Choices choices = parsed("like-benchmark\n");
  EXPECT_TRUE(choices.like_benchmark);
  EXPECT_TRUE(choices.empty()) << "no time, rule or filter";
  EXPECT_TRUE(choices.find("g", "9", "fprop:a").empty());
  ASSERT_TRUE(
      choices.learn("time\tg\t9\tfprop:a\tcudnn.eng5\t2e-05\ntime\tg\t9\tfprop:a\tcuda.depthwise\t1e-05\n").ok());
  EXPECT_EQ(choices.find("g", "9", "fprop:a").size(), 1u);
  EXPECT_EQ(choices.substitutes("g", "9", "fprop:a").size(), 1u);
  EXPECT_TRUE(choices.learn("").ok());
  const auto rule = choices.learn("time\tg\t9\tfprop:b\tcudnn.eng5\t2e-05\nrule\t*\tcudnn.eng5\n");
  ASSERT_FALSE(rule.ok());
  EXPECT_EQ(rule.error().message, "line 2: not a time");
}

TEST(Choices, ATimeIsOfTheMathThatItNames) {
  const Choices choices =
      parsed("time\tg\t9\tfprop:a\tcudnn.legacy.fprop1\t3\ntime\tg\t9\tfprop:a\tcudnn.legacy.fprop1\t1\ttf32\n");
  const auto known = choices.substitutes("g", "9", "fprop:a");
  ASSERT_EQ(known.size(), 2u);
  EXPECT_EQ(known[0].math, MathMode::strict);
  EXPECT_EQ(known[1].math, MathMode::tf32);
  EXPECT_EQ(known[1].seconds, 1);
  const auto wrong = Choices::parse("convoy-choices 2\ntime\tg\t9\tfprop:a\tcudnn.legacy.fprop1\t3\tfast\n");
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message.find("line 2: math 'fast'"), std::string::npos) << wrong.error().message;
}

TEST(Choices, WhatIsNotOfferedIsKnownApart) {
  const Choices choices = parsed(
      "time\tg\t9\tfprop:a\tcudnn.eng5\t3\ntime\tg\t-\tfprop:a\tcuda.depthwise{tile=1}\t1\n"
      "time\tg\t9\tfprop:a\tcudnn.nhwc{engine=3}\t2\ntime\tg\t8\tfprop:a\tcudnn.legacy.fprop1\t1\n");
  EXPECT_EQ(choices.find("g", "9", "fprop:a").size(), 1u);
  const auto known = choices.substitutes("g", "9", "fprop:a");
  ASSERT_EQ(known.size(), 2u) << "cuDNN's of another version do not count, Convoy's own of any";
  EXPECT_EQ(print(known[0].candidate), "cudnn.nhwc{engine=3}");
  EXPECT_EQ(print(known[1].candidate), "cuda.depthwise{tile=1}");
}

TEST(Choices, RulesFiltersAndStrict) {
  const Choices choices = parsed(
      "rule\tpass=wgrad groups>1\tcudnn.eng5{k2=3}\nrule\t*\tcudnn.eng1\nfilter\tengines\tcudnn.*,!cudnn.eng7\n"
      "filter\tdeterministic\nfilter\tnotes\t!FFT\nfilter\tworkspace\t1048576\nfilter\tsm-count\t66\nstrict\n");
  ASSERT_EQ(choices.rules.size(), 2u);
  EXPECT_EQ(choices.rules[0].text, "pass=wgrad groups>1");
  EXPECT_EQ(print(choices.rules[0].candidate), "cudnn.eng5{k2=3}");
  EXPECT_TRUE(choices.strict);
  const Filters& filters = choices.filters;
  EXPECT_EQ(filters.texts[0], "engines cudnn.*,!cudnn.eng7");
  EXPECT_EQ(filters.sm_count, 66);
  EXPECT_EQ(filters.forbids({"cudnn.eng5", {}}, {"TENSOR_CORE"}, 1 << 20), "");
  EXPECT_NE(filters.forbids({"cudnn.eng7", {}}, {}, 0), "");
  EXPECT_EQ(filters.forbids({"cudnn.eng5", {}}, {"NONDETERMINISTIC"}, 0), "deterministic");
  EXPECT_EQ(filters.forbids({"cudnn.eng5", {}}, {"FFT"}, 0), "notes !FFT (FFT)");
  EXPECT_NE(filters.forbids({"cudnn.eng5", {}}, {}, (1 << 20) + 1), "");
  EXPECT_FALSE(parsed("filter\tsm-count\t66\n").filters.choose());
}

TEST(Choices, KnobsFromBeforeTheyHadNamesAreSaid) {
  const auto choices = Choices::parse(
      "convoy-choices 2\n"
      "time\tg\t-\tfprop:a\tcuda.depthwise{tile=300140101}\t1\n"
      "rule\tgroups>1\tcuda.depthwise{tile=300140101}\n"
      "rule\t*\tcudnn.eng5{k2=3}\n");
  ASSERT_TRUE(choices.ok()) << choices.error().message;
  const std::string named = print(choices->rules[0].candidate);
  EXPECT_EQ(named, "cuda.depthwise{columns=1,kernel=planes,rows=14}");
  EXPECT_EQ(choices->remarks,
            (std::vector<std::string>{"line 2: cuda.depthwise{tile=300140101} is written " + named + " now",
                                      "line 3: cuda.depthwise{tile=300140101} is written " + named + " now"}));
}

TEST(Choices, DamagedFilesNameTheLine) {
  const auto says = [](const std::string& text) {
    const auto choices = Choices::parse(text);
    return choices.ok() ? std::string("fine") : choices.error().message;
  };
  const std::string head = "convoy-choices 2\n";
  EXPECT_EQ(says(head), "fine");
  EXPECT_NE(says("").find("line 1"), std::string::npos);
  EXPECT_NE(says("convoy-choices 1\n").find("line 1"), std::string::npos);
  for (const char* line : {"rule\ta", "rule\tcolour=red\tcudnn.eng1", "filter\tsm-count\t0", "filter\tworkspace\tmuch",
                           "filter\tdeterminism", "times", "time\ta\tb\tc\t{\t1"}) {
    EXPECT_NE(says(head + line + "\n").find("line 2"), std::string::npos) << line;
  }
  EXPECT_NE(says(head + "time\ta\tb\tc\tcudnn.eng5\t0\n").find("no time"), std::string::npos);
  EXPECT_NE(says(head + "time\ta\tb\tc\tcudnn.eng5\t1e-5x\n").find("no time"), std::string::npos);
}

}  // namespace
}  // namespace convoy::interposer
