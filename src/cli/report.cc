// convoy report: of a network, its plans side by side; of a recorded program, what its convolutions took, and what they
// could have taken.
#include <fmt/format.h>

#include <set>
#include <span>

#include "cli/diagnosis.h"
#include "cli/network_report.h"
#include "cli/program.h"
#include "cli/program_reports.h"
#include "cli/timed_plans.h"
#include "cli/tuning.h"
#include "io/file.h"
#include "report/format.h"
#include "report/program_view.h"

namespace convoy::cli {
namespace {

constexpr int kTop = 30;

struct ReportFlags {
  NetworkReportFlags network;  // its first subject may be a record
  std::vector<std::string> outputs, pages;
  std::string nodes;
  std::string twins;
  std::string diagnosis;      // a folder; empty: it isn't asked for
  double copy_gigabytes = 0;  // a second; 0: not said
  int top = kTop;
  bool any_of_records() const {
    return !nodes.empty() || !twins.empty() || !diagnosis.empty() || copy_gigabytes > 0 || top != kTop;
  }
};

Result<void> write(const Program& program, const std::string& path, const std::string& text) {
  CONVOY_CHECK(io::write_file(path, std::as_bytes(std::span(text))));
  program.note(fmt::format("wrote {}", path));
  return {};
}

// The numbers of the convolutions that --node means.
Result<std::set<int>> numbers_of(const report::ProgramReport& report, const std::string& nodes) {
  std::set<int> numbers;
  for (const report::Convolution& each : report.convolutions) {
    if (node_matches(nodes, "", each.graph.problem, static_cast<std::size_t>(each.number)) ||
        node_matches(nodes, "", report::short_name(each.problem), static_cast<std::size_t>(each.number))) {
      numbers.insert(each.number);
    }
  }
  if (numbers.empty()) {
    return Error{
        ErrorCode::invalid_argument,
        fmt::format("--node: '{}' is no convolution of the record; they have numbers from 1 to {}, and problem "
                    "strings (convoy report --top 0)",
                    nodes, report.convolutions.size())};
  }
  return numbers;
}

Result<int> report_network(const Program& program, const ReportFlags& flags) {
  if (flags.any_of_records()) {
    return Error{ErrorCode::invalid_argument,
                 "--node, --top, --diagnose, --twins and --copy-rate are for the record of a program"};
  }
  for (const std::string& path : flags.outputs) {
    if (path.ends_with(".html") || path.ends_with(".json")) continue;
    return Error{ErrorCode::invalid_argument, fmt::format("--output {}: a network's report is .html or .json", path)};
  }
  CONVOY_TRY(const report::NetworkReport made, report_on_network(program, flags.network));
  for (const std::string& path : flags.outputs) {
    CONVOY_CHECK(
        write(program, path, path.ends_with(".json") ? report::dump(report::to_json(made)) : report::html_of(made)));
  }
  for (const std::string& path : flags.pages) CONVOY_CHECK(write(program, path, report::html_of(made)));
  say_plans(program, made.plans, made.peers);
  program.document(report::to_json(made));
  return kDone;
}

Result<int> report_program(const Program& program, const ReportFlags& flags) {
  const std::string& file = flags.network.subjects.front();
  if (flags.network.any()) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("{} is neither a network (zoo:NAME, FILE.onnx) nor a plan: several subjects, --peer and "
                             "--dim are for these",
                             file)};
  }
  CONVOY_TRY(const RecordText record, read_record(file));
  const auto bandwidth = flags.copy_gigabytes > 0 ? std::optional(flags.copy_gigabytes * 1e9) : std::nullopt;
  CONVOY_TRY(const ProgramReports made, report_on(record, file, bandwidth));
  for (const std::string& remark : made.former_names) program.note(fmt::format("{}: {}", file, remark));
  for (const std::string& path : flags.outputs) {
    CONVOY_CHECK(write(program, path, report::rendered(made.report, made.layouts, path)));
  }
  for (const std::string& path : flags.pages)
    CONVOY_CHECK(write(program, path, report::html_of(made.report, made.layouts)));
  if (!flags.twins.empty()) {
    if (made.layouts.twins.empty()) {
      program.note("--twins: all that is needed is measured; no file is written");
    } else {
      CONVOY_CHECK(write(program, flags.twins, made.layouts.twins));
    }
  }
  if (!flags.diagnosis.empty()) {
    CONVOY_TRY(const report::Record failed, report::parse_record(record.text, file));
    CONVOY_CHECK(say_diagnosis(program, failed, flags.diagnosis, "convoy report"));
  }
  if (!flags.nodes.empty()) {
    CONVOY_TRY(const std::set<int> numbers, numbers_of(made.report, flags.nodes));
    program.say(report::layers_text(made.report, numbers, program.page()));
  } else if ((flags.outputs.empty() && flags.pages.empty()) || program.shared.json) {
    program.say(report::text_of(made.report, made.layouts, program.page(), flags.top));
  }
  program.document(report::to_json(made.report, made.layouts));
  return kDone;
}

}  // namespace

