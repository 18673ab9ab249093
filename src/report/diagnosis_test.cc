#include "report/diagnosis.h"

#include <gtest/gtest.h>

#include "report/pytorch_script.h"
#include "report/testing/record_of.h"

namespace convoy::report {
namespace {

constexpr const char* kHeader =
    R"({"convoy_record":1,"pid":7,"program":"python train.py","cudnn":91900,"seconds":1.5})";

std::string failure(const char* descriptor, const char* message, const char* attributes) {
  return std::string(R"({"failure":{"descriptor":")") + descriptor +
         R"(","status":"CUDNN_STATUS_BAD_PARAM","message":")" + message + R"(","count":3,"attributes":)" + attributes +
         "}}";
}

Finding first(const std::string& line) { return diagnose(record_of({kHeader, line})).at(0); }

std::string operation(const char* x, const char* w, const char* y) {
  const auto tensor = [](const char* name, const char* dims) {
    return std::string(R"("CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_)") + name +
           R"(":{"CUDNN_ATTR_TENSOR_DIMENSIONS":)" + dims + "}";
  };
  std::string text = "{";
  text += tensor("X", x) + "," + tensor("W", w) + "," + tensor("Y", y);
  return text + R"(,"CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC":{"CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS":2,)"
                R"("CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS":[1,1],"CUDNN_ATTR_CONVOLUTION_POST_PADDINGS":[1,1],)"
                R"("CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES":[1,1],"CUDNN_ATTR_CONVOLUTION_DILATIONS":[1,1]}})";
}

// The messages are those of cuDNN 9.19.
TEST(Diagnosis, TheFieldAndBothValuesAreNamed) {
  constexpr const char* kTensor = "CUDNN_BACKEND_TENSOR_DESCRIPTOR";
  constexpr const char* kOperation = "CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR";
  const Finding rank =
      first(failure(kTensor, "_nbDims != _nbStrides",
                    R"({"CUDNN_ATTR_TENSOR_DIMENSIONS":[2,3,5,5],"CUDNN_ATTR_TENSOR_STRIDES":[75,25,5]})"));
  EXPECT_EQ(rank.field, "4 dims, but 3 strides");
  EXPECT_EQ(rank.count, 3);
  EXPECT_NE(rank.advice.find("as many strides"), std::string::npos);
  EXPECT_EQ(
      first(failure(kTensor, "", R"({"CUDNN_ATTR_TENSOR_DIMENSIONS":[2,0],"CUDNN_ATTR_TENSOR_STRIDES":[1,1]})")).field,
      "dims[1]=0: cuDNN takes no empty tensors");
  const Finding channels = first(failure(kOperation, "(0 == wDimA[1]) || (0 == xDimA[1]) || (0 != xDimA[1] % wDimA[1])",
                                         operation("[2,8,5,5]", "[8,7,3,3]", "[2,8,5,5]").c_str()));
  EXPECT_EQ(channels.field, "x.dims[1]=8 is no multiple of w.dims[1]=7");
  EXPECT_NE(channels.advice.find("groups"), std::string::npos);
  EXPECT_NE(text_of(channels).find("xDimA[1] % wDimA[1]"), std::string::npos) << "cuDNN's own words are there";
  EXPECT_NE(text_of(channels).find("given"), std::string::npos);
  EXPECT_EQ(text_of(channels, true).find("given"), std::string::npos) << "the field says enough";
  EXPECT_EQ(first(failure(kOperation, "", operation("[2,8,5,5]", "[8,8,3,3]", "[3,8,5,5]").c_str())).field,
            "x.dims[0]=2 does not match y.dims[0]=3");
  EXPECT_EQ(first(failure(kOperation, "", operation("[2,8,5,5]", "[8,8,3,3]", "[2,9,5,5]").c_str())).field,
            "y.dims[1]=9 does not match w.dims[0]=8");
  EXPECT_EQ(first(failure(kOperation, "", operation("[2,8,5,5]", "[8,8,3,3]", "[2,8,4,5]").c_str())).field,
            "y.dims[2]=4 does not match x.dims[2]=5, w.dims[2]=3, pad=1/1, stride=1, dilation=1, which give 5");
  const std::string graph =
      R"({"CUDNN_ATTR_OPERATIONGRAPH_OPS":)" + operation("[2,8,5,5]", "[8,8,3,3]", "[3,8,5,5]") + "}";
  EXPECT_EQ(first(failure("CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR", "outputGraph.buildDAG()", graph.c_str())).field,
            "x.dims[0]=2 does not match y.dims[0]=3");
  EXPECT_EQ(first(failure("CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR", "finalize_internal()",
                          R"({"CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS":2,"CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS":[-1,1]})"))
                .field,
            "PRE_PADDINGS[0]=-1 is less than 0");
}

