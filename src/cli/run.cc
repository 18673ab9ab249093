// convoy run: a network's answer for given inputs.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/clock.h"
#include "cli/batch.h"
#include "cli/beside.h"
#include "cli/inputs.h"
#include "cli/output_comparison.h"
#include "cli/outputs.h"
#include "cli/plan_flags.h"
#include "cli/run_steps.h"
#include "cli/run_timing.h"
#include "cli/target.h"
#include "cli/tuning.h"
#include "io/file.h"
#include "report/format.h"
#include "report/trace.h"

namespace convoy::cli {
namespace {

struct RunFlags {
  std::string model;
  InputFlags input;
  OutputFlags output;
  TimingFlags timing;
  PlanFlags plan;
  std::string compare;
  std::string select = "stored";
  std::string beside;
  bool verbose = false;
  std::string nodes;  // of the steps that --verbose prints
  std::string trace;  // a file
};

constexpr double kRunBudget = 60;  // of --select measured

// The answers to all samples, a batch at a time.
struct Answers {
  std::vector<Json> inputs;  // of each sample
  Batch last;
  RunTimes times;
  double seconds = 0;  // from the first file to the last answer, without preparing the network
};

class Remarks {
 public:
  explicit Remarks(const Program& program) : program_(program) {}
  // What was done to a sample's inputs; what was said of another one is not said again.
  void say(const Network& network, const Sample& sample) {
    for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
      const std::string& name = network.inputs()[i].name;
      for (const std::string& remark : sample.inputs[i].remarks) {
        if (!said_.insert(name + remark).second) continue;
        program_.note(fmt::format("input '{}': {}: {}", name, sample.inputs[i].source, remark));
      }
    }
  }

 private:
  const Program& program_;
  std::set<std::string> said_;
};

Json inputs_json(const Network& network, const Sample& sample) {
  Json all = Json::array();
  for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
    const PreparedInput& input = sample.inputs[i];
    all.push_back({{"name", network.inputs()[i].name},
                   {"source", input.source},
                   {"type", std::string(convoy::name_of(input.tensor.desc.type))},
                   {"dims", input.tensor.desc.dims},
                   {"remarks", input.remarks}});
  }
  return all;
}

Result<Answers> answer(const Program& program, const Network& network, const InputReader& reader, Runner& runner,
                       OutputReport& report, OutputComparison* comparison) {
  Answers answers;
  Remarks remarks(program);
  const double start = monotonic_seconds();
  for (std::size_t next = 0; next < reader.samples();) {
    std::vector<Sample> samples;
    std::size_t wanted = 1;
    while (samples.size() < wanted && next < reader.samples()) {
      CONVOY_TRY(Sample sample, reader.read(next++));
      if (samples.empty()) wanted = samples_a_run(network, sample, reader.batch());
      remarks.say(network, sample);
      answers.inputs.push_back(inputs_json(network, sample));
      samples.push_back(std::move(sample));
    }
    CONVOY_TRY(answers.last, assemble(network, std::move(samples), reader.batch()));
    const Batch& batch = answers.last;
    if (batch.repeats > 0) {
      program.note(
          fmt::format("the last batch of {} is filled up with {} again", batch.items, batch.samples.back().name));
    }
    CONVOY_TRY(const Runner::Run run, runner.run(batch.tensors));
    answers.times.add(run.statistics, run.fresh, batch.items);
    std::vector<std::vector<HostTensor>> outputs;
    for (std::size_t i = 0; i < batch.samples.size(); ++i) {
      CONVOY_TRY(auto part, outputs_of(network, batch, i, run.outputs));
      CONVOY_CHECK(report.add(batch.samples[i], part));
      outputs.push_back(std::move(part));
    }
    if (comparison != nullptr) CONVOY_CHECK(comparison->add(batch, outputs));
  }
  answers.seconds = monotonic_seconds() - start - runner.prepare_seconds();
  return answers;
}

// Of one more run, which finds the caches as runs in a row do. What a run takes that is not traced is in it, too.
Result<void> write_trace(const Program& program, const RunFlags& flags, Session& session,
                         std::span<const HostTensor> inputs, int threads) {
  CONVOY_CHECK(session.trace(inputs));
  RunStatistics untraced{.each_step = false};
  CONVOY_CHECK(session.run(inputs, &untraced));
  CONVOY_TRY(const RunTrace trace, session.trace(inputs));
  Json document = report::trace_document(flags.model, threads, session.steps(), trace);
  document["otherData"]["untraced_seconds"] = untraced.seconds;
  if (untraced.device_seconds) document["otherData"]["untraced_device_seconds"] = *untraced.device_seconds;
  const std::string text = report::dump(document);
  CONVOY_CHECK(io::write_file(flags.trace, std::as_bytes(std::span(text))));
  program.note(fmt::format("wrote {}: ui.perfetto.dev and chrome://tracing show it", flags.trace));
  return {};
}

