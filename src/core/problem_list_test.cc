#include "core/problem_list.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

namespace convoy {
namespace {

std::string error_of(std::string_view text) {
  const auto list = parse_problem_list(text, "a.txt");
  return list.ok() ? "" : list.error().message;
}

TEST(ProblemList, CountsNamesAndComments) {
  const auto list = parse_problem_list(
      "# a comment\n\n"
      "3 fprop:x=f32,1x4x8x8:w=f32,4x4x3x3 # layer1 # more\r\n"
      "\tfprop:x=f32,1x4x9:w=f32,4x4x3\n"
      "  12   fprop:x=f32,1x4x9:w=f32,4x4x3:stride=2#s",
      "a.txt");
  ASSERT_TRUE(list.ok()) << list.error().message;
  ASSERT_EQ(list->size(), 3u);
  EXPECT_EQ((*list)[0].count, 3);
  EXPECT_EQ((*list)[0].name, "layer1 # more");
  EXPECT_EQ((*list)[0].line, 3);
  EXPECT_EQ(print((*list)[0].problem), "fprop:x=f32,1x4x8x8,nchw:w=f32,4x4x3x3,nchw:y=f32,1x4x6x6,nchw");
  EXPECT_EQ((*list)[1].count, 1);
  EXPECT_EQ((*list)[1].name, "");
  EXPECT_EQ((*list)[2].count, 12);
  EXPECT_EQ((*list)[2].name, "s");
  EXPECT_EQ((*list)[2].problem.stride, (Dims{2}));
}

TEST(ProblemList, ErrorsNameFileAndLine) {
  EXPECT_EQ(error_of(""), "a.txt: no problem in it");
  EXPECT_EQ(error_of("# nothing\n"), "a.txt: no problem in it");
  EXPECT_EQ(error_of("\nfprop:x=f31\n").substr(0, 30), "a.txt:2: x: data type 'f31' is");
  EXPECT_EQ(error_of("x fprop:x=f32,1"), "a.txt:1: count: 'x' is not an integer");
  EXPECT_EQ(error_of("0 fprop:x=f32,1"), "a.txt:1: count: 0 is not from 1 to 1000000000");
  EXPECT_EQ(error_of("7"), "a.txt:1: pass '7' is not one of fprop, dgrad, wgrad");
  const auto missing = read_problem_list("no/such/list.txt");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
  EXPECT_EQ(missing.error().message, "no/such/list.txt: No such file or directory");
}

// Every list that the project ships: each line parses, problems are distinct and named.
TEST(ProblemList, ShippedListsAreValid) {
  int lists = 0;
  for (const auto& entry : std::filesystem::directory_iterator(CONVOY_PROBLEMS_DIR)) {
    if (entry.path().extension() != ".txt") continue;
    ++lists;
    const auto list = read_problem_list(entry.path().string());
    ASSERT_TRUE(list.ok()) << list.error().message;
    std::set<std::string> seen;
    for (const ListedProblem& item : *list) {
      EXPECT_TRUE(seen.insert(print(item.problem)).second) << entry.path() << ":" << item.line << " is a repetition";
      EXPECT_FALSE(item.name.empty()) << entry.path() << ":" << item.line << " has no name";
    }
  }
  EXPECT_GE(lists, 18);
}

// Multiply-adds of whole networks as their papers and model zoos give them (convolutions only, in billions).
TEST(ProblemList, NetworksHaveTheirKnownCost) {
  const std::pair<const char*, double> kKnown[] = {{"resnet18", 1.81},
                                                   {"resnet50", 4.09},
                                                   {"vgg16", 15.35},
                                                   {"googlenet", 1.58},
                                                   {"mobilenet_v2", 0.2995},
                                                   {"squeezenet1_1", 0.349},
                                                   {"resnext50_32x4d", 4.23},
                                                   {"efficientnet_b0", 0.385},
                                                   {"densenet121", 2.83},
                                                   {"convnext_tiny", 4.455},
                                                   {"mobilenet_v3_large", 0.2141},
                                                   {"yolov8n", 4.37}};
  for (const auto& [name, expected] : kKnown) {
    const auto list = read_problem_list(std::string(CONVOY_PROBLEMS_DIR) + "/" + name + ".txt");
    ASSERT_TRUE(list.ok()) << list.error().message;
    double total = 0;
    for (const ListedProblem& item : *list) total += static_cast<double>(item.count) * flops(item.problem) / 2e9;
    EXPECT_NEAR(total, expected, 0.01 * expected) << name;
  }
}

}  // namespace
}  // namespace convoy
