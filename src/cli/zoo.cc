// convoy zoo: a network of the zoo as an ONNX file.
#include <fmt/format.h>

#include <span>

#include "cli/program.h"
#include "io/file.h"
#include "report/format.h"

namespace convoy::cli {
namespace {

struct ZooFlags {
  std::string name;
  std::string file;
};

Result<int> write_model(const Program& program, const ZooFlags& flags) {
  const std::string name = flags.name.starts_with("zoo:") ? flags.name.substr(4) : flags.name;
  CONVOY_TRY(const std::string model, zoo_model(name));
  CONVOY_CHECK(io::write_file(flags.file, std::as_bytes(std::span(model))));
  program.say(fmt::format("{}: {}", flags.file, report::bytes(static_cast<double>(model.size()))));
  program.document({{"name", name}, {"file", flags.file}, {"bytes", model.size()}});
  return kDone;
}

}  // namespace

void add_zoo(Parser app, Program& program) {
  Parser command = add_subcommand(app, "zoo", "Write a network of the zoo as an ONNX file",
                                  "  convoy zoo resnet18 -o resnet18.onnx");
  auto flags = std::make_shared<ZooFlags>();
  command.add_option("name", flags->name, "Its name (see convoy list zoo)").required();
  begin(command, Subject::output);
  command.add_option("-o,--output", flags->file, "The file to write").type_name("FILE").required();
  add_display_flags(command, program);
  command.callback([flags, &program] { program.action = [flags, &program] { return write_model(program, *flags); }; });
}

}  // namespace convoy::cli