// The last lines for people.
std::string summary(const RunFlags& flags, int threads, const InputReader& reader, const Answers& answers,
                    const Runner& runner, const Session& session, std::int64_t peak) {
  const BatchParts parts = session.parts();
  std::string text =
      fmt::format("\n{} on {} thread{}{}: {}", flags.model, threads, threads == 1 ? "" : "s",
                  parts == BatchParts{} ? "" : ", the batch in parts: " + print(parts), answers.times.text());
  if (reader.samples() > 1) {
    text += fmt::format("\n{} inputs in {} with reading and writing, {}", reader.samples(),
                        report::seconds(answers.seconds),
                        report::per_second(static_cast<double>(reader.samples()) / answers.seconds, "input"));
  }
  return text + fmt::format("\nprepared in {}{}\npeak memory {}: activations {}, weights {}, workspace {}",
                            report::seconds(runner.prepare_seconds()),
                            runner.prepared() > 1 ? fmt::format(", for {} sizes of inputs", runner.prepared()) : "",
                            report::bytes(static_cast<double>(peak)),
                            report::bytes(static_cast<double>(session.activation_bytes())),
                            report::bytes(static_cast<double>(session.weight_bytes())),
                            report::bytes(static_cast<double>(session.workspace_bytes())));
}

// The document's first fields: what went in and came out.
Json answers_json(const RunFlags& flags, int threads, const InputReader& reader, const Answers& answers,
                  const OutputReport& report) {
  Json json = {{"model", flags.model}, {"threads", threads}};
  if (reader.samples() > 1) {
    json["samples"] = Json::array();
    for (std::size_t i = 0; i < reader.samples(); ++i) {
      json["samples"].push_back({{"inputs", answers.inputs[i]}, {"outputs", report.json()[i]}});
    }
    json["samples_per_second"] = static_cast<double>(reader.samples()) / answers.seconds;
  } else {
    json["inputs"] = answers.inputs[0];
    json["outputs"] = report.json()[0];
  }
  return json;
}

Result<int> run(const Program& program, RunFlags& flags) {
  const bool answers_asked = flags.output.asked() || !flags.compare.empty();
  CONVOY_CHECK(prepare_outputs(flags.output));
  CONVOY_TRY(const TimingPlan timing, timing_plan(flags.timing));
  CONVOY_TRY(NetworkOptions options, planning_options(program, flags.select == "measured" ? kRunBudget : 0));
  CONVOY_CHECK(apply(program, flags.plan, options));
  if (flags.select != "stored") options.kept_plans.clear();
  const auto database = flags.select == "heuristic" ? nullptr : attach_database(program, options.selection);
  if (!flags.beside.empty() && options.selection.mode == SelectionMode::measured && database == nullptr) {
    return Error{ErrorCode::invalid_argument, "--beside: there is no tuning database to keep what is measured"};
  }
  NetworkOptions other = options;
  if (!flags.beside.empty()) {
    CONVOY_TRY(other, other_side(program, flags.beside, options));
  }
  CONVOY_TRY(const auto network, open_network(flags.model));
  CONVOY_TRY(const InputReader reader, InputReader::open(*network, flags.input));
  for (const std::string& remark : reader.remarks()) program.note(remark);
  const bool several = reader.samples() > 1;
  OutputReport report(program, *network, flags.output, flags.input, several);
  std::unique_ptr<OutputComparison> comparison;
  if (!flags.compare.empty()) {
    CONVOY_TRY(comparison, OutputComparison::open(program, *network, options, flags.compare, several));
  }
  Runner runner(program, *network, options);
  CONVOY_TRY(Answers answers, answer(program, *network, reader, runner, report, comparison.get()));
  Session& session = runner.session();
  for (const std::string& remark : session.remarks())
    program.note((flags.plan.plan_file.empty() ? "" : "--plan: ") + remark);
  // Where answers were asked for, they are not kept waiting for a time.
  if (flags.timing.given() || flags.verbose || !flags.nodes.empty() || (!answers_asked && !several)) {
    CONVOY_CHECK(answers.times.measure(session, answers.last.tensors, timing));
  }

  if (!flags.trace.empty()) CONVOY_CHECK(write_trace(program, flags, session, answers.last.tensors, options.threads));

  std::optional<Beside> beside;
  if (!flags.beside.empty()) {
    // With what is stored now.
    NetworkOptions own = options;
    own.selection.mode = other.selection.mode = SelectionMode::heuristic;
    CONVOY_TRY(beside, compare_sides(*network, answers.last.descs(), flags.beside, own, other, answers.last.tensors,
                                     flags.timing.repeat.value_or(1)));
  }

  const std::vector<double> step_seconds = answers.times.step_seconds();
  if (flags.verbose || !flags.nodes.empty()) {
    CONVOY_CHECK(say_steps(program, flags.model, session, step_seconds, flags.nodes));
  }
  report.say();
  const Json compared = comparison != nullptr ? comparison->say() : Json();
  const std::int64_t peak = peak_memory_bytes();
  program.say(summary(flags, options.threads, reader, answers, runner, session, peak));

  Json rules = say_rule_uses(program, "--rules", options.selection.rules, convolutions_of(session));
  Json beside_json = nullptr;
  if (beside) {
    beside_json = say_beside(program, *beside);
    if (!other.selection.rules.empty()) {
      say_rule_uses(program, "--beside", other.selection.rules, convolutions_of(session));
    }
  }

  Json document = answers_json(flags, options.threads, reader, answers, report);
  document.update(answers.times.json());
  if (comparison != nullptr) document["compare"] = compared;
  document.update({{"beside", std::move(beside_json)},
                   {"rules", std::move(rules)},
                   {"parts", print(session.parts())},
                   {"prepare_seconds", runner.prepare_seconds()},
                   {"peak_memory_bytes", peak},
                   {"activation_bytes", session.activation_bytes()},
                   {"weight_bytes", session.weight_bytes()},
                   {"workspace_bytes", session.workspace_bytes()},
                   {"steps", steps_json(session, step_seconds)}});
  program.document(document);
  return kDone;
}

}  // namespace

