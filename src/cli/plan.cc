// convoy plan: a network's choices, node by node, as a file.
#include <fmt/format.h>

#include "cli/inputs.h"
#include "cli/plan_flags.h"
#include "cli/target.h"
#include "cli/tuning.h"
#include "io/file.h"

namespace convoy::cli {
namespace {

struct Flags {
  std::string model;
  std::string file;
  InputFlags input;
  PlanFlags plan;
};

Result<int> plan(const Program& program, const Flags& flags) {
  CONVOY_TRY(NetworkOptions options, planning_options(program));
  CONVOY_CHECK(apply(program, flags.plan, options));
  const auto database = attach_database(program, options.selection);
  CONVOY_TRY(const auto network, open_network(flags.model));
  CONVOY_TRY(const std::vector<TensorDesc> descs, input_descriptions(*network, flags.input));
  CONVOY_TRY(const std::string text, network->plan(descs, options));
  for (std::size_t at = 0; (at = text.find("\n# ", at)) != std::string::npos; ++at) {  // remarks
    const std::string remark = text.substr(at + 3, text.find('\n', at + 1) - at - 3);
    program.note((flags.plan.plan_file.empty() ? "" : "--plan: ") + remark);
  }
  if (flags.file.empty()) {
    program.raw(text);
  } else {
    CONVOY_CHECK(io::write_file(flags.file, std::as_bytes(std::span(text))));
    program.note(fmt::format("wrote {}; convoy run {} --plan {} replays it", flags.file, flags.model, flags.file));
  }
  program.document({{"model", flags.model}, {"how", options.how}, {"threads", options.threads}, {"plan", text}});
  return kDone;
}

}  // namespace

void add_plan(CLI::App& app, Program& program) {
  CLI::App& command = add_subcommand(app, "plan", "Write what a network would run on, node by node",
                                     "  convoy plan zoo:resnet18 -o resnet18.plan\n"
                                     "  convoy plan model.onnx --how uniform:nhwc -o nhwc.plan\n"
                                     "  convoy plan zoo:mobilenet_v2 --how global --activation-limit 5M\n"
                                     "  convoy run model.onnx --plan nhwc.plan --random-inputs");
  auto flags = std::make_shared<Flags>();
  command.add_option("model", flags->model, "An ONNX file or zoo:NAME")->required();
  add_dim_flag(command, flags->input);
  begin(command, Subject::choosing);
  add_plan_flags(command, flags->plan);
  begin(command, Subject::output);
  command.add_option("-o,--output", flags->file, "Write it to a file (default: standard output)")->type_name("FILE");
  add_shared_flags(
      command, program,
      "Measure engines, operators and conversions for so long first, and choose the fastest (default: don't)");
  add_database_flag(command, program);
  command.callback([flags, &program] { program.action = [flags, &program] { return plan(program, *flags); }; });
}

}  // namespace convoy::cli
