#include "report/record.h"

#include <gtest/gtest.h>

#include "core/problem_list.h"

namespace convoy::report {
namespace {

constexpr const char* kRecordHeader =
    R"({"convoy_record":1,"pid":7,"program":"python train.py","cudnn":91900,"seconds":1.5})";
constexpr const char* kBf16 =
    R"({"problem":"fprop:x=bf16,2x8x5x5,nhwc:w=bf16,8x8x3x3,nhwc:y=bf16,2x8x5x5,nhwc:pad=1x1","operations":"CONVOLUTION_FORWARD",)"
    R"("device":"NVIDIA H200","calls":3,"plans":[{"candidate":"cudnn.eng1","calls":1,"made":1,"workspace_bytes":0},)"
    R"({"candidate":"cudnn.eng62{k2=1}","notes":["TENSOR_CORE"],"calls":2,"made":1,"workspace_bytes":64}],)"
    R"("queries":[{"mode":"instant","asked":1,"offers":[{"candidate":"cudnn.eng62{k2=1}"},{"candidate":"cudnn.eng1"}]}]})";
constexpr const char* kF32 =
    R"({"problem":"wgrad:x=f32,2x8x5x5,nchw:w=f32,8x8x3x3,nchw:y=f32,2x8x5x5,nchw:pad=1x1","operations":"CONVOLUTION_BACKWARD_FILTER",)"
    R"("device":"NVIDIA H200","calls":9,"plans":[{"candidate":"cudnn.eng2","notes":["TENSOR_CORE"],"calls":9}]})";
constexpr const char* kNorm =
    R"({"operations":"NORM_FORWARD","reason":"NORM_FORWARD is no part of a convolution problem","device":"NVIDIA H200","calls":4})";

std::string lines(std::initializer_list<const char*> all) {
  std::string text;
  for (const char* line : all) text += std::string(line) + "\n";
  return text;
}

TEST(Record, ProcessesAreAddedUp) {
  const std::string text = lines({kRecordHeader, kBf16, kNorm, kRecordHeader, kBf16, kF32});
  ASSERT_TRUE(is_record(text));
  const auto record = parse_record(text, "r.jsonl");
  ASSERT_TRUE(record.ok()) << record.error().message;
  EXPECT_EQ(record->processes, 2);
  EXPECT_EQ(record->cudnn, "9.19.0");
  ASSERT_EQ(record->graphs.size(), 3u);
  EXPECT_EQ(record->graphs[0].calls, 9);
  EXPECT_EQ(record->graphs[1].calls, 6);
  ASSERT_EQ(record->graphs[1].plans.size(), 2u);
  EXPECT_EQ(record->graphs[1].plans[0].candidate, "cudnn.eng62{k2=1}") << "the most called first";
  EXPECT_EQ(record->graphs[1].plans[0].calls, 4);
  EXPECT_EQ(record->graphs[1].offered.size(), 2u);
}

TEST(Record, MathIsInferredFromWhatRan) {
  const auto record = parse_record(lines({kRecordHeader, kF32, kBf16}), "r.jsonl");
  ASSERT_TRUE(record.ok());
  EXPECT_EQ(inferred_math(record->graphs[0]).math, MathMode::tf32);
  EXPECT_EQ(inferred_math(record->graphs[1]).math, MathMode::reduced);
  RecordedGraph strict = record->graphs[0];
  strict.plans[0].notes.clear();
  EXPECT_EQ(inferred_math(strict).math, MathMode::strict);
  strict.operations = "cudnnConvolutionForward";
  strict.problem += ":math=tf32";
  EXPECT_EQ(inferred_math(strict).math, MathMode::tf32) << "a program tells the older interface";
}

TEST(Record, WhatBecameOfRulesAndWinners) {
  const char* header =
      R"({"convoy_record":1,"cudnn":91900,"rules":[{"pattern":"filter=3x3","candidate":"cudnn.eng5","matched":2,"obeyed":1,)"
      R"("reason":"not offered"},{"pattern":"filter=5x5","candidate":"cudnn.eng5","matched":0,"obeyed":0}]})";
  const char* graph =
      R"({"operations":"CONVOLUTION_FORWARD","reason":"?","calls":1,"benchmark":true,"steered":"cudnn.eng5",)"
      R"("not_placed":[{"candidate":"cudnn.eng9","reason":"no place"}]})";
  const auto record = parse_record(lines({header, graph, header, graph}), "r.jsonl");
  ASSERT_TRUE(record.ok()) << record.error().message;
  ASSERT_EQ(record->rules.size(), 2u);
  EXPECT_EQ(record->rules[0].matched, 4);
  EXPECT_EQ(record->rules[0].obeyed, 2);
  EXPECT_EQ(record->rules[0].reason, "not offered");
  EXPECT_EQ(record->rules[1].pattern, "filter=5x5");
  EXPECT_EQ(record->rules[1].matched, 0);
  ASSERT_EQ(record->graphs.size(), 1u);
  EXPECT_TRUE(record->graphs[0].benchmark);
  EXPECT_EQ(record->graphs[0].steered, "cudnn.eng5");
  ASSERT_EQ(record->graphs[0].not_placed.size(), 1u);
  EXPECT_EQ(record->graphs[0].not_placed[0].reason, "no place");
}

TEST(Record, KnobsFromBeforeTheyHadNamesAreSaidOnce) {
  const char* header =
      R"({"convoy_record":1,"cudnn":91900,"rules":[{"pattern":"groups>1","candidate":"cuda.depthwise{tile=300140101}"}]})";
  const char* graph =
      R"({"operations":"CONVOLUTION_FORWARD","reason":"?","calls":1,"plans":[)"
      R"({"candidate":"cuda.depthwise{tile=300140101}","calls":1},{"candidate":"cudnn.eng1{k2=1}","calls":2}],)"
      R"("not_placed":[{"candidate":"cuda.depthwise{tile=0}","reason":"no place"}]})";
  const auto record = parse_record(lines({header, graph}), "r.jsonl");
  ASSERT_TRUE(record.ok()) << record.error().message;
  EXPECT_EQ(
      former_names(*record),
      (std::vector<std::string>{"recorded: cuda.depthwise{tile=300140101} is written "
                                "cuda.depthwise{columns=1,kernel=planes,rows=14} now",
                                "recorded: cuda.depthwise{tile=0} is written cuda.depthwise{kernel=general} now"}));
}

// The part of PyTorch's hook has the process's number; two processes of one number are of two hosts, say.
TEST(Record, TheHooksPartIsOfTheSameProcess) {
  const char* hooks = R"({"convoy_record":1,"pid":7,"program":"train.py","cudnn":91900,"hook":true})";
  const char* row =
      R"({"problem":"fprop:x=f32,2x8x9x9:w=f32,8x1x3x3:groups=8","operations":"aten::_conv_depthwise2d","calls":3,)"
      R"("plans":[{"candidate":"torch.depthwise","calls":3,"seconds":3e-5,"substitute":"cuda.depthwise","substituted":2,"substitute_seconds":1e-5}]})";
  const char* cudnns = R"({"convoy_record":1,"pid":7,"program":"train.py","cudnn":91900})";
  const auto processes = [](std::initializer_list<const char*> text) {
    const auto record = parse_record(lines(text), "r.jsonl");
    return record.ok() ? record->processes : -1;
  };
  EXPECT_EQ(processes({cudnns, hooks, row}), 1);
  EXPECT_EQ(processes({hooks, row}), 1);
  EXPECT_EQ(processes({cudnns, cudnns}), 2);
  const auto record = parse_record(lines({hooks, row}), "r.jsonl");
  ASSERT_TRUE(record.ok()) << record.error().message;
  ASSERT_EQ(record->graphs.size(), 1u);
  ASSERT_EQ(record->graphs[0].plans.size(), 2u);
  EXPECT_EQ(record->graphs[0].plans[0].candidate, "cuda.depthwise");
  EXPECT_EQ(record->graphs[0].plans[0].in_place_of, "torch.depthwise");
  EXPECT_EQ(record->graphs[0].plans[0].seconds, 1e-5);
  EXPECT_EQ(record->graphs[0].plans[1].seconds, 3e-5);
  EXPECT_EQ(inferred_math(record->graphs[0]).math, MathMode::strict);
}

TEST(Record, ItsProblemListIsOne) {
  const auto record = parse_record(lines({kRecordHeader, kBf16, kF32, kNorm}), "r.jsonl");
  ASSERT_TRUE(record.ok());
  const std::string text = problem_list(*record);
  const auto list = parse_problem_list(text, "r.txt");
  ASSERT_TRUE(list.ok()) << list.error().message << text;
  ASSERT_EQ(list->size(), 2u);
  EXPECT_EQ((*list)[0].count, 9);
  EXPECT_EQ((*list)[0].problem.math, MathMode::tf32);
  EXPECT_EQ((*list)[1].name, "cudnn.eng62{k2=1}");
  EXPECT_NE(text.find("# 4 calls of NORM_FORWARD"), std::string::npos) << text;
}

TEST(Record, WhatIsWrongIsNamed) {
  const auto says = [](const std::string& text) {
    const auto record = parse_record(text, "r.jsonl");
    return record.ok() ? std::string() : record.error().message;
  };
  EXPECT_NE(says("").find("r.jsonl: there is no record"), std::string::npos);
  EXPECT_NE(says(lines({kNorm})).find("r.jsonl:1: convoy_record"), std::string::npos);
  EXPECT_NE(says(lines({R"({"convoy_record":2})"})).find("convoy_record=2"), std::string::npos);
  EXPECT_NE(says(lines({kRecordHeader, R"({"problem":"fprop:x=f31"})"})).find("r.jsonl:2"), std::string::npos);
  EXPECT_NE(says(lines({kRecordHeader, R"({"operations":"a","calls":1,"problem":"fprop:x=f31"})"}))
                .find("r.jsonl:2: problem"),
            std::string::npos);
  EXPECT_NE(says(std::string(kRecordHeader) + "\n" + std::string(kBf16).substr(0, 100)).find("cut off"),
            std::string::npos);
}

}  // namespace
}  // namespace convoy::report
