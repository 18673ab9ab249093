#include "engines/cudnn/kept_plan.h"

#include <fmt/format.h>

#include "engines/cudnn/graph.h"
#include "engines/cudnn/properties.h"

namespace convoy::cudnn {

cuda::CodeKey plan_key(const Api& api, const PlanUse& use) {
  const ConvProblem& p = use.problem;
  const std::string what =
      fmt::format("{} aligned to {} {} {}: {}, {} SMs", print(p), p.x.alignment, p.w.alignment, p.y.alignment,
                  print(Candidate{fmt::format("eng{}", use.engine), use.knobs}), use.target_sms);
  const std::string where = fmt::format("cuDNN {}, graphs {}, driver {} {}, {} {}: {}", api.version, Graph::kRevision,
                                        use.device.driver_version, use.device.driver, use.own ? "own" : "described",
                                        use.device.name, properties_json(use.device));
  return cuda::code_key({.name = "cuDNN plan", .text = what, .files = {}}, where);
}

std::optional<Descriptor> find_plan(const cuda::CodeCache& cache, const cuda::CodeKey& key, const Api& api,
                                    const Descriptor& properties) {
  const std::optional<cuda::KernelImage> json = cache.find(key);
  if (!json) return std::nullopt;
  Descriptor plan(api, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, properties)
      .set(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, *json)
      .finalize();
  return plan.ok() ? std::optional(std::move(plan)) : std::nullopt;
}

void keep_plan(const cuda::CodeCache& cache, const cuda::CodeKey& key, const Descriptor& plan) {
  const std::string json = plan.text(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
  if (!json.empty()) cache.keep(key, {json.begin(), json.end()});
}

}  // namespace convoy::cudnn