void add_report(Parser app, Program& program) {
  Parser command = add_subcommand(app, "report",
                                  "Show a network's plans side by side, or what a recorded program's convolutions "
                                  "took and could take",
                                  "  convoy report zoo:resnet18 -o resnet18.html\n"
                                  "  convoy report model.onnx a.plan uniform:nhwc --threads 1 -o plans.html\n"
                                  "  convoy report r.jsonl\n"
                                  "  convoy report r.jsonl --html r.html\n"
                                  "  convoy report r.jsonl --node 1");
  auto flags = std::make_shared<ReportFlags>();
  begin(command, Subject::input);
  command
      .add_option("subject", flags->network.subjects,
                  "An ONNX file or zoo:NAME, and plans of it to show: files, or as --how of convoy plan has them "
                  "(default: global greedy local uniform:nhwc); or what convoy exec --record writes, also while the "
                  "program runs")
      .required();
  add_dim_flag(command, flags->network.input);
  begin(command, Subject::timing);
  command.add_option("--rounds", flags->network.rounds, "Runs of each plan of a network, interleaved")
      .type_name("N")
      .range(1, 100000)
      .capture_default_str();
  command
      .add_option("--peer", flags->network.peers,
                  "Of a network: how long a run takes in another program, to be shown beside: ort=12.3ms")
      .type_name("NAME=TIME")
      .allow_extra_args(false);
  begin(command, Subject::output);
  command
      .add_option("--node,--problem", flags->nodes,
                  "Of a record: one layer, all three passes, every algorithm: its number in the report, or a glob for "
                  "its problem "
                  "string")
      .type_name("NODE");
  command.add_option("--top", flags->top, "Of a record: show so many convolutions (default 30; 0: all)")
      .type_name("N")
      .range(0, 1'000'000'000);
  command
      .add_option("-o,--output", flags->outputs,
                  "Write the report to FILE: a page of HTML where it ends in .html, JSON where in .json, else text")
      .type_name("FILE");
  command.add_option("--html", flags->pages, "Write it as a page that needs no other file").type_name("FILE");
  command
      .add_option(
          "--diagnose", flags->diagnosis,
          "Of a record: say why descriptors and plans failed; FOLDER gets a PyTorch script for each such convolution")
      .type_name("FOLDER");
  command
      .add_option("--twins", flags->twins,
                  "Of a record: write the problems that have to be tuned before the times with every tensor NCHW or "
                  "channels_last are known")
      .type_name("FILE");
  command
      .add_option("--copy-rate", flags->copy_gigabytes,
                  "Of a record: GB/s that the GPU reads and writes in a copy: for the cost of conversions (default: "
                  "where it is "
                  "known)")
      .type_name("GB/S")
      .positive();
  add_shared_flags(command, program,
                   "Of a network: measure engines, operators and conversions for so long for each plan that is made "
                   "(default: don't)");
  add_database_flag(command, program);
  command.callback([flags, &program] {
    program.action = [flags, &program] {
      const bool network = is_network_subject(flags->network.subjects.front());
      return network ? report_network(program, *flags) : report_program(program, *flags);
    };
  });
}

}  // namespace convoy::cli
