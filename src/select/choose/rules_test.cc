#include "select/choose/rules.h"

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

Error error_of(const char* rules) {
  const auto parsed = parse_rules(rules);
  EXPECT_FALSE(parsed.ok()) << rules;
  return parsed.ok() ? Error{} : parsed.error();
}

TEST(Rules, ErrorsNameTheTerm) {
  EXPECT_NE(error_of("groups=1 colour=red -> a").message.find("'colour' is not a field (convoy list rule-fields"),
            std::string::npos);
  EXPECT_NE(error_of("groups=1 chanels=3 -> a").message.find("'chanels' is not a field; did you mean channels?"),
            std::string::npos);
  EXPECT_NE(error_of("groups=1 nonsense -> a").message.find("'nonsense'"), std::string::npos);
  EXPECT_NE(error_of("groups=1 type>f32 -> a").message.find("type has no order"), std::string::npos);
  EXPECT_NE(error_of("channels>=many -> a").message.find("'many' is not a number"), std::string::npos);
  EXPECT_NE(error_of("channels= -> a").message.find("no value"), std::string::npos);
  EXPECT_NE(error_of("fprop:* dgrad:* -> a").message.find("neither a glob nor terms"), std::string::npos);
  // Rules made by a program are checked as well.
  const SelectionRule rule{"channels>=many", {"a", {}}};
  EXPECT_FALSE(selection::find_rule({&rule, 1}, ConvProblem{}, "").ok());
}

bool matches(const std::string& pattern, const char* problem, const char* node = "") {
  const auto parsed = selection::RulePattern::parse(pattern);
  EXPECT_TRUE(parsed.ok()) << parsed.error().message;
  return parsed->matches(*parse_problem(problem), node);
}

TEST(Rules, TermsCompareTheFieldsOfTheProblem) {
  const char* const p =
      "fprop:x=f32,2x64x56x28,nhwc:w=f32,128x16x3x3,nchw:pad=1x1/0x1:stride=2x2:groups=4:bias=1:act=relu";
  for (const char* yes : {"pass=fprop groups=4 filter=3x3",
                          "pass=fprop|dgrad",
                          "pass!=wgrad",
                          "channels=64 out_channels=128",
                          "batch=2",
                          "group_channels=16",
                          "channels>=64 channels<=64 channels>63 channels<65",
                          "size=56x28",
                          "size=56x*",
                          "size>=28",
                          "out_size<=28",
                          "filter=3",
                          "filter=1x1|3x3",
                          "stride=2",
                          "stride>1",
                          "pad=1x1/0x1",
                          "pad<=1",
                          "dilation=1",
                          "layout=nhwc y_layout=nhwc w_layout=nchw",
                          "type=f32 w_type=f* y_type=f32 compute=f32",
                          "math=strict",
                          "mode=cross",
                          "alpha=1 beta=0 gamma=0",
                          "bias=1 act=relu",
                          "requant=none zp=0,0,0",
                          "spatial=2",
                          "x=f32,2x64x56x28,*",
                          "w=*3x3,nchw",
                          "flops>=1e6 bytes>1000",
                          "fprop:*groups=4*",
                          "*"}) {
    EXPECT_TRUE(matches(yes, p)) << yes;
  }
  for (const char* no :
       {"pass=fprop groups=1", "pass=dgrad|wgrad", "pass!=fprop", "channels=6", "channels<64", "size>=56", "size>28",
        "filter=1x1|5x5", "stride=1", "stride<2", "pad=1x1", "type=f16", "act!=relu", "dgrad:*", "node=*", "node!=x"}) {
    EXPECT_FALSE(matches(no, p)) << no;
  }
  EXPECT_TRUE(matches("node=conv* groups=4", p, "conv7"));
  EXPECT_TRUE(matches("node!=head*", p, "conv7"));
  EXPECT_FALSE(matches("node=conv* groups=1", p, "conv7"));
}

// Every field that the problem string can hold can be asked for by its name there.
TEST(Rules, EveryFieldOfTheProblemStringIsARuleField) {
  ConvProblem problem = *parse_problem("fprop:x=f32,1x8x9x9:w=f32,8x2x3x3:pad=1x1:stride=2x2:dilation=1x2:groups=4");
  problem.mode = ConvMode::convolution;
  problem.compute = DataType::f64;
  problem.math = MathMode::tf32;
  problem.alpha = 2;
  problem.beta = 3;
  problem.epilogue = {.bias = true,
                      .gamma = 2,
                      .activation = {ActivationKind::relu, 0, 0},
                      .requantize = Requantize::per_tensor,
                      .residual = QuantizedResidual{}};
  problem.x_zero_point = 1;
  std::string text = print(problem);
  std::vector<std::string> names;
  for (std::size_t at = text.find(':'); at != std::string::npos; at = text.find(':', at + 1)) {
    names.push_back(text.substr(at + 1, text.find('=', at) - at - 1));
  }
  EXPECT_GE(names.size(), 14u);
  for (const std::string& name : names) {
    EXPECT_TRUE(selection::RulePattern::parse(name + "=1").ok()) << name << " in " << text;
  }
}

TEST(Rules, TheFirstMatchDecides) {
  const auto rules = parse_rules("node=conv* -> a\n*w=f32* -> b\n* -> c\n");
  ASSERT_TRUE(rules.ok());
  const ConvProblem f32 = *parse_problem("fprop:x=f32,1x4x9x9:w=f32,4x4x3x3");
  const ConvProblem f16 = *parse_problem("fprop:x=f16,1x4x9x9:w=f16,4x4x3x3");
  EXPECT_EQ((*selection::find_rule(*rules, f32, "conv7"))->candidate.engine, "a");
  EXPECT_EQ((*selection::find_rule(*rules, f32, ""))->candidate.engine, "b");
  EXPECT_EQ((*selection::find_rule(*rules, f16, "x"))->candidate.engine, "c");
  EXPECT_EQ(*selection::find_rule({}, f32, "x"), nullptr);
}

}  // namespace
}  // namespace convoy
