// convoy conformance: ONNX test folders, each case's crash its own.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/clock.h"
#include "cli/conformance_case.h"
#include "cli/plan_flags.h"
#include "cli/program.h"
#include "cli/worker.h"
#include "report/format.h"
#include "report/progress.h"
#include "select/choose/glob.h"

namespace convoy::cli {
namespace {

struct ConformanceFlags {
  std::string folder;
  std::string filter = "*";
  double timeout = 120;
  double relative = -1, absolute = -1;
  bool quiet = false;
};

// Results cross from the child as JSON.
std::string pack(const CaseResult& result) {
  return report::dump({{"status", std::string(name_of(result.status))},
                       {"reason", result.reason},
                       {"max_error", report::number_or_null(result.max_error)},
                       {"max_error_in_tolerances", report::number_or_null(result.max_tolerances)},
                       {"on_processor", result.on_processor}});
}

Json unpack(const std::string& name, const JobOutcome& outcome) {
  Json result = {{"name", name}};
  const Json got = outcome.finished ? Json::parse(outcome.result, nullptr, false) : Json();
  if (got.is_object()) {
    result.update(got);
  } else {
    const std::string reason = outcome.finished ? "the result could not be read" : outcome.failure;
    result.update(
        {{"status", "failed"}, {"reason", reason}, {"max_error", nullptr}, {"max_error_in_tolerances", nullptr}});
  }
  return result;
}

void say_case(const Program& program, const Json& result, bool quiet) {
  const std::string status = result["status"];
  if (quiet && status == "passed") return;
  const report::Style style = status == "passed"   ? report::Style::good
                              : status == "failed" ? report::Style::bad
                                                   : report::Style::warning;
  std::string line = report::styled(fmt::format("{:<11}", status), style, program.colour());
  line += fmt::format(" {}", result["name"].get<std::string>());
  if (result["max_error"].is_number()) line += fmt::format("  max error {:.3g}", result["max_error"].get<double>());
  const std::string reason = result["reason"];
  if (!reason.empty()) line += fmt::format("\n            {}", reason);
  program.say(line);
}

// A GPU's driver that this process has started serves none of its children: they ask for the options themselves. Here
// is only seen whether they will get them.
Result<std::optional<NetworkOptions>> options_for_children(const Program& program, double timeout) {
  if (!program.on_gpu()) {
    CONVOY_TRY(NetworkOptions options, program.network_options());
    return std::optional(std::move(options));
  }
  std::optional<Error> failure;
  run_jobs(
      1, timeout,
      [&](int) {
        const auto options = program.network_options();
        if (options.ok()) return std::string("{}");
        return report::dump({{"code", static_cast<int>(options.error().code)}, {"message", options.error().message}});
      },
      [&](int, const JobOutcome& outcome) {
        const Json told = outcome.finished ? Json::parse(outcome.result, nullptr, false) : Json();
        if (!told.is_object()) {
          failure = Error{ErrorCode::internal, "--device " + program.shared.device + ": " + outcome.failure};
        } else if (told.contains("message")) {
          failure = Error{static_cast<ErrorCode>(told["code"].get<int>()), told["message"].get<std::string>()};
        }
      });
  return failure ? Result<std::optional<NetworkOptions>>(*failure) : std::optional<NetworkOptions>();
}

Result<int> conformance(const Program& program, const ConformanceFlags& flags) {
  CONVOY_TRY(std::optional<NetworkOptions> options, options_for_children(program, flags.timeout));
  CONVOY_TRY(std::vector<CaseFolder> cases, find_cases(flags.folder));
  std::erase_if(cases, [&](const CaseFolder& c) { return !selection::glob_list_matches(flags.filter, c.name); });
  if (cases.empty()) {
    return Error{ErrorCode::not_found,
                 fmt::format("{}: no folder with a model.onnx matches '{}'", flags.folder, flags.filter)};
  }
  Tolerances tolerances;
  if (flags.relative >= 0) tolerances.relative = flags.relative;
  if (flags.absolute >= 0) tolerances.absolute = flags.absolute;

  std::map<std::string, int> counts = {{"passed", 0}, {"failed", 0}, {"unsupported", 0}};
  int on_processor = 0;
  Json results = Json::array();
  report::Progress bar("conformance", program.shared.json || flags.quiet);
  const double start = monotonic_seconds();
  run_jobs(
      static_cast<int>(cases.size()), flags.timeout,
      [&](int i) {
        if (!options) options = *program.network_options();  // this child's, for all its cases
        return pack(run_case(cases[i].path, *options, tolerances));
      },
      [&](int i, const JobOutcome& outcome) {
        Json result = unpack(cases[i].name, outcome);
        ++counts[result["status"].get<std::string>()];
        if (!program.on_gpu()) result.erase("on_processor");
        if (result.contains("on_processor") && !result["on_processor"].empty()) ++on_processor;
        say_case(program, result, flags.quiet || program.shared.json);
        results.push_back(std::move(result));
        bar.update(static_cast<double>(i + 1) / static_cast<double>(cases.size()), cases[i].name);
      });
  bar.finish();
  program.say(fmt::format("{} passed, {} failed, {} unsupported, in {}", counts["passed"], counts["failed"],
                          counts["unsupported"], report::seconds(monotonic_seconds() - start)));
  if (program.on_gpu()) program.say(fmt::format("{} with a step on the processor", on_processor));
  program.document({{"passed", counts["passed"]},
                    {"failed", counts["failed"]},
                    {"unsupported", counts["unsupported"]},
                    {"cases", results}});
  if (counts["failed"] > 0) return kFailed;
  if (counts["passed"] > 0) return kDone;
  program.note("nothing passed: every case that was found is unsupported");
  return kUnsupported;
}

}  // namespace

void add_conformance(Parser app, Program& program) {
  Parser command =
      add_subcommand(app, "conformance", "Run ONNX test folders (model.onnx, test_data_set_N/{input,output}_K.pb)",
                     "  convoy conformance onnx/backend/test/data/node --filter 'test_conv*'");
  auto flags = std::make_shared<ConformanceFlags>();
  command.add_option("folder", flags->folder, "Searched recursively; each folder with a model.onnx is a case")
      .required();
  begin(command, Subject::input);
  command.add_option("--filter", flags->filter, "Only cases whose name (path below the folder) matches")
      .type_name("GLOB");
  begin(command, Subject::checking);
  command.add_option("--timeout", flags->timeout, "A case that takes longer fails")
      .type_name("SECONDS")
      .range(0.001, 1e6);
  command.add_option("--rtol", flags->relative, "Relative tolerance instead of 1e-3 (16-bit floats: 1e-2)")
      .non_negative();
  command
      .add_option(
          "--atol", flags->absolute,
          "Absolute tolerance. Default: 1e-7, or where it is more 1e-6 of the output's largest magnitude, up to 2e-5. "
          "With DFT or STFT 2e-5, for models of more than ten nodes 1e-5 of that magnitude, for 16-bit floats 1e-3")
      .non_negative();
  begin(command, Subject::output);
  command.add_flag("--quiet", flags->quiet, "Print only cases that did not pass");
  add_home_flags(command, program);
  add_shared_flags(command, program, "Measure engines for so long in each case (default: predict)");
  command.callback([flags, &program] { program.action = [flags, &program] { return conformance(program, *flags); }; });
}

}  // namespace convoy::cli