// Where cuDNN says nothing that is known, the field does; where there is no field, the status.
TEST(Diagnosis, EachKindOfFailureHasItsAdvice) {
  constexpr const char* kTensor = "CUDNN_BACKEND_TENSOR_DESCRIPTOR";
  constexpr const char* kOperation = "CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR";
  const auto advice = [](const char* descriptor, const std::string& attributes) {
    return first(failure(descriptor, "", attributes.c_str())).advice;
  };
  const auto of_tensor = [&](const char* dims, const char* strides, const char* more = "") {
    return advice(kTensor, std::string(R"({"CUDNN_ATTR_TENSOR_DIMENSIONS":)") + dims +
                               R"(,"CUDNN_ATTR_TENSOR_STRIDES":)" + strides + more + "}");
  };
  const auto contains = [](const std::string& text, const char* words) {
    EXPECT_NE(text.find(words), std::string::npos) << text;
  };
  contains(of_tensor("[]", "[]"), "before the descriptor is finalized");
  contains(of_tensor("[2,3]", "[1]"), "as many strides as sizes");
  contains(of_tensor("[2,0]", "[1,1]"), "its result is empty");
  contains(of_tensor("[2,3]", "[0,1]"), "expanded or flipped");
  contains(of_tensor("[2,3]", "[3,1]", R"(,"CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT":0)"), "the power of two");
  contains(advice(kOperation, operation("[2,8,5,5]", "[8,8,3,3]", "[3,8,5,5]")), "the same batch");
  contains(advice(kOperation, operation("[2,8,5,5]", "[8,7,3,3]", "[2,8,5,5]")), "in_channels and groups");
  contains(advice(kOperation, operation("[2,8,5,5]", "[8,8,3,3]", "[2,9,5,5]")),
           "as many channels as there are filters");
  contains(advice(kOperation, operation("[2,8,5,5]", "[8,8,3,3]", "[2,8,4,5]")), "make the output 5 there");
  contains(advice(kOperation, operation("[2,8,0,5]", "[8,8,3,3]", "[2,8,1,5]")),
           "make the input or its padding larger");
  contains(advice(kOperation, operation("[2,8,5]", "[8,8,3]", "[2,8,5]")), "give the convolution 1 spatial dims");
  contains(advice(kOperation, operation("[2,8,5,5]", "[8,8,3]", "[2,8,5,5]")), "as many dims as each other");
  const Finding groups = first(failure(kOperation, "", operation("[2,4,2,5,5]", "[8,2,3,3]", "[2,4,2,5,5]").c_str()));
  EXPECT_EQ(groups.field, "x has 5 dims, w 4, y 5");
  contains(groups.advice, "if dims[1] is for groups, w lacks it: cuDNN takes [N,G,C/G,H,W] beside [G,K/G,C/G,R,S]");
  contains(advice("CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR",
                  R"({"CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS":2,"CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS":[-1,1]})"),
           "crop x");
  contains(advice("CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR",
                  R"({"CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS":2,"CUDNN_ATTR_CONVOLUTION_DILATIONS":[1]})"),
           "one value for each spatial dim");
  const auto on_status = [&](const char* status) {
    return first(std::string(R"({"failure":{"descriptor":"CUDNN_BACKEND_ENGINE_DESCRIPTOR","status":")") + status +
                 R"(","message":"","count":1,"attributes":{}}})")
        .advice;
  };
  contains(on_status("CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN"), "another type, layout or size");
  contains(on_status("CUDNN_STATUS_ALLOC_FAILED"), "the batch smaller");
  contains(on_status("CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH"), "convoy doctor");
  contains(on_status("CUDNN_STATUS_EXECUTION_FAILED"), "CUDA_LAUNCH_BLOCKING=1");
  contains(on_status("CUDNN_STATUS_BAD_PARAM"), "cuDNN's documentation");
}

