#include "cli/help.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/description.h"
#include "core/nearest.h"

namespace convoy::cli {
namespace {

constexpr std::size_t kWidthInFiles = 100;  // help is prose, which nobody wants in lines without end
constexpr std::size_t kIndent = 2;

// `head` and, beside or under it, `text` wrapped from column `column` on.
std::string entry(const std::string& head, const std::string& text, std::size_t column, std::size_t width) {
  std::string out = std::string(kIndent, ' ') + head;
  if (kIndent + head.size() + 2 > column) {
    out = report::wrapped(out, width) + "\n" + std::string(column, ' ');
  } else {
    out.resize(column, ' ');
  }
  const std::size_t room = std::max<std::size_t>(width - std::min(width, column), 8);
  const auto lines = report::broken(text, room, room);
  return out + fmt::format("{}\n", fmt::join(lines, "\n" + std::string(column, ' ')));
}

std::vector<const CLI::App*> subcommands_with(const CLI::App& app, const std::string& option) {
  std::vector<const CLI::App*> all;
  for (const CLI::App* part : app.get_subcommands({})) {
    if (part->get_option_no_throw(option) != nullptr) all.push_back(part);
    for (const CLI::App* deeper : subcommands_with(*part, option)) all.push_back(deeper);
  }
  return all;
}

std::string full_name(const CLI::App& app) {
  return (app.get_parent() != nullptr ? full_name(*app.get_parent()) + " " : "") + app.get_name();
}

}  // namespace

std::string HelpFormatter::make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const {
  const CommandDescription command = describe(*app);
  const std::size_t width = program_.page().width > 0 ? program_.page().width : kWidthInFiles;
  // Narrow pages have the texts under the names.
  const std::size_t column = width < 72 ? 6 : 30;
  std::string out = fmt::format("{}\n\nUsage: {}\n", command.text, usage(command));
  out = report::wrapped(out, width);
  if (!command.positionals.empty()) out += "\n";
  for (const OptionDescription& positional : command.positionals) {
    out += entry(heading(positional), positional.text, column, width);
  }
  std::string subject;
  for (const OptionDescription& option : command.options) {
    if (option.subject != subject) out += "\n" + option.subject + ":\n";
    subject = option.subject;
    out += entry(heading(option), option.text, column, width);
  }
  if (!command.parts.empty()) out += "\nSubcommands:\n";
  for (const CommandDescription& part : command.parts) {
    out += entry(part.name.substr(command.name.size() + 1), part.text, width < 72 ? 6 : 16, width);
  }
  return out + "\n" + report::wrapped(command.footer, width, 4) + "\n";
}

void add_help(Parser app) {
  // main has made "NAME --help" of it by now, so nothing is ever stored.
  static std::string name;
  Parser command = app.add_subcommand("help", "Show the subcommands, or the options of one",
                                      "Example:\n  convoy help run\n  convoy help db show");
  command.add_option("subcommand", name, "Its name, or names: db show (default: all of them, a line each)");
}

std::string explain_extras(const CLI::App& app, const std::vector<std::string>& arguments,
                           const std::vector<std::string>& extras) {
  const CLI::App* chosen = &app;
  while (!chosen->get_subcommands().empty()) chosen = chosen->get_subcommands().front();
  const std::string& name = chosen->get_name();
  const std::size_t subcommand = std::find(arguments.begin(), arguments.end(), name) - arguments.begin();
  std::vector<std::string> known;
  for (const OptionDescription& option : describe(*chosen).options) {
    for (const std::string& each : option.names) known.push_back(each);
  }
  for (const std::string& argument : extras) {
    if (argument == "--") break;  // what follows is a program's
    if (argument.size() < 2 || argument[0] != '-') continue;
    const std::string option = argument.substr(0, argument.find('='));
    const std::size_t place = std::find(arguments.begin(), arguments.end(), argument) - arguments.begin();
    if (chosen->get_option_no_throw(option) != nullptr && place < subcommand) {
      return fmt::format("{} belongs behind the subcommand: {} {} ...", option, full_name(*chosen), option);
    }
    std::vector<std::string> others;
    for (const CLI::App* other : subcommands_with(app, option)) others.push_back(full_name(*other));
    if (others.empty()) return fmt::format("{} is not an option{}", option, did_you_mean(option, known));
    return fmt::format("{} is not an option of {}, but of {}", option, full_name(*chosen), fmt::join(others, ", "));
  }
  std::vector<std::string> takes;
  for (const OptionDescription& positional : describe(*chosen).positionals) takes.push_back(positional.names[0]);
  return fmt::format("'{}' is one argument too many: {} takes {}", extras.front(), full_name(*chosen),
                     takes.empty() ? "options only" : fmt::format("{} and options", fmt::join(takes, ", ")));
}

}  // namespace convoy::cli
