// convoy completion, convoy man: what shells and man show, made from the command's own description.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/environment.h"
#include "cli/description.h"
#include "cli/plan_flags.h"
#include "cli/program.h"
#include "convoy/version.h"
#include "engines/table.h"

namespace convoy::cli {
namespace {

using Words = std::vector<std::string>;

// What an option's value or a positional argument may be, as far as a shell can complete it.
struct Completion {
  Words words;
  bool files = false, folders = false;
};

Words engine_names() {
  Words names;
  for (const Engine* engine : all_engines()) names.push_back(engine->info().name);
  return names;
}

Words zoo_targets() {
  Words names;
  for (const std::string& name : zoo_names()) names.push_back("zoo:" + name);
  return names;
}

Words networks_and_plans() {
  Words words = zoo_targets();
  words.insert(words.end(), how_names().begin(), how_names().end());
  return words;
}

Completion completion_for(const OptionDescription& option) {
  static const auto& known_words = *new std::map<std::string, Words>{
      {"--engines", engine_names()},
      {"--vs", engine_names()},
      {"--config", {"full", "jit-only", "portable"}},
      {"--objective", {"time", "workspace", "energy", "memory"}},
      {"--device", {"cpu", "cuda"}},
      {"--dtype", {"f64", "f32", "f16", "bf16", "f8_e4m3", "f8_e5m2", "s8", "u8"}},
      {"--pass", {"fprop", "dgrad", "wgrad"}},
      {"--resize", {"exact", "cover", "none"}},
      {"--normalize", {"minmax", "zscore", "none"}},
      {"name", zoo_names()},
      {"model", zoo_targets()},
      {"target", zoo_targets()},
      {"subject", networks_and_plans()},
      {"--how", how_names()},
      {"a", how_names()},
      {"b", how_names()},
  };
  Completion completion;
  completion.words = option.choices;
  const auto known = known_words.find(option.names.back());
  if (known != known_words.end())
    completion.words.insert(completion.words.end(), known->second.begin(), known->second.end());
  const std::string& name = option.names.back();
  completion.files = option.value.ends_with("FILE") || name == "model" || name == "target" || name == "subject" ||
                     name == "file" || name == "files";
  completion.folders = option.value == "DIR" || name == "folder";
  return completion;
}

std::string in_quotes(std::string_view text) {  // for either shell
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

void all_of(const CommandDescription& command, std::vector<const CommandDescription*>& all) {
  all.push_back(&command);
  for (const CommandDescription& part : command.parts) all_of(part, all);
}

// "'convoy run'|'convoy db'|'convoy db show'", all that a first word and those behind it may be.
std::string subcommand_pattern(const std::vector<const CommandDescription*>& commands) {
  std::string pattern;
  for (const CommandDescription* command : commands) {
    if (command == commands.front()) continue;
    if (!pattern.empty()) pattern += '|';
    pattern += in_quotes(command->name);
  }
  return pattern;
}

std::string last_word(const std::string& text) { return text.substr(text.rfind(' ') + 1); }

std::string join(const Words& words, const char* between = " ") { return fmt::format("{}", fmt::join(words, between)); }

// The words of all positionals of a command, and whether one is a file or folder.
Completion completion_for_positionals(const CommandDescription& command) {
  Completion all;
  for (const OptionDescription& positional : command.positionals) {
    const Completion completion = completion_for(positional);
    all.words.insert(all.words.end(), completion.words.begin(), completion.words.end());
    all.files = all.files || completion.files;
    all.folders = all.folders || completion.folders;
  }
  return all;
}

std::string bash_completion(const CommandDescription& app) {
  std::vector<const CommandDescription*> commands;
  all_of(app, commands);
  const auto assign = [](const Completion& completion) {
    return fmt::format("words={} kind={}", in_quotes(join(completion.words)),
                       completion.files     ? "files"
                       : completion.folders ? "folders"
                                            : "words");
  };
  std::string out = fmt::format(R"(# Completion of convoy for bash, written by 'convoy completion bash'.
_convoy() {{
  # Bash splits words at : and =; here only spaces do.
  local line=${{COMP_LINE:0:COMP_POINT}}
  local word=${{line##*[[:space:]]}}
  local -a given
  read -ra given <<< "${{line%"$word"}}"
  local command=convoy previous=${{given[${{#given[@]}}-1]}} each
  for each in "${{given[@]:1}}"; do
    case "$command $each" in
      {}) command="$command $each" ;;
    esac
  done
  if [[ $word == --*=* ]]; then
    previous=${{word%%=*}}
    word=${{word#*=}}
  fi
  local words= kind=words options=
  case $command in
)",
                                subcommand_pattern(commands));
  for (const CommandDescription* command : commands) {
    Words names;
    std::string values;
    for (const OptionDescription& option : command->options) {
      names.insert(names.end(), option.names.begin(), option.names.end());
      if (option.value.empty()) continue;
      values += fmt::format("        {}) {} options= ;;\n", join(option.names, "|"), assign(completion_for(option)));
    }
    Completion completion = completion_for_positionals(*command);
    for (const CommandDescription& part : command->parts) completion.words.push_back(last_word(part.name));
    out += fmt::format("    {})\n      options={} {}\n", in_quotes(command->name), in_quotes(join(names)),
                       assign(completion));
    if (!values.empty()) out += "      case $previous in\n" + values + "      esac\n";
    out += "      ;;\n";
  }
  out += R"(  esac
  COMPREPLY=()
  if [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$word"))
    return
  fi
  # Of a list with commas the last part is completed.
  local before=
  if [[ $word == *,* && $kind == words ]]; then
    before=${word%"${word##*,}"}
    word=${word##*,}
  fi
  COMPREPLY=($(compgen -P "$before" -W "$words" -- "$word"))
  if [[ $kind != words ]]; then
    compopt -o filenames 2>/dev/null
    local paths=-f
    [[ $kind == folders ]] && paths=-d
    local IFS=$'\n'
    COMPREPLY+=($(compgen $paths -- "$word"))
  fi
  # Bash replaces only what stands behind the last colon.
  local colon=${word%"${word##*:}"}
  [[ -n $colon ]] && COMPREPLY=("${COMPREPLY[@]#"$colon"}")
}
complete -F _convoy convoy
)";
  return out;
}

std::string zsh_completion(const CommandDescription& app) {
  std::vector<const CommandDescription*> commands;
  all_of(app, commands);
  const auto offered = [](const Completion& completion, const std::string& end) {
    std::string out;
    if (!completion.words.empty()) {
      Words words;
      for (const std::string& word : completion.words) words.push_back(in_quotes(word));
      out += fmt::format("compadd -- {}; ", join(words));
    }
    if (completion.files) out += "_files; ";
    if (completion.folders) out += "_files -/; ";
    return out + end;
  };
  std::string out = fmt::format(R"(#compdef convoy
# Completion of convoy for zsh, written by 'convoy completion zsh'.
_convoy() {{
  local command=convoy each previous=$words[CURRENT-1]
  for each in "${{(@)words[2,CURRENT-1]}}"; do
    case "$command $each" in
      ({}) command="$command $each" ;;
    esac
  done
  if [[ $PREFIX == --*=* ]]; then
    previous=${{PREFIX%%=*}}
    compset -P '*='
  fi
  local -a options parts
  case $command in
)",
                                subcommand_pattern(commands));
  for (const CommandDescription* command : commands) {
    std::string options, values, parts;
    for (const OptionDescription& option : command->options) {
      for (const std::string& name : option.names) options += "        " + in_quotes(name + ":" + option.text) + "\n";
      if (option.value.empty()) continue;
      values += fmt::format("        ({}) {} ;;\n", join(option.names, "|"), offered(completion_for(option), "return"));
    }
    for (const CommandDescription& part : command->parts) {
      parts += "        " + in_quotes(last_word(part.name) + ":" + part.text) + "\n";
    }
    out += fmt::format("    ({})\n      options=(\n{}      )\n", in_quotes(command->name), options);
    if (!parts.empty()) out += fmt::format("      parts=(\n{}      )\n", parts);
    if (!values.empty()) out += "      case $previous in\n" + values + "      esac\n";
    const std::string positionals = offered(completion_for_positionals(*command), "");
    if (!positionals.empty()) out += fmt::format("      [[ $PREFIX == -* ]] || {{ {}}}\n", positionals);
    out += "      ;;\n";
  }
  out += R"(  esac
  if [[ $PREFIX == -* ]]; then
    _describe -o option options
  elif (( $#parts )); then
    _describe subcommand parts
  fi
}
if [[ $funcstack[1] == _convoy ]]; then
  _convoy "$@"
else
  compdef _convoy convoy
fi
)";
  return out;
}

// Text for roff: a line that it would read as a request, and backslashes and hyphens, are escaped.
std::string roff(std::string_view text) {
  std::string out;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
    line_begins = c == '\n';
  }
  return out;
}

std::string man_page(const CommandDescription& app) {
  std::vector<const CommandDescription*> commands;
  all_of(app, commands);
  std::string out = fmt::format(".TH CONVOY 1 \"\" \"convoy {}\" \"User Commands\"\n", version());
  out += fmt::format(".SH NAME\nconvoy \\- {}\n.SH SYNOPSIS\n.B convoy\nSUBCOMMAND [OPTIONS]\n", roff(app.text));
  out += fmt::format(".SH DESCRIPTION\n.nf\n{}\n.fi\n.SH SUBCOMMANDS\n", roff(app.footer));
  for (const CommandDescription* command : commands) {
    if (command == commands.front()) continue;
    out += fmt::format(".SS {}\n{}.\n.PP\n.B {}\n", roff(command->name), roff(command->text), roff(usage(*command)));
    const auto entry = [&](const OptionDescription& option) {
      out += fmt::format(".TP\n.B {}\n{}\n", roff(heading(option)), roff(option.text));
    };
    for (const OptionDescription& positional : command->positionals) entry(positional);
    std::string subject;
    for (const OptionDescription& option : command->options) {
      if (option.subject != subject) out += fmt::format(".PP\n.I {}\n", roff(option.subject));
      subject = option.subject;
      entry(option);
    }
    if (!command->footer.empty()) out += fmt::format(".PP\n.nf\n{}\n.fi\n", roff(command->footer));
  }
  out += ".SH ENVIRONMENT\n";
  for (const EnvironmentVariable& variable : environment_variables()) {
    out += fmt::format(".TP\n.B {}\n{} ({}); when not set: {}\n", roff(variable.name), roff(variable.meaning),
                       roff(variable.values), roff(variable.default_value));
  }
  return out;
}

}  // namespace

void add_completion(Parser app, Program& program) {
  Parser command = add_subcommand(app, "completion", "Print shell completion for bash or zsh",
                                  "  convoy completion bash > ~/.local/share/bash-completion/completions/convoy\n"
                                  "  convoy completion zsh > ~/.zsh/completions/_convoy");
  auto shell = std::make_shared<std::string>();
  command.add_option("shell", *shell, "The shell: bash or zsh").required().one_of({"bash", "zsh"});
  command.callback([app, shell, &program] {
    program.action = [app, shell, &program]() -> Result<int> {
      program.raw(*shell == "bash" ? bash_completion(describe(app.app())) : zsh_completion(describe(app.app())));
      return kDone;
    };
  });
  Parser man = add_subcommand(app, "man", "Print the man page", "  convoy man | man -l -");
  man.callback([app, &program] {
    program.action = [app, &program]() -> Result<int> {
      program.raw(man_page(describe(app.app())));
      return kDone;
    };
  });
}

}  // namespace convoy::cli
