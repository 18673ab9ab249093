#include "cli/checks.h"

#include "report/format.h"

namespace convoy::cli {

Json check_json(const selection::CheckOutcome& outcome) {
  return {{"candidate", print(outcome.candidate)},
          {"max_error", report::number_or_null(outcome.max_error)},
          {"max_error_absolute", report::number_or_null(outcome.max_error_absolute)},
          {"checked", outcome.checked},
          {"full", outcome.full},
          {"deterministic", std::string(name_of(outcome.deterministic))},
          {"thread_invariant", std::string(name_of(outcome.thread_invariant))},
          {"thread_counts", outcome.thread_counts},
          {"fault", std::string(name_of(outcome.fault))},
          {"failure", outcome.failure}};
}

Json read_check(const JobOutcome& outcome) {
  Json result = outcome.finished ? Json::parse(outcome.result, nullptr, false) : Json();
  if (result.is_object()) return result;
  return {{"fault", "crash"}, {"failure", outcome.finished ? "the result could not be read" : outcome.failure}};
}

std::string number_or_dash(const Json& result, const char* field) {
  const auto found = result.find(field);
  return found == result.end() || !found->is_number() ? "-" : report::number(found->get<double>());
}

}  // namespace convoy::cli
