// Problems of tests and benches of cuda.depthwise.
#pragma once

#include <array>
#include <vector>

#include "convoy/convolution.h"

namespace convoy::cuda {

// Between them they are offered every family, also where they are to keep to one SM.
inline constexpr std::array kOneSmProblems = {
    "fprop:x=bf16,8x256x14x14,nhwc:w=bf16,256x1x3x3:pad=1x1:groups=256",
    "fprop:x=f16,8x200x15x15,nhwc:w=f16,200x1x5x5:y=f16,8x200x8x8,nhwc:pad=2x2:stride=2x2:groups=200",
    "fprop:x=f32,4x96x28x28,nhwc:w=f32,96x1x7x7:pad=3x3:groups=96",
    "fprop:x=bf16,4x64x56x56,nhwc:w=bf16,64x1x7x7:pad=3x3:groups=64",
    "fprop:x=f16,4x48x20x100,nhwc:w=f16,48x1x7x7:pad=3x3:groups=48",
    "fprop:x=bf16,8x64x400,nwc:w=bf16,64x1x33:pad=16:groups=64",
    "fprop:x=bf16,8x256x14x14:w=bf16,256x1x3x3:pad=1x1:groups=256",
    "fprop:x=bf16,3x300x27x27:w=bf16,300x1x5x5:pad=2x2:groups=300",
    "fprop:x=f32,4x96x28x28:w=f32,96x1x3x3:pad=1x1:groups=96",
    "fprop:x=f32,8x128x500:w=f32,128x1x33:pad=16:groups=128",
    "fprop:x=f32,8x128x500,nwc:w=f32,128x1x33:y=f32,8x128x500,nwc:pad=16:groups=128",
    "fprop:x=bf16,8x256x400:w=bf16,256x1x9:pad=4:groups=256",
    "fprop:x=f32,2x16x9x11x13:w=f32,32x1x3x3x3:y=f32,2x32x9x11x13:pad=1x1x1:groups=16"};

// Those, in all three passes.
inline std::vector<ConvProblem> one_sm_problems() {
  std::vector<ConvProblem> problems;
  for (const char* text : kOneSmProblems) {
    ConvProblem problem = *parse_problem(text);
    for (const Pass pass : {Pass::fprop, Pass::dgrad, Pass::wgrad}) {
      problem.pass = pass;
      problems.push_back(problem);
    }
  }
  return problems;
}

// A listed layer of another batch, type, layout and pass.
inline ConvProblem variant(const ConvProblem& from, std::int64_t batch, DataType type, Layout layout, Pass pass) {
  ConvProblem problem = from;
  problem.pass = pass;
  for (TensorDesc* desc : {&problem.x, &problem.y}) {
    Dims dims = desc->dims;
    dims[0] = batch;
    *desc = TensorDesc::packed(type, dims, layout);
  }
  problem.w = TensorDesc::packed(type, problem.w.dims);
  return problem;
}

}  // namespace convoy::cuda
