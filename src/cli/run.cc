// convoy run: a network's answer for given inputs.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/clock.h"
#include "cli/inputs.h"
#include "cli/outputs.h"
#include "cli/target.h"
#include "cli/tuning.h"
#include "report/format.h"
#include "report/table.h"
#include "select/measure/statistics.h"

namespace convoy::cli {
namespace {

struct RunFlags {
  std::string model;
  InputFlags input;
  OutputFlags output;
  std::string select = "stored";
  std::string beside;
  int repeat = 1;
  bool verbose = false;
};

constexpr double kDefaultBudget = 60;  // of --select measured

void say_steps(const Program& program, const Session& session, const std::vector<double>& seconds) {
  report::Table table;
  const bool timed = seconds.size() == session.steps().size();
  table.column("kind").column("runs on").column("chosen by");
  if (timed) table.column("time", report::Align::right);
  table.column("output").column("nodes");
  for (std::size_t i = 0; i < session.steps().size(); ++i) {
    const NetworkStep& step = session.steps()[i];
    std::vector<std::string> cells = {step.kind, step.implementation, step.selection.reason};
    if (timed) cells.push_back(report::seconds(seconds[i]));
    cells.push_back(step.output_shape);
    cells.push_back(step.nodes);
    table.row(std::move(cells), step.kind == "convert" ? report::Style::faint : report::Style::plain);
  }
  program.say(table.render(program.colour()));
}

// Runs of a session in a row; the first of a turn, which finds the other's data in the caches, isn't counted.
Result<double> take_turn(Session& session, std::span<const HostTensor> inputs) {
  constexpr std::size_t kRuns = 3;
  std::vector<double> times;
  for (std::size_t i = 0; i <= kRuns; ++i) {
    RunStatistics statistics;
    CONVOY_CHECK(session.run(inputs, &statistics));
    if (i > 0) times.push_back(statistics.seconds);
  }
  std::sort(times.begin(), times.end());
  return times[kRuns / 2];
}

// How many times as long the network takes with `other` options as with its own, from turns of both in alternating
// order: the machine's drift is in neither. Where their memory lies makes two sessions of the same choices differ by a
// few percent, so both are prepared anew for each pair, each of them first in every second one.
Result<selection::Summary> compare(const Network& network, std::span<const TensorDesc> descs,
                                   const NetworkOptions& options, const NetworkOptions& other,
                                   std::span<const HostTensor> inputs, int rounds) {
  constexpr int kMostPairs = 4;
  const int pairs = std::min(rounds, kMostPairs);
  std::vector<double> ratios;
  for (int pair = 0; pair < pairs; ++pair) {
    std::unique_ptr<Session> sessions[2];  // with the network's own options, with the other ones
    for (int turn = 0; turn < 2; ++turn) {
      const int which = (turn + pair) % 2;
      CONVOY_TRY(sessions[which], network.prepare(descs, which == 0 ? options : other));
    }
    for (int round = pair; round < rounds; round += pairs) {
      double seconds[2];
      for (int turn = 0; turn < 2; ++turn) {
        const int which = (turn + round / pairs) % 2;
        CONVOY_TRY(seconds[which], take_turn(*sessions[which], inputs));
      }
      ratios.push_back(seconds[1] / seconds[0]);
    }
  }
  return selection::summarize(ratios);
}

Result<int> run(const Program& program, RunFlags& flags) {
  CONVOY_CHECK(prepare_outputs(flags.output));
  CONVOY_TRY(NetworkOptions options, program.network_options(flags.select == "measured" ? kDefaultBudget : 0));
  const auto database = flags.select == "heuristic" ? nullptr : attach_database(program, options.selection);
  if (!flags.beside.empty() && flags.select == "measured" && database == nullptr) {
    return Error{ErrorCode::invalid_argument,
                 "--beside: there is no tuning database to keep what --select measured finds"};
  }
  CONVOY_TRY(const auto network, open_network(flags.model));
  CONVOY_TRY(const std::vector<PreparedInput> inputs, read_inputs(*network, flags.input));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for (const std::string& remark : inputs[i].remarks) {
      program.note(fmt::format("input '{}': {}: {}", network->inputs()[i].name, inputs[i].source, remark));
    }
  }
  std::vector<TensorDesc> descs;
  std::vector<HostTensor> tensors;
  for (const PreparedInput& input : inputs) {
    descs.push_back(input.tensor.desc);
    tensors.push_back(input.tensor);
  }

  const double start = monotonic_seconds();
  CONVOY_TRY(const auto session, prepare_with_progress(program, *network, descs, options));
  const double prepare_seconds = monotonic_seconds() - start;
  say_warnings(program, *session);

