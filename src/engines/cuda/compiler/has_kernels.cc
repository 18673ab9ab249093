#include "engines/cuda/compiler/has_kernels.h"

#include <fmt/format.h>

#include <utility>

namespace convoy::cuda {

std::vector<CompilationJob> HasKernels::compilations(const ConvProblem& problem, const KnobValues& knobs,
                                                     const PlanRequest& request) const {
  std::vector<CompilationJob> found;
  for (KernelLaunch& launch : kernels(problem, knobs, request).kernels) {
    KernelRequest& kernel = launch.request;
    if (const auto source = program_source(kernel); !source.ok() || is_kept(*source)) continue;
    std::string what = fmt::format("{} sm_{}\n{}", kernel.source, kernel.architecture, kernel.constants);
    found.push_back({std::move(what), [kernel = std::move(kernel)](const std::stop_token& stop) {
                       compile_for_later(*program_source(kernel), stop);
                     }});
  }
  return found;
}

}  // namespace convoy::cuda
