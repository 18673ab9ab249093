#include "cli/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <span>

#include "io/file.h"
#include "report/diagnosis.h"
#include "report/pytorch_script.h"

namespace convoy::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kShown = 10;

Result<void> write(const fs::path& file, const std::string& text) {
  return io::write_file(file.string(), std::as_bytes(std::span(text)));
}

std::string first_failure(const std::vector<report::Finding>& findings, const std::string& problem) {
  for (const report::Finding& finding : findings) {
    if (finding.problem == problem) return fmt::format("{}: {} {}", finding.what, finding.status, finding.message);
  }
  return {};
}

// The math of a problem is inferred from what ran; nothing ran where nothing could be built.
ConvProblem with_math(ConvProblem problem, const report::Record& record, bool& benchmark) {
  for (const report::RecordedGraph& graph : record.graphs) {
    if (graph.problem != print(problem)) continue;
    benchmark = benchmark || graph.benchmark;
    problem.math = report::inferred_math(graph).math;
    break;
  }
  return problem;
}

}  // namespace

Result<void> say_diagnosis(const Program& program, const report::Record& record, const std::string& folder,
                           const std::string& who) {
  const std::vector<report::Finding> findings = report::diagnose(record);
  if (findings.empty()) {
    program.note(fmt::format("{}: no descriptor and no plan failed", who));
    return {};
  }
  CONVOY_CHECK(io::make_folder(folder));
  const auto harmless = static_cast<std::size_t>(
      std::count_if(findings.begin(), findings.end(), [](const report::Finding& finding) { return finding.ran; }));
  program.note(fmt::format("{}: {} failure{}, {} of them of engines in whose place another one was built", who,
                           findings.size(), findings.size() == 1 ? "" : "s", harmless));
  std::string all;
  for (std::size_t i = 0; i < findings.size(); ++i) {
    all += report::text_of(findings[i]) + "\n";
    if (i < kShown) program.note(report::text_of(findings[i], true));
  }
  if (findings.size() > kShown) program.note(fmt::format("and {} more", findings.size() - kShown));
  std::size_t scripts = 0;
  for (const std::string& text : report::failing_problems(findings)) {
    auto problem = parse_problem(text);
    if (!problem) continue;  // parse_record has read a graph's; what a failure names may be no valid problem
    report::ScriptFacts facts{.failure = first_failure(findings, text), .benchmark = record.benchmark};
    facts.asked.push_back(fmt::format("cuDNN {}", record.cudnn));
    for (const std::string& each : record.programs) facts.asked.push_back("program: " + each);
    const ConvProblem wanted = with_math(*problem, record, facts.benchmark);
    const auto script = report::pytorch_script(wanted, facts);
    if (!script) {
      all += fmt::format("no script of {}: {}\n", text, script.error().message);
      program.note(fmt::format("no script of {}: {}", text, script.error().message));
      continue;
    }
    CONVOY_CHECK(write(fs::path(folder) / report::pytorch_script_name(wanted), *script));
    ++scripts;
  }
  CONVOY_CHECK(write(fs::path(folder) / "diagnosis.txt", all));
  program.note(
      fmt::format("{}: {}: diagnosis.txt and {} PyTorch script{}", who, folder, scripts, scripts == 1 ? "" : "s"));
  return {};
}

}  // namespace convoy::cli
