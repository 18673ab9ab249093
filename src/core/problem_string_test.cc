#include <gtest/gtest.h>

#include <cstdio>
#include <set>
#include <string>

#include "base/environment.h"
#include "convoy/convolution.h"
#include "core/testing/random_problem.h"
#include "core/text.h"

namespace convoy {
namespace {

using testing::Random;

std::string canonical(std::string_view text) {
  const auto p = parse_problem(text);
  return p.ok() ? print(*p) : "error: " + p.error().message;
}

TEST(ProblemString, Canonical) {
  const std::string full = "fprop:x=f32,1x64x56x56,nhwc:w=f32,64x64x3x3,nchw:y=f32,1x64x56x56,nhwc:pad=1x1";
  EXPECT_EQ(canonical(full), full);
  EXPECT_EQ(canonical("fprop:x=f32,1x64x56x56,nhwc:w=f32,64x64x3x3,nchw:y=f32,1x64x56x56,nhwc:pad=1x1:stride=1x1"),
            full);
  EXPECT_EQ(canonical("fprop:x=f32,1x64x56x56,nhwc:w=f32,64x64x3x3:pad=1x1/1x1"), full);
  EXPECT_EQ(canonical(" fprop:pad=1x1:w=f32,64x64x3x3:x=f32,1x64x56x56,nhwc:compute=f32\n"), full);
  const std::string every =
      "fprop:x=u8,2x8x9,strides=72x1x8,block=8,align=16:w=s8,4x4x3,ncw:y=s8,2x4x3,nwc:pad=1/0:stride=2:dilation=2:"
      "groups=2:mode=conv:math=reduced:alpha=0.1:beta=-2:bias=1:gamma=1e-30:act=clip,0,6:requant=channel:zp=1,-2,3";
  EXPECT_EQ(canonical(every), every);
  const std::string residual =
      "fprop:x=u8,1x4x4,nwc:w=s8,4x4x1,ncw:y=u8,1x4x4,nwc:requant=tensor:residual=0.7,121,1.25,3:zp=0,0,9";
  EXPECT_EQ(canonical(residual), residual);
  EXPECT_EQ(canonical("dgrad:w=f16,8x4x5:y=f16,1x8x17,nwc:stride=3:groups=2"),
            "dgrad:x=f16,1x8x53,nwc:w=f16,8x4x5,ncw:y=f16,1x8x17,nwc:stride=3:groups=2");
  EXPECT_EQ(canonical("fprop:x=s8,1x4x4:w=s8,4x4x1"), "fprop:x=s8,1x4x4,ncw:w=s8,4x4x1,ncw:y=s32,1x4x4,ncw");
  EXPECT_EQ(canonical("fprop:x=f64,1x1x2x2x2:w=f64,1x1x1x1x1:act=swish"),
            "fprop:x=f64,1x1x2x2x2,ncdhw:w=f64,1x1x1x1x1,ncdhw:y=f64,1x1x2x2x2,ncdhw:act=swish,1");
}

// What a layer's x and w say is enough for its three passes; of wgrad, whose w is computed, also x, y and the filter's
// size.
TEST(ProblemString, OneTensorMayBeLeftOut) {
  const std::string layer = "x=f32,8x64x57x56,nhwc:w=f32,96x32x3x3,nchw:";
  const std::string rest = "pad=1x1/0x1:stride=2x2:groups=2";
  for (const std::string pass : {"fprop:", "dgrad:", "wgrad:"}) {
    EXPECT_EQ(canonical(pass + layer + rest), pass + layer + "y=f32,8x96x28x28,nhwc:" + rest);
  }
  EXPECT_EQ(canonical("wgrad:x=f32,8x64x57x56,nhwc:y=f32,8x96x28x28,nhwc:filter=3x3:" + rest),
            "wgrad:" + layer + "y=f32,8x96x28x28,nhwc:" + rest);
  // The inputs of a pass share their type; what it computes may have another.
  EXPECT_EQ(canonical("wgrad:x=bf16,1x4x8x8:w=f32,4x4x1x1"),
            "wgrad:x=bf16,1x4x8x8,nchw:w=f32,4x4x1x1,nchw:y=bf16,1x4x8x8,nchw");
  EXPECT_EQ(canonical("dgrad:x=f32,1x4x8x8:w=bf16,4x4x1x1"),
            "dgrad:x=f32,1x4x8x8,nchw:w=bf16,4x4x1x1,nchw:y=bf16,1x4x8x8,nchw");
  EXPECT_EQ(canonical("wgrad:x=f64,1x4x8x8:y=f64,1x8x8x8:filter=1x1"),
            "wgrad:x=f64,1x4x8x8,nchw:w=f64,8x4x1x1,nchw:y=f64,1x8x8x8,nchw");
}

TEST(ProblemString, NeedsNoShellQuoting) {
  Random random(5);
  for (int i = 0; i < 5000; ++i) {
    const std::string text = print(testing::random_problem(random));
    ASSERT_EQ(text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_:=,./+-"), std::string::npos) << text;
  }
}

TEST(ProblemString, ErrorsNameTheField) {
  const std::string x = "fprop:x=f32,1x4x8x8:w=f32,4x4x3x3";
  EXPECT_EQ(canonical(""), "error: pass '' is not one of fprop, dgrad, wgrad");
  EXPECT_EQ(canonical("fprop"), "error: field 'x' is missing");
  EXPECT_EQ(canonical("fprop:x=f32,1x4x8x8:y=f32,1x4x8x8"), "error: field 'w' is missing");
  EXPECT_EQ(canonical("dgrad:w=f32,4x4x3x3"), "error: fields 'x' and 'y' are missing: one is needed");
  EXPECT_EQ(canonical("wgrad:y=f32,1x4x8x8:w=f32,4x4x3x3"), "error: field 'x' is missing");
  EXPECT_EQ(canonical("wgrad:x=f32,1x4x8x8:y=f32,1x4x8x8"),
            "error: field 'w' is missing (or filter, its spatial sizes, and y)");
  EXPECT_EQ(canonical("wgrad:x=f32,1x4x8x8:filter=3x3"),
            "error: field 'y' is missing: filter doesn't say how many filters w has");
  EXPECT_EQ(canonical(x + ":filter=3x3"), "error: filter: w is given, which says the filter's sizes");
  EXPECT_EQ(canonical("fprop:x=f32,1x4x8x8:y=f32,1x4x8x8:filter=3x3"),
            "error: filter: it is for wgrad, where w is computed; give w");
  EXPECT_EQ(canonical("wgrad:x=f32,1x4x8x8:y=f32,1x4x8x8:filter=3"),
            "error: filter=3 has 1 sizes, x.dims=1x4x8x8 has 2 spatial dims");
  EXPECT_EQ(canonical("wgrad:x=f32,1x4x8x8:y=f32,1x4x8x8:filter=3x3"),
            "error: y.dims[2]=8 does not match x.dims[2]=8, w.dims[2]=3, pad=0/0, stride=1, dilation=1, which give 6");
  EXPECT_EQ(canonical("wgrad:x=f32,1x4x8x8:y=f32,1x4x8x8:filter=1x1:groups=0"), "error: groups=0 is less than 1");
  EXPECT_EQ(canonical("wgrad:x=f32,1x4x8x8:y=f32,1x4x8x8:filter=1x1:groups=3"),
            "error: groups=3 does not divide x.dims[1]=4");
  EXPECT_EQ(canonical("fprop:x"), "error: field 'x' has no '='");
  EXPECT_EQ(canonical(x + ":pad=1x1:pad=0x0"), "error: field 'pad' is given twice");
  EXPECT_EQ(canonical(x + ":pad=1xa"), "error: pad: 'a' is not an integer");
  EXPECT_EQ(canonical(x + ":pad=1x1/1x1/1x1"), "error: pad: '1x1/1x1/1x1' is not PRE or PRE/POST");
  EXPECT_EQ(canonical(x + ":pad=1"), "error: pad=1: 1 value for 2 spatial dims; write pad=1x1");
  EXPECT_EQ(canonical(x + ":pad=1x1/1"), "error: pad=1: 1 value for 2 spatial dims; write pad=1x1");
  EXPECT_EQ(canonical(x + ":stride=2"), "error: stride=2: 1 value for 2 spatial dims; write stride=2x2");
  EXPECT_EQ(canonical(x + ":dilation=1x2x3"), "error: dilation=1x2x3: 3 values for 2 spatial dims");
  EXPECT_EQ(canonical(x + ":alpha=1,5"), "error: alpha: '1,5' is not a number");
  EXPECT_EQ(canonical(x + ":alpha=1e999"), "error: alpha: '1e999' is out of range");
  EXPECT_EQ(canonical(x + ":groups=99999999999999999999"), "error: groups: '99999999999999999999' is out of range");
  EXPECT_EQ(canonical(x + ":act=clip,0"), "error: act: clip has 2 parameters, 1 given");
  EXPECT_EQ(canonical(x + ":residual=1,2,3"), "error: residual: '1,2,3' is not SCALE,ZERO,Z_SCALE,Z_ZERO");
  EXPECT_EQ(canonical(x + ":residual=1,0.5,1,0"), "error: residual: '0.5' is not an integer");
  EXPECT_EQ(canonical(x + ":zp=1,2"), "error: zp: '1,2' is not X,W,Y");
  EXPECT_EQ(canonical(x + ":zp=1,2,4294967296"), "error: zp: '4294967296' is out of range");
  EXPECT_EQ(canonical(x + ":zp=1,2,given").substr(0, 9), "error: zp");
  EXPECT_EQ(canonical("fprop:x=f31,1x4"), canonical("fprop:x=f31"));
  EXPECT_EQ(canonical("fprop:x=f32"), "error: x: the dims are missing: TYPE,DIMS,LAYOUT is wanted, 'f32' given");
  EXPECT_EQ(canonical("fprop:x=f32,1x4x8x8,nchw,nhwc"), "error: x: a second layout, 'nhwc', is given");
  EXPECT_EQ(canonical("fprop:x=f32,1x4x8x8,block=8"), "error: x: block=8 goes with strides=... only");
  EXPECT_EQ(canonical("fprop:x=f32,1x4x8x8,align=8,align=8"), "error: x: align is given twice");
  EXPECT_EQ(canonical("fprop:x=f32,1x4x8x8,align=9:w=f32,4x4x3x3"), "error: x.alignment=9 is not a power of two");
  EXPECT_EQ(canonical("fprop:x=f32,1x4x8x8,strides=1x2:w=f32,4x4x3x3"),
            "error: x has 4 dims (1x4x8x8) and 2 strides (1x2)");
  // Hostile texts are quoted in part and without control characters.
  EXPECT_EQ(canonical("fprop:\x1b[2J=1").find('\x1b'), std::string::npos);
  EXPECT_LT(canonical(std::string(1 << 20, 'a')).size(), 200u);
  EXPECT_LT(canonical("fprop:x=f32,1" + std::string(1 << 18, 'x')).size(), 200u);
  std::string many = "1";
  for (int i = 0; i < 100000; ++i) many += "x1";
  EXPECT_LT(canonical("fprop:x=f32," + many + ":w=f32,1x1x1").size(), 200u);
  EXPECT_LT(canonical("fprop:x=f32,1x1x1:w=f32,1x1x1:pad=" + many).size(), 200u);
}

TEST(ProblemString, RandomProblemsRoundTrip) {
  Random random(6);
  const int count = environment(Variable::test_full) ? 1000000 : 200000;
  for (int i = 0; i < count; ++i) {
    const ConvProblem p = testing::random_problem(random);
    const std::string text = print(p);
    const auto parsed = parse_problem(text);
    ASSERT_TRUE(parsed.ok()) << text << "\n" << parsed.error().message;
    ASSERT_EQ(*parsed, p) << text;
    if (i % 16 == 0) {
      ASSERT_EQ(print(*parsed), text);
    }
  }
  std::printf("%d random problems: parse(print(p)) == p\n", count);
}

// Different problems have different strings: the string is the key of everything stored.
TEST(ProblemString, IsInjective) {
  Random random(7);
  std::set<std::string> texts;
  std::vector<ConvProblem> problems;
  for (int i = 0; i < 2000; ++i) {
    const ConvProblem p = testing::random_problem(random);
    const bool is_new = std::find(problems.begin(), problems.end(), p) == problems.end();
    ASSERT_EQ(texts.insert(print(p)).second, is_new) << print(p);
    problems.push_back(p);
  }
}

TEST(ProblemString, MutatedStringsNeverCrash) {
  Random random(8);
  int accepted = 0;
  for (int i = 0; i < 100000; ++i) {
    const std::string text = testing::mutated(random, print(testing::random_problem(random)));
    const auto parsed = parse_problem(text);
    if (!parsed.ok()) {
      ASSERT_FALSE(parsed.error().message.empty()) << text;
      continue;
    }
    ++accepted;
    ASSERT_TRUE(validate(*parsed).ok()) << text;
    const auto again = parse_problem(print(*parsed));
    ASSERT_TRUE(again.ok()) << text;
    ASSERT_EQ(*again, *parsed) << text;
  }
  EXPECT_GT(accepted, 1000);  // else the mutations would test only the first check
}

TEST(Text, Numbers) {
  EXPECT_EQ(*parse_integer("-9223372036854775808"), INT64_MIN);
  EXPECT_FALSE(parse_integer("9223372036854775808").ok());
  for (const char* bad : {"", " 1", "1 ", "+1", "0x1", "1.0", "--1"}) EXPECT_FALSE(parse_integer(bad).ok()) << bad;
  EXPECT_EQ(*parse_double(print_double(0.1)), 0.1);
  EXPECT_EQ(print_double(0.1), "0.1");
  EXPECT_EQ(print_double(6), "6");
  EXPECT_EQ(*parse_double(print_double(5e-324)), 5e-324);
  EXPECT_FALSE(parse_double("1f").ok());
}

}  // namespace
}  // namespace convoy