  std::vector<double> times;
  std::vector<HostTensor> outputs;
  RunStatistics statistics;
  for (int i = 0; i < flags.repeat; ++i) {
    statistics = {};
    CONVOY_TRY(outputs, session->run(tensors, &statistics));
    times.push_back(statistics.seconds);
  }
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  std::optional<selection::Summary> beside;
  if (!flags.beside.empty()) {
    options.selection.mode = SelectionMode::heuristic;  // with what is stored now
    NetworkOptions other_options = options;
    other_options.selection.store = nullptr;
    CONVOY_TRY(beside, compare(*network, descs, options, other_options, tensors, flags.repeat));
  }

  if (flags.verbose) say_steps(program, *session, statistics.step_seconds);
  CONVOY_TRY(Json output_json, report_outputs(program, *network, outputs, inputs, flags.input, flags.output));
  const std::int64_t peak = peak_memory_bytes();
  program.say(fmt::format(
      "\n{} on {} thread{}: {}{}; prepared in {}\npeak memory {}: activations {}, weights {}, workspace {}",
      flags.model, options.threads, options.threads == 1 ? "" : "s", report::seconds(median),
      flags.repeat > 1 ? fmt::format(" (median of {}, fastest {})", flags.repeat, report::seconds(times.front())) : "",
      report::seconds(prepare_seconds), report::bytes(static_cast<double>(peak)),
      report::bytes(static_cast<double>(session->activation_bytes())),
      report::bytes(static_cast<double>(session->weight_bytes())),
      report::bytes(static_cast<double>(session->workspace_bytes()))));

  Json beside_json = nullptr;
  if (beside) {
    program.say(
        fmt::format("the heuristic's choices take {:.3f} times as long, +-{:.1f}% ({} turns of each in one process)",
                    beside->median, 100 * beside->relative_uncertainty(), beside->samples));
    beside_json = {{"select", flags.beside},
                   {"over_this", beside->median},
                   {"relative_uncertainty", beside->relative_uncertainty()},
                   {"turns", beside->samples}};
  }

  Json input_json = Json::array();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    input_json.push_back({{"name", network->inputs()[i].name},
                          {"source", inputs[i].source},
                          {"type", std::string(convoy::name_of(inputs[i].tensor.desc.type))},
                          {"dims", inputs[i].tensor.desc.dims},
                          {"remarks", inputs[i].remarks}});
  }
  Json steps = Json::array();
  for (const NetworkStep& step : session->steps()) steps.push_back(report::to_json(step));
  program.document({{"model", flags.model},
                    {"threads", options.threads},
                    {"inputs", input_json},
                    {"outputs", output_json},
                    {"seconds", median},
                    {"runs", flags.repeat},
                    {"beside", std::move(beside_json)},
                    {"prepare_seconds", prepare_seconds},
                    {"peak_memory_bytes", peak},
                    {"activation_bytes", session->activation_bytes()},
                    {"weight_bytes", session->weight_bytes()},
                    {"workspace_bytes", session->workspace_bytes()},
                    {"steps", steps}});
  return kDone;
}

}  // namespace

void add_run(CLI::App& app, Program& program) {
  CLI::App& command = add_subcommand(app, "run", "Run a network and show its answer",
                                     "  convoy run squeezenet.onnx --input kitten.png --top 5 --labels imagenet.txt\n"
                                     "  convoy run brain.onnx --input t1.nii.gz --argmax --output-dir out\n"
                                     "  convoy run zoo:resnet18 --random-inputs --verbose");
  auto flags = std::make_shared<RunFlags>();
  command.add_option("model", flags->model, "An ONNX file or zoo:NAME")->required();
  add_input_flags(command, flags->input);
  add_output_flags(command, flags->output);
  command
      .add_option("--select", flags->select,
                  "How engines are chosen: heuristic (predicted), stored (the fastest that the tuning database knows, "
                  "else predicted), measured (what it doesn't know is measured and kept)")
      ->type_name("HOW")
      ->check(CLI::IsMember({"heuristic", "stored", "measured"}))
      ->capture_default_str();
  command
      .add_option("--beside", flags->beside,
                  "Then time it side by side with these choices in the same process, --repeat turns of each")
      ->type_name("HOW")
      ->check(CLI::IsMember({"heuristic"}));
  command.add_option("--repeat", flags->repeat, "Run so often and give the median time")
      ->type_name("N")
      ->check(CLI::Range(1, 1000000));
  command.add_flag("--verbose", flags->verbose, "Print every step, what runs it, and what it takes");
  add_shared_flags(command, program, "Measure the engines for so long first and choose the fastest (default: don't)");
  command.callback([flags, &program] { program.action = [flags, &program] { return run(program, *flags); }; });
}

}  // namespace convoy::cli
