// Explanations in the C interface: why a problem runs on what it runs on.
#include "select/explain/explain.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "capi/handles.h"
#include "capi/options.h"
#include "engines/table.h"

using namespace convoy;
using namespace convoy::capi;

struct convoy_explanation {
  selection::Explanation explanation;
  std::vector<std::string> candidates, notes;  // of each engine
  std::string chosen, reason, runner_up, passed_over, warnings;
};

namespace {

const char* text_or_null(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }

}  // namespace

extern "C" {

convoy_status convoy_explain(const convoy_problem* problem, const convoy_options* options,
                             convoy_explanation** explanation) {
  return guarded([&]() -> Result<void> {
    CONVOY_CHECK(present(explanation, "explanation"));
    *explanation = nullptr;
    CONVOY_CHECK(present(problem, "problem"));
    CONVOY_TRY(Chooser chooser, read_options(options));
    CONVOY_TRY(const auto database, remember(chooser));
    const PlanRequest& request = chooser.place.request;
    const auto& engines = engines_on(request.kind());
    auto made = std::make_unique<convoy_explanation>();
    made->explanation = selection::explain(problem->problem, engines, chooser.options, request);
    const selection::Explanation& told = made->explanation;
    for (const selection::EngineVerdict& verdict : told.engines) {
      made->candidates.push_back(verdict.answer.refusal ? "" : print(verdict.answer.default_candidate));
      made->notes.push_back(fmt::format("{}", fmt::join(verdict.notes, ", ")));
    }
    if (told.chosen) {
      made->chosen = print(told.chosen->candidate);
      made->reason = told.chosen->reason();
      made->warnings = lines(told.chosen->warnings);
    }
    if (told.runner_up) made->runner_up = print(*told.runner_up);
    made->passed_over = lines(told.passed_over);
    *explanation = made.release();
    return {};
  });
}

void convoy_explanation_destroy(convoy_explanation* explanation) { delete explanation; }
size_t convoy_explanation_engines(const convoy_explanation* explanation) {
  return explanation ? explanation->explanation.engines.size() : 0;
}

convoy_status convoy_explanation_verdict(const convoy_explanation* explanation, size_t index, convoy_verdict* verdict) {
  return guarded([&]() -> Result<void> {
    CONVOY_CHECK(present(explanation, "explanation"));
    CONVOY_CHECK(present(verdict, "verdict"));
    CONVOY_CHECK(in_range(index, explanation->candidates.size(), "engines"));
    const selection::EngineVerdict& from = explanation->explanation.engines[index];
    convoy_verdict filled = CONVOY_VERDICT_INIT;
    filled.engine = from.answer.engine->info().name.c_str();
    filled.notes = explanation->notes[index].c_str();
    if (from.answer.refusal) {
      filled.refusal = from.answer.refusal->reason.c_str();
      filled.refusal_kind = name_of(from.answer.refusal->code).data();
      return write_struct(verdict, filled, "convoy_verdict");
    }
    filled.excluded = from.excluded ? from.excluded->reason.c_str() : nullptr;
    filled.candidate = explanation->candidates[index].c_str();
    filled.no_plan = from.no_plan ? from.no_plan->message.c_str() : nullptr;
    filled.predicted_seconds = from.answer.predicted_seconds;
    filled.measured_seconds = from.measured && !from.measured->failure ? from.measured->median_seconds : 0;
    filled.workspace_bytes = static_cast<std::int64_t>(from.workspace_bytes);
    return write_struct(verdict, filled, "convoy_verdict");
  });
}

convoy_status convoy_explanation_outcome(const convoy_explanation* explanation, convoy_outcome* outcome) {
  return guarded([&]() -> Result<void> {
    CONVOY_CHECK(present(explanation, "explanation"));
    CONVOY_CHECK(present(outcome, "outcome"));
    const selection::Explanation& from = explanation->explanation;
    convoy_outcome filled = CONVOY_OUTCOME_INIT;
    filled.candidate = text_or_null(explanation->chosen);
    filled.reason = from.chosen ? explanation->reason.c_str() : from.nothing ? from.nothing->message.c_str() : "";
    filled.decided_by = text_or_null(from.decided_by);
    filled.plan = text_or_null(from.description);
    filled.runner_up = text_or_null(explanation->runner_up);
    filled.why_not_runner_up = text_or_null(from.why_not_runner_up);
    filled.passed_over = text_or_null(explanation->passed_over);
    filled.warnings = text_or_null(explanation->warnings);
    return write_struct(outcome, filled, "convoy_outcome");
  });
}

}  // extern "C"
