// A split problem, run piece by piece by the oracle, must give what the oracle makes of the whole.
#include "engines/cudnn/split.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "convoy/thread_team.h"
#include "engines/reference/reference.h"
#include "engines/testing/problem_of.h"

namespace convoy::cudnn {
namespace {

using convoy::testing::problem_of;

std::vector<float> numbers(std::int64_t count, int seed) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::uint32_t state = static_cast<std::uint32_t>(seed) * 2654435761u + 1;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(static_cast<int>(state >> 28) - 8);  // small integers: sums are exact in any order
  }
  return values;
}

void run(const ConvProblem& problem, const ConvArgs& args) {
  const auto team = make_cpu_team(1);
  const auto plan = reference_engine().plan(problem, {}, {});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  std::vector<std::byte> workspace((*plan)->workspace_bytes() + 64);
  ExecContext context{*team};
  context.workspace = workspace.data();
  context.workspace_bytes = workspace.size();
  const auto done = (*plan)->execute(args, context);
  ASSERT_TRUE(done.ok()) << done.error().message;
}

// Splits so that no tensor has more than `most` elements, and compares.
void expect_same(const std::string& text, std::int64_t most, std::size_t least_pieces) {
  SCOPED_TRACE(text);
  const ConvProblem problem = problem_of(text);
  const auto pieces = split(problem, most);
  ASSERT_TRUE(pieces.ok()) << pieces.error().message;
  EXPECT_GE(pieces->size(), least_pieces);
  const std::vector<float> x = numbers(problem.x.storage_elements(), 1);
  const std::vector<float> w = numbers(problem.w.storage_elements(), 2);
  const std::vector<float> y = numbers(problem.y.storage_elements(), 3);
  const std::vector<float> z = numbers(problem.out().storage_elements(), 4);
  const std::vector<float> bias = numbers(problem.x.dims[1] + problem.w.dims[0], 5);
  std::vector<float> whole = numbers(problem.out().storage_elements(), 6);
  std::vector<float> parts = whole;
  run(problem, {.x = x.data(), .w = w.data(), .y = y.data(), .out = whole.data(), .bias = bias.data(), .z = z.data()});
  for (const SubProblem& piece : *pieces) {
    SCOPED_TRACE(piece.where + " " + print(piece.problem));
    ASSERT_TRUE(validate(piece.problem).ok()) << validate(piece.problem).error().message;
    EXPECT_LE(piece.problem.x.storage_elements(), most);
    EXPECT_LE(piece.problem.w.storage_elements(), most);
    EXPECT_LE(piece.problem.y.storage_elements(), most);
    const std::int64_t out = problem.pass == Pass::fprop ? piece.y : problem.pass == Pass::dgrad ? piece.x : piece.w;
    run(piece.problem, {.x = x.data() + piece.x,
                        .w = w.data() + piece.w,
                        .y = y.data() + piece.y,
                        .out = parts.data() + out,
                        .bias = bias.data() + piece.channel,
                        .z = z.data() + out});
  }
  EXPECT_EQ(whole, parts);
}

TEST(Split, LeavesAloneWhatIsSmallEnough) {
  const auto pieces = split(problem_of("fprop:x=f32,2x4x9x9:w=f32,4x4x3x3"), 1 << 20);
  ASSERT_TRUE(pieces.ok());
  ASSERT_EQ(pieces->size(), 1u);
  EXPECT_TRUE(pieces->front().where.empty());
}

TEST(Split, TheBatch) {
  expect_same("fprop:x=f32,7x4x9x9,nhwc:w=f32,6x4x3x3:pad=1x1:bias=1:act=relu", 1000, 3);
  expect_same("dgrad:x=f32,7x4x9x9:w=f32,6x4x3x3:y=f32,7x6x9x9:pad=1x1:beta=2:gamma=1", 1000, 3);
  expect_same("wgrad:x=f32,7x4x9x9:w=f32,6x4x3x3:y=f32,7x6x9x9:pad=1x1:beta=3:alpha=2", 1000, 3);
}

TEST(Split, RowsOfOneImage) {
  for (const char* window : {"pad=1x1", "pad=2x0/1x1:stride=2x1", "stride=3x2", "pad=3x1:dilation=2x1"}) {
    const std::string tail = std::string(":") + window;
    const ConvProblem whole = problem_of("fprop:x=f32,1x3x41x7,nhwc:w=f32,5x3x3x3" + tail);
    const std::string y = "y=f32," + to_string(whole.y.dims) + ",nhwc";
    expect_same("fprop:x=f32,1x3x41x7,nhwc:w=f32,5x3x3x3" + tail, 300, 3);
    expect_same("dgrad:x=f32,1x3x41x7,nhwc:w=f32,5x3x3x3:" + y + tail, 300, 3);
    expect_same("wgrad:x=f32,1x3x41x7,nhwc:w=f32,5x3x3x3:" + y + tail, 300, 3);
  }
}

TEST(Split, Volumes) {
  expect_same("fprop:x=f32,2x3x12x6x5,nhwc:w=f32,4x3x3x3x3:pad=1x1x1:stride=2x1x1", 400, 4);
  expect_same("fprop:x=f32,1x3x200,nhwc:w=f32,4x3x5:pad=2", 300, 3);
}

TEST(Split, GroupsOfOneImage) {
  expect_same("fprop:x=f32,1x8x9x9:w=f32,16x2x3x3:pad=1x1:groups=4:bias=1", 500, 3);
  expect_same("dgrad:x=f32,1x8x9x9:w=f32,16x2x3x3:y=f32,1x16x9x9:pad=1x1:groups=4:bias=1", 500, 3);
}

TEST(Split, OnlyWhereSumsStayExact) {
  const std::string text = "wgrad:x=bf16,7x4x9x9:w=bf16,6x4x3x3:y=bf16,7x6x9x9:pad=1x1";
  const auto pieces = split(problem_of(text), 1000);
  ASSERT_FALSE(pieces.ok());
  EXPECT_NE(pieces.error().message.find("32 bits"), std::string::npos) << pieces.error().message;
}

TEST(Split, SaysSoWhereNothingHelps) {
  const auto pieces = split(problem_of("fprop:x=f32,1x1024x1x1:w=f32,8x1024x1x1"), 512);
  ASSERT_FALSE(pieces.ok());
  EXPECT_EQ(pieces.error().code, ErrorCode::unsupported);
}

}  // namespace
}  // namespace convoy::cudnn
