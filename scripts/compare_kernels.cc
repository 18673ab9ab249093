// Prints what cuda.depthwise makes of a list of problems, without a GPU: a line of JSON for each kernel of each
// configuration. scripts/compare-kernels builds it with two trees and compares.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/problem_list.h"
#include "engines/cuda/depthwise/depthwise.h"
#include "engines/cuda/depthwise/design.h"
#if __has_include("engines/cuda/depthwise/launches.h")
#include "engines/cuda/depthwise/launches.h"
#include "engines/cuda/depthwise/one_sm_problems.h"
#else
#include "engines/cuda/depthwise/problems.h"
#endif
#include "engines/cuda/testing/described.h"

namespace convoy::cuda {
namespace {

void print_kernels(ConvProblem problem, int architecture, int target_sms, bool all, bool of_tests) {
  const CudaDevice device = testing::device_of(architecture);
  const DepthwiseShape shape = depthwise_shape(problem);
  PlanRequest request;
  request.cuda = device;
  request.target_sms = target_sms;
  std::size_t rank = 0;
  for (const DepthwiseDesign& design : depthwise_designs(shape, device, target_sms)) {
    if (rank > 0 && !all) break;
    const KnobValues configuration = configuration_of(design);
    nlohmann::json line = {{"problem", print(problem)},
                           {"architecture", architecture},
                           {"target_sms", target_sms},
                           {"of_tests", of_tests},
                           {"rank", rank++},
                           {"configuration", print(Candidate{"cuda.depthwise", configuration})},
                           {"seconds", fmt::format("{:a}", predicted_seconds(shape, design, device, target_sms))},
                           {"notes", depthwise_engine().notes(problem, configuration, request)}};
    const auto launches = depthwise_launches(problem, shape, design, device, target_sms);
    line["workspace"] = launches.workspace_bytes;
    for (const auto& launch : launches.kernels) {
      line["source"] = launch.request.source;
      line["constants"] = launch.request.constants;
      line["entry"] = launch.entry;
      line["launch"] = {launch.shape.grid.x, launch.shape.block.x, launch.shape.dynamic_shared_bytes,
                        launch.shape.overlapped};
      std::puts(line.dump().c_str());
    }
  }
}

}  // namespace
}  // namespace convoy::cuda

// PROBLEMS: a folder of lists. All configurations of the problems that the tests run in all families, and of each
// listed layer's; the first of these on a part of the device.
int main(int count, char** words) {
  using namespace convoy;
  if (count != 2) return 2;
  for (const int architecture : {80, 90, 100}) {
    for (const int target_sms : {0, 1}) {
      for (const ConvProblem& problem : cuda::one_sm_problems()) {
        cuda::print_kernels(problem, architecture, target_sms, true, true);
      }
    }
    for (const auto& file : std::filesystem::directory_iterator(words[1])) {
      if (file.path().extension() != ".txt") continue;
      const auto list = read_problem_list(file.path());
      if (!list.ok()) return 1;
      for (const ListedProblem& listed : *list) {
        if (!listed.problem.is_depthwise()) continue;
        for (const DataType type : {DataType::f32, DataType::bf16, DataType::f16}) {
          for (const Layout layout : {Layout::nhwc, Layout::nchw}) {
            for (const Pass pass : {Pass::fprop, Pass::dgrad, Pass::wgrad}) {
              ConvProblem problem = listed.problem;
              problem.pass = pass;
              for (TensorDesc* desc : {&problem.x, &problem.y}) {
                Dims dims = desc->dims;
                dims[0] = 128;
                *desc = TensorDesc::packed(type, dims, layout);
              }
              problem.w = TensorDesc::packed(type, problem.w.dims);
              cuda::print_kernels(problem, architecture, 0, true, false);
              cuda::print_kernels(problem, architecture, 66, false, false);
            }
          }
        }
      }
    }
  }
}
