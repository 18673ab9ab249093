#include "cli/description.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <utility>

namespace convoy::cli {
namespace {

constexpr std::array kSubjects = {Subject::input,  Subject::choosing, Subject::timing,
                                  Subject::device, Subject::checking, Subject::output};

// The values of a CLI::IsMember among the validators, which CLI11 tells as text only: "HOW:{cover,exact}".
std::vector<std::string> choices_in(const std::string& type) {
  std::vector<std::string> choices;
  const auto open = type.find(":{"), close = type.find('}');
  if (open == std::string::npos || close == std::string::npos || close < open) return choices;
  std::string rest = type.substr(open + 2, close - open - 2);
  for (std::size_t comma; (comma = rest.find(',')) != std::string::npos; rest.erase(0, comma + 1)) {
    choices.push_back(rest.substr(0, comma));
  }
  choices.push_back(rest);
  std::sort(choices.begin(), choices.end());
  return choices;
}

OptionDescription describe(const CLI::App& app, const CLI::Option& option) {
  OptionDescription description;
  description.positional = option.get_positional();
  if (description.positional) {
    description.names.push_back(option.get_name(true, false));
  } else {
    for (const std::string& name : option.get_snames()) description.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) description.names.push_back("--" + name);
  }
  description.text = option.get_description();
  description.subject =
      &option == app.get_help_ptr() || &option == app.get_version_ptr() ? name_of(Subject::output) : option.get_group();
  description.required = option.get_required();
  description.repeats = option.get_expected_max() >= CLI::detail::expected_max_vector_size;
  if (option.get_type_size() == 0) return description;
  const std::string type = option.get_type_name();
  description.value = type.substr(0, type.find(':'));
  description.choices = choices_in(type);
  const bool named =
      std::all_of(description.choices.begin(), description.choices.end(),
                  [&](const std::string& choice) { return description.text.find(choice) != std::string::npos; });
  if (!named) description.text += fmt::format(": {}", fmt::join(description.choices, ", "));
  const std::string& standard = option.get_default_str();
  if (!standard.empty() && description.text.find("default") == std::string::npos) {
    description.text += fmt::format(" (default {})", standard);
  }
  return description;
}

}  // namespace

const char* name_of(Subject subject) {
  switch (subject) {
    case Subject::input:
      return "Input";
    case Subject::choosing:
      return "Choosing";
    case Subject::timing:
      return "Timing";
    case Subject::device:
      return "Device";
    case Subject::checking:
      return "Checking";
    case Subject::output:
      break;
  }
  return "Output";
}

void begin(Parser app, Subject subject) { app.begin_group(name_of(subject)); }

CommandDescription describe(const CLI::App& app) {
  CommandDescription command;
  for (const CLI::App* part = &app; part != nullptr; part = part->get_parent()) {
    command.name = part->get_name() + (command.name.empty() ? "" : " ") + command.name;
  }
  command.text = app.get_description();
  command.footer = app.get_footer();
  for (const CLI::Option* option : app.get_options({})) {
    if (option->get_group().empty()) continue;
    OptionDescription description = describe(app, *option);
    auto& list = description.positional ? command.positionals : command.options;
    list.push_back(std::move(description));
  }
  const auto place = [](const OptionDescription& option) {
    return std::find_if(kSubjects.begin(), kSubjects.end(),
                        [&](Subject subject) { return option.subject == name_of(subject); }) -
           kSubjects.begin();
  };
  std::stable_sort(command.options.begin(), command.options.end(),
                   [&](const auto& a, const auto& b) { return place(a) < place(b); });
  for (const CLI::App* part : app.get_subcommands({})) command.parts.push_back(describe(*part));
  return command;
}

std::string usage(const CommandDescription& command) {
  std::string text = command.name;
  if (!command.options.empty()) text += " [OPTIONS]";
  for (const OptionDescription& positional : command.positionals) {
    const std::string name = positional.names[0] + (positional.repeats ? "..." : "");
    text += positional.required ? " " + name : " [" + name + "]";
  }
  if (!command.parts.empty()) text += " SUBCOMMAND";
  return text;
}

std::string heading(const OptionDescription& option) {
  std::string text = fmt::format("{}", fmt::join(option.names, ", "));
  if (!option.positional && !option.value.empty()) text += " " + option.value;
  return text;
}

}  // namespace convoy::cli
