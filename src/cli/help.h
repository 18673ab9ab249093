// The command's help, as wide as the terminal.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/program.h"

namespace convoy::cli {

class HelpFormatter final : public CLI::FormatterBase {
 public:
  explicit HelpFormatter(const Program& program) : program_(program) {}
  std::string make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const override;

 private:
  const Program& program_;
};

// The subcommand that stands in lists; main reads "help NAME" as "NAME --help".
void add_help(Parser app);

// What is wrong with arguments that nothing takes; `arguments` are all that were given, `extras` those left over.
std::string explain_extras(const CLI::App& app, const std::vector<std::string>& arguments,
                           const std::vector<std::string>& extras);

}  // namespace convoy::cli
