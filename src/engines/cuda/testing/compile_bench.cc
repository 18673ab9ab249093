// How long NVRTC takes for the kernels of a network's layers, in f16 with a bias and ReLU; no GPU is needed.
//   cuda_compile_bench problems/resnet50.txt 1 8 32 128
// A line for each kernel that Convoy's own engines plan first for a layer in one of the batches, the slowest first:
// JSON, in seconds of the processor, the least of three.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <span>
#include <string>

#include "core/problem_list.h"
#include "core/suggestions.h"
#include "engines/cuda/compiler/has_kernels.h"
#include "engines/cuda/depthwise/depthwise.h"
#include "engines/cuda/direct/direct.h"
#include "engines/cuda/gemm/gemm.h"
#include "engines/cuda/gemv/gemv.h"
#include "engines/cuda/igemm/igemm.h"
#include "engines/cuda/pointwise/pointwise.h"
#include "engines/cuda/stem/stem.h"
#include "engines/cuda/testing/described.h"
#include "engines/cuda/volume/volume.h"

namespace convoy::cuda {
namespace {

constexpr int kRuns = 3;

struct Wanted {
  KernelRequest request;
  std::string engine, first;  // of a problem
  int problems = 0;
};

// A layer's problem as networks have it.
ConvProblem as_run(ConvProblem problem, std::int64_t batch) {
  problem.x.dims[0] = problem.y.dims[0] = batch;
  for (TensorDesc* each : {&problem.x, &problem.w, &problem.y}) {
    *each = TensorDesc::packed(DataType::f16, each->dims, Layout::nhwc);
  }
  problem.epilogue.bias = true;
  problem.epilogue.activation.kind = ActivationKind::relu;
  return problem;
}

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

int run(std::span<char*> words) {
  if (words.size() < 3) return std::fprintf(stderr, "cuda_compile_bench LIST BATCH...\n"), 2;
  PlanRequest request;
  request.cuda = testing::device_of(90);
  const Engine* const engines[] = {&depthwise_engine(), &direct_engine(),    &gemm_engine(), &gemv_engine(),
                                   &igemm_engine(),     &pointwise_engine(), &stem_engine(), &volume_engine()};
  std::map<std::string, Wanted> wanted;
  const auto listed = read_problem_list(words[1]);
  if (!listed.ok()) return std::fprintf(stderr, "%s\n", listed.error().message.c_str()), 1;
  for (const ListedProblem& each : *listed) {
    for (const char* batch : words.subspan(2)) {
      const ConvProblem problem = as_run(each.problem, std::atoll(batch));
      for (const Engine* engine : engines) {
        if (refuse(*engine, problem, request)) continue;
        const auto knobs = dynamic_cast<const HasSuggestions&>(*engine).suggestions(problem, request).front();
        for (KernelLaunch& launch : dynamic_cast<const HasKernels&>(*engine).kernels(problem, knobs, request).kernels) {
          Wanted& one = wanted[launch.request.source + launch.request.constants];
          if (one.problems++ == 0)
            one.request = launch.request, one.engine = engine->info().name, one.first = print(problem);
        }
      }
    }
  }
  std::vector<std::pair<double, const Wanted*>> rows;
  for (const auto& [key, one] : wanted) {
    double least = 1e9;
    for (int i = 0; i < kRuns; ++i) {
      const double begin = processor_seconds();
      const auto compiled = compile(one.request);
      if (!compiled.ok()) return std::fprintf(stderr, "%s\n", compiled.error().message.c_str()), 1;
      least = std::min(least, processor_seconds() - begin);
    }
    rows.emplace_back(least, &one);
  }
  std::ranges::sort(rows, std::greater<>{}, [](const auto& row) { return row.first; });
  for (const auto& [seconds, one] : rows) {
    fmt::print("{{\"kernel\": \"{}\", \"seconds\": {:.3f}, \"problems\": {}, \"first\": \"{}\"}}\n", one->engine,
               seconds, one->problems, one->first);
  }
  return 0;
}

}  // namespace
}  // namespace convoy::cuda

int main(int argc, char** argv) { return convoy::cuda::run({argv, static_cast<std::size_t>(argc)}); }
