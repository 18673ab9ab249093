// convoy plan: a network's choices, node by node, as a file.
#include <fmt/format.h>

#include <optional>

#include "cli/batch.h"
#include "cli/inputs.h"
#include "cli/plan_flags.h"
#include "cli/target.h"
#include "cli/tuning.h"
#include "convoy/network_precision.h"
#include "io/file.h"
#include "report/format.h"
#include "report/progress.h"

namespace convoy::cli {
namespace {

struct PlanCommandFlags {
  std::string model;
  std::string file;
  InputFlags input;
  PlanFlags plan;
  std::optional<double> max_error;
};

bool has_inputs(const InputFlags& input) { return !input.inputs.empty() || !input.files.empty(); }

Result<Batch> read_batch(const Network& network, const InputReader& reader, std::size_t i) {
  std::vector<Sample> samples;
  CONVOY_TRY(Sample sample, reader.read(i));
  samples.push_back(std::move(sample));
  return assemble(network, std::move(samples), reader.batch());
}

// Mixed types, within an error of the outputs.
Result<NetworkPlan> plan_within(const Program& program, const PlanCommandFlags& flags, const Network& network,
                                const NetworkOptions& options) {
  if (options.precision == DataType::f32 && options.math == MathMode::strict) {
    return Error{ErrorCode::invalid_argument, "--max-error: it needs --precision bf16, f16 or tf32"};
  }
  if (!flags.plan.plan_file.empty() || (options.how != "global" && flags.plan.how != PlanFlags().how)) {
    return Error{ErrorCode::invalid_argument, "--max-error: it needs --how global, without --plan"};
  }
  InputFlags own = flags.input;
  own.random = own.random || !has_inputs(own);
  CONVOY_TRY(const InputReader reader, InputReader::open(network, own));
  std::vector<NetworkInputs> inputs;
  for (std::size_t i = 0; i < reader.samples(); ++i) {
    CONVOY_TRY(const Batch batch, read_batch(network, reader, i));
    inputs.push_back(batch.tensors);
  }
  report::Progress bar("precision");
  auto choice =
      choose_precision(network, inputs, options, *flags.max_error,
                       [&](double fraction, std::string_view what) { bar.update(fraction, std::string(what)); });
  bar.finish();
  if (!choice.ok()) return choice.error().within("--max-error");
  for (const std::string& remark : choice->remarks) program.note(remark);
  program.note(fmt::format(
      "{} of its nodes in {}: error {:.3g} of {:.3g} on {}; of the fastest {:.3g}", choice->narrowed,
      options.precision == DataType::f32 ? name_of(options.math) : name_of(options.precision), choice->error,
      *flags.max_error, own.random ? "random inputs" : fmt::format("{} inputs", inputs.size()), choice->narrow_error));
  program.note(fmt::format("predicted {}; in f32 {}, the fastest {}", report::seconds(choice->predicted_seconds),
                           report::seconds(choice->f32_seconds), report::seconds(choice->narrow_seconds)));
  return std::move(choice->plan);
}

Result<NetworkPlan> made_plan(const Program& program, const PlanCommandFlags& flags, const Network& network,
                              const NetworkOptions& options) {
  if (flags.max_error) return plan_within(program, flags, network, options);
  if (has_inputs(flags.input) || flags.input.batch > 0 || flags.input.random) {  // for their sizes
    InputFlags own = flags.input;
    own.random = true;
    CONVOY_TRY(const InputReader reader, InputReader::open(network, own));
    CONVOY_TRY(const Batch batch, read_batch(network, reader, 0));
    return network.plan(batch.descs(), options);
  }
  CONVOY_TRY(const std::vector<TensorDesc> descs, input_descriptions(network, flags.input));
  return network.plan(descs, options);
}

Result<int> plan(const Program& program, const PlanCommandFlags& flags) {
  CONVOY_TRY(NetworkOptions options, planning_options(program));
  CONVOY_CHECK(apply(program, flags.plan, options));
  const auto database = attach_database(program, options.selection);
  CONVOY_TRY(const auto network, open_network(flags.model));
  CONVOY_TRY(const NetworkPlan made, made_plan(program, flags, *network, options));
  for (const std::string& remark : made.remarks) {
    program.note((flags.plan.plan_file.empty() ? "" : "--plan: ") + remark);
  }
  const std::string text = print(made);
  if (!flags.file.empty()) {
    CONVOY_CHECK(io::write_file(flags.file, std::as_bytes(std::span(text))));
    program.note(fmt::format("wrote {}; convoy run {} --plan {} replays it", flags.file, flags.model, flags.file));
  } else if (!program.shared.json) {  // the document has it
    program.raw(text);
  }
  program.document({{"model", flags.model}, {"how", options.how}, {"threads", options.threads}, {"plan", text}});
  return kDone;
}

}  // namespace

void add_plan(Parser app, Program& program) {
  Parser command = add_subcommand(app, "plan", "Write what a network would run on, node by node",
                                  "  convoy plan zoo:resnet18 -o resnet18.plan\n"
                                  "  convoy plan model.onnx --how uniform:nhwc -o nhwc.plan\n"
                                  "  convoy plan zoo:mobilenet_v2 --how global --activation-limit 5M\n"
                                  "  convoy run model.onnx --plan nhwc.plan --random-inputs");
  auto flags = std::make_shared<PlanCommandFlags>();
  command.add_option("model", flags->model, "An ONNX file or zoo:NAME").required();
  add_input_flags(command, flags->input);
  begin(command, Subject::choosing);
  add_plan_flags(command, flags->plan);
  command
      .add_option("--max-error", flags->max_error,
                  "With --precision: narrow only nodes with which each output differs from the f32 network's by at "
                  "most this share (L2 norms), on the inputs given or on random ones")
      .type_name("SHARE");
  begin(command, Subject::output);
  command.add_option("-o,--output", flags->file, "Write it to a file (default: standard output)").type_name("FILE");
  add_shared_flags(
      command, program,
      "Measure engines, operators and conversions for so long first, and choose the fastest (default: don't)");
  add_database_flag(command, program);
  command.callback([flags, &program] { program.action = [flags, &program] { return plan(program, *flags); }; });
}

}  // namespace convoy::cli
