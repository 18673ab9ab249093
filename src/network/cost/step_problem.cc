#include "network/cost/step_problem.h"

#include "ops/on_device.h"
#include "select/measure/step_measurement.h"

namespace convoy::network {

bool is_step_string(std::string_view text) { return is_conversion_string(text) || ops::is_operator_string(text); }

std::string print(const StepProblem& problem) {
  return std::visit([](const auto& each) { return print(each); }, problem);
}

Result<StepProblem> parse_step(std::string_view text) {
  if (is_conversion_string(text)) {
    CONVOY_TRY(ConversionProblem conversion, parse_conversion(text));
    return StepProblem(std::move(conversion));
  }
  CONVOY_TRY(ops::OpProblem op, ops::parse_operator(text));
  CONVOY_CHECK(ops::complete(op));
  return StepProblem(std::move(op));
}

double bytes_moved(const StepProblem& problem) {
  return std::visit([](const auto& each) { return bytes_moved(each); }, problem);
}

double predict_seconds(const StepProblem& problem, const PlanRequest& request) {
  if (request.kind() != DeviceKind::cpu) return ops::predict_seconds_on_device(bytes_moved(problem), request);
  if (const auto* conversion = std::get_if<ConversionProblem>(&problem)) {
    return conversion_seconds(conversion->x, conversion->y, request);
  }
  return ops::predict_seconds(std::get<ops::OpProblem>(problem), request);
}

Candidate candidate_of(const StepProblem& problem) {
  const auto* op = std::get_if<ops::OpProblem>(&problem);
  return {op != nullptr ? "ops." + op->node.op : "convert", {}};
}

MeasurementKey measurement_key(const StepProblem& problem, const PlanRequest& request, CacheState caches) {
  PlanRequest plain = request;
  plain.constant_weights = nullptr;  // of convolutions
  return selection::step_key(print(problem), plain, caches);
}

}  // namespace convoy::network