void add_run(Parser app, Program& program) {
  Parser command = add_subcommand(app, "run", "Run a network and show its answer",
                                  "  convoy run squeezenet.onnx --input kitten.png --top 5 --labels imagenet.txt\n"
                                  "  convoy run squeezenet.onnx --input *.jpg --labels imagenet.txt\n"
                                  "  convoy run brain.onnx --input t1.nii.gz --argmax --output-dir out\n"
                                  "  convoy run int8.onnx --input kitten.png --compare f32.onnx\n"
                                  "  convoy run zoo:resnet18 --random-inputs --verbose");
  auto flags = std::make_shared<RunFlags>();
  command.add_option("model", flags->model, "An ONNX file or zoo:NAME").required();
  add_input_flags(command, flags->input);
  add_output_flags(command, flags->output);
  command
      .add_option("--compare", flags->compare,
                  "Compare the outputs with those of another network on the same inputs, or with files: .npy or .pb "
                  "([OUTPUT=]FILE), or a folder that --output-dir has written")
      .type_name("MODEL|FILE|DIR");
  begin(command, Subject::choosing);
  command
      .add_option("--select", flags->select,
                  "How engines are chosen: heuristic (predicted), stored (the fastest in the tuning database, else "
                  "predicted), measured (what is missing there is measured first)")
      .type_name("HOW")
      .one_of({"heuristic", "stored", "measured"})
      .capture_default_str();
  add_plan_flags(command, flags->plan);
  begin(command, Subject::timing);
  add_timing_flags(command, flags->timing);
  command.add_option("--beside", flags->beside, kBesideHelp).type_name("HOW|FILE");
  command
      .add_option("--trace", flags->trace,
                  "Write a trace of a run for Perfetto and Chrome: each step, and each thread's part of it")
      .type_name("FILE");
  begin(command, Subject::output);
  command.add_flag("--verbose", flags->verbose,
                   "Print every step, what runs it, how long it takes, its share and its speed");
  command
      .add_option("--node", flags->nodes,
                  "Print only steps whose name or problem string matches a list of globs, or the convolutions of this "
                  "number in convoy explain's list")
      .type_name("GLOB");
  add_home_flags(command, program);
  add_shared_flags(command, program, "Measure the engines for so long first and choose the fastest (default: don't)");
  add_database_flag(command, program);
  command.callback([flags, &program] { program.action = [flags, &program] { return run(program, *flags); }; });
}

}  // namespace convoy::cli
