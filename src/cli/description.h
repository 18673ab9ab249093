// What the command says of itself, as values: help, the man page and shell completion are made from them.
#pragma once

#include <string>
#include <vector>

#include "cli/flags.h"

namespace convoy::cli {

// What an option is about; help lists options by subject, in this order.
enum class Subject { input, choosing, timing, device, checking, output };
const char* name_of(Subject subject);

// Options that are added to `app` from here on are about `subject`.
void begin(Parser app, Subject subject);

struct OptionDescription {
  std::vector<std::string> names;    // "-o", "--output"; the name of a positional
  std::string value;                 // "FILE"; empty for flags
  std::vector<std::string> choices;  // the only values there are; empty where they are not listed
  std::string text;
  std::string subject;  // as name_of(Subject) gives it
  bool positional = false, required = false, repeats = false;
};

struct CommandDescription {
  std::string name;                                     // "convoy db show"
  std::string text;                                     // one line
  std::string footer;                                   // examples
  std::vector<OptionDescription> positionals, options;  // options by subject
  std::vector<CommandDescription> parts;                // subcommands
};

CommandDescription describe(const CLI::App& app);

// "convoy run [OPTIONS] model"
std::string usage(const CommandDescription& command);
// "-o, --output FILE"
std::string heading(const OptionDescription& option);

}  // namespace convoy::cli