TEST(Diagnosis, WhatStopsSomethingComesFirst) {
  const std::string problem = "fprop:x=bf16,2x8x5x5:w=bf16,8x8x3x3:y=bf16,2x8x5x5:pad=1x1";
  const std::string other = "wgrad:x=bf16,2x8x5x5:w=bf16,8x8x3x3:y=bf16,2x8x5x5:pad=1x1";
  const auto graph = [](const std::string& problem, const char* second) {
    return R"({"problem":")" + problem + R"(","operations":"CONVOLUTION_FORWARD","calls":1,"plans":[)" +
           R"({"candidate":"cudnn.eng7","calls":0,"failure":"CUDNN_STATUS_NOT_SUPPORTED","failure_detail":"no tile"})" +
           second + "]}";
  };
  const auto findings = diagnose(record_of(
      {kHeader, graph(problem, R"(,{"candidate":"cudnn.eng1","calls":1})"), graph(other, ""),
       failure("CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR", "outputGraph.buildDAG()", "{}"),
       R"({"failure":{"descriptor":"CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR","status":"CUDNN_STATUS_NOT_SUPPORTED","count":1,"candidate":"cudnn.eng7","problem":")" +
           other + R"("}})"}));
  ASSERT_EQ(findings.size(), 3u) << "a plan's failure counts once";
  EXPECT_EQ(findings[0].problem, other) << "nothing could be built";
  EXPECT_NE(findings[0].advice.find("none of the engines"), std::string::npos) << findings[0].advice;
  EXPECT_TRUE(findings[1].consequence);
  EXPECT_EQ(findings[2].problem, problem);
  EXPECT_EQ(findings[2].advice, "none is needed: cudnn.eng1 was built instead");
  EXPECT_EQ(failing_problems(findings), (std::vector<std::string>{other, problem}));
}

TEST(PytorchScript, SaysWhatItCannot) {
  const auto refused = [](const char* text) {
    const auto problem = parse_problem(text);
    const auto script = problem.ok() ? pytorch_script(*problem, {}) : Result<std::string>(problem.error());
    return script.ok() ? "" : script.error().message;
  };
  EXPECT_NE(refused("fprop:x=s8,2x8x5x5:w=s8,8x8x3x3:y=s32,2x8x5x5:pad=1x1:compute=s32").find("x=s8"),
            std::string::npos);
  EXPECT_NE(refused("fprop:x=bf16,2x8x5x5:w=bf16,8x8x3x3:y=f32,2x8x5x5:pad=1x1").find("y=f32"), std::string::npos);
  EXPECT_NE(refused("fprop:x=f32,2x8x5x5,nchw8c:w=f32,8x8x3x3:pad=1x1").find("blocks of 8"), std::string::npos);
}

TEST(PytorchScript, WhatAProgramSaidStaysText) {
  const auto problem = parse_problem("dgrad:y=f32,2x8x5x5:w=f32,8x8x3x3:pad=1x1/0x1:math=tf32");
  ASSERT_TRUE(problem.ok()) << problem.error().message;
  const auto script = pytorch_script(*problem, {.failure = "a\"\"\"\nimport os\\", .asked = {"\"\"\""}});
  ASSERT_TRUE(script.ok()) << script.error().message;
  EXPECT_NE(script->find("what went wrong: a''' import os/\n"), std::string::npos) << script->substr(0, 400);
  EXPECT_NE(script->find("PAD_FIRST = [1, 1, 1, 0]"), std::string::npos) << "the last dim first";
  EXPECT_NE(script->find("ALLOW_TF32 = True"), std::string::npos);
  EXPECT_TRUE(pytorch_script_name(*problem).starts_with("repro-dgrad-f32-"));
}

}  // namespace
}  // namespace convoy::report
