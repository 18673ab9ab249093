#include "select/rules.h"

#include <gtest/gtest.h>

namespace convoy {
namespace {

TEST(Rules, ParsesPatternsCandidatesAndComments) {
  const auto rules =
      parse_rules("# tuned by hand\n\n fprop:*64x64x3x3* -> cpu.winograd{m=2}  # small\nnode=conv1 -> cpu.direct\n");
  ASSERT_TRUE(rules.ok()) << rules.error().message;
  ASSERT_EQ(rules->size(), 2u);
  EXPECT_EQ((*rules)[0].pattern, "fprop:*64x64x3x3*");
  EXPECT_EQ(print((*rules)[0].candidate), "cpu.winograd{m=2}");
  EXPECT_EQ((*rules)[1].candidate.engine, "cpu.direct");
}

TEST(Rules, ErrorsNameTheLine) {
  const auto no_arrow = parse_rules("a -> b\nnonsense\n");
  ASSERT_FALSE(no_arrow.ok());
  EXPECT_NE(no_arrow.error().message.find("line 2"), std::string::npos);
  EXPECT_EQ(no_arrow.error().code, ErrorCode::invalid_argument);
  const auto bad_candidate = parse_rules("\n\nx -> cpu.direct{m\n");
  ASSERT_FALSE(bad_candidate.ok());
  EXPECT_NE(bad_candidate.error().message.find("line 3"), std::string::npos);
  EXPECT_FALSE(parse_rules("-> cpu.direct").ok());
}

TEST(Rules, TheFirstMatchDecides) {
  const auto rules = parse_rules("node=conv* -> a\n*w=f32* -> b\n* -> c\n");
  ASSERT_TRUE(rules.ok());
  EXPECT_EQ(selection::find_rule(*rules, "fprop:w=f32,1x1", "conv7")->candidate.engine, "a");
  EXPECT_EQ(selection::find_rule(*rules, "fprop:w=f32,1x1", "")->candidate.engine, "b");
  EXPECT_EQ(selection::find_rule(*rules, "dgrad", "x")->candidate.engine, "c");
  EXPECT_EQ(selection::find_rule({}, "dgrad", "x"), nullptr);
}

}  // namespace
}  // namespace convoy
