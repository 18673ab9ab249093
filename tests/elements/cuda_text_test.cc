// The text for CUDA of every element-wise operator compiles, for each type that the operator takes and CUDA has.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "device/cuda/nvrtc.h"
#include "engines/cuda/compiler/compiler.h"
#include "ops/testing/elements.h"

namespace convoy::ops {
namespace {

struct CudaType {
  DataType type;
  const char *name, *wraps_in;  // integers in unsigned ones of 32 bits and more
};
constexpr CudaType kTypes[] = {
    {DataType::f32, "float", "float"},
    {DataType::f64, "double", "double"},
    {DataType::s64, "long long", "unsigned long long"},
    {DataType::s32, "int", "unsigned"},
    {DataType::s16, "short", "unsigned"},
    {DataType::s8, "signed char", "unsigned"},
    {DataType::u64, "unsigned long long", "unsigned long long"},
    {DataType::u32, "unsigned", "unsigned"},
    {DataType::u16, "unsigned short", "unsigned"},
    {DataType::u8, "unsigned char", "unsigned"},
    {DataType::boolean, "unsigned char", "unsigned"},
};

// All operators of a type in one source, each with a kernel that calls it.
std::string source_of(const CudaType& type, int* operators) {
  std::string text;
  for (const auto& [name, rule] : element_rules()) {
    if (!contains(rule->types, type.type) || (rule->in_f64 && !is_floating(type.type))) continue;
    const int operands = rule->operands == 0 ? 3 : rule->operands;
    const auto function = ElementFunction::of(*rule, node_of_element(name), type.type, operands);
    if (!function.ok()) {
      ADD_FAILURE() << name << ": " << function.error().message;
      continue;
    }
    text += generate::cuda_text(function->expression, operands, "convoy_" + name, type.name, type.wraps_in);
    std::string parameters, elements;
    for (int i = 0; i < operands; ++i) {
      parameters += fmt::format("const {}* x{}, ", type.name, i);
      elements += fmt::format("{}x{}[threadIdx.x]", i > 0 ? ", " : "", i);
    }
    text += fmt::format("extern \"C\" __global__ void {}({}{}* y) {{ y[threadIdx.x] = convoy_{}({}); }}\n", name,
                        parameters, type.name, name, elements);
    ++*operators;
  }
  return text;
}

TEST(ElementText, CompilesForCuda) {
  const auto api = cuda::nvrtc();
  if (!api.ok()) GTEST_SKIP() << "skipped: no NVRTC: " << api.error().message;
  for (const CudaType& type : kTypes) {
    int operators = 0;
    const std::string text = source_of(type, &operators);
    const auto made = cuda::compile_text(text, {.source = "elements.cu", .constants = "", .architecture = 90});
    EXPECT_TRUE(made.ok()) << type.name << ": " << made.error().message << "\n" << text;
    EXPECT_GT(operators, is_floating(type.type) ? 45 : 3) << type.name;
  }
}

TEST(ElementText, NamesItsSteps) {
  const auto* const op = dynamic_cast<const ElementwiseOperator*>(find_operator("", "LeakyRelu"));
  ASSERT_NE(op, nullptr);
  const auto function = ElementFunction::of(op->rule(), node_of_element("LeakyRelu"), DataType::f32, 1);
  ASSERT_TRUE(function.ok());
  const std::string text = generate::cuda_text(function->expression, 1, "leaky", "float", "float");
  EXPECT_NE(text.find("a < C(0) ? C(U(a) * U(b)) : a"), std::string::npos) << text;
  EXPECT_NE(text.find("float leaky(const float x0)"), std::string::npos) << text;
  EXPECT_NE(text.find("leaky_leaky(x0, C(0.01))"), std::string::npos) << text;
}

}  // namespace
}  // namespace convoy::ops
