// convoy: the command. Flags are read here; each subcommand is a file.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <exception>
#include <new>

#include "cli/environment_warnings.h"
#include "cli/help.h"
#include "cli/program.h"
#include "convoy/version.h"
#include "core/nearest.h"
#include "core/text.h"

namespace convoy::cli {
namespace {

int finish(const Program& program, const std::string& command, const Error& error) {
  const std::string message = fmt::format("convoy {}: {}", command, error.message);
  program.note(report::styled(message, report::Style::bad, report::colour_wanted(stderr)));
  program.document({{"error", {{"code", std::string(name_of(error.code))}, {"message", error.message}}}});
  return exit_code(error.code);
}

// A stream that the caller closed must not become the number of the next file that is opened, which would get what is
// meant for the stream. Writing to it fails as before.
void keep_closed_streams_closed() {
  for (int stream = 0; stream <= 2; ++stream) {
    if (::fcntl(stream, F_GETFD) == -1) static_cast<void>(::open("/dev/null", stream == 0 ? O_WRONLY : O_RDONLY));
  }
}

std::vector<std::string> subcommand_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* known : app.get_subcommands({})) names.push_back(known->get_name());
  return names;
}

// "convoy help X" is "convoy X --help", "convoy" alone "convoy --help".
std::vector<std::string> arguments_of(std::vector<std::string> given) {
  if (!given.empty() && given.front() == "help") {
    given.erase(given.begin());
    given.emplace_back("--help");
  }
  if (given.empty()) given.emplace_back("--help");
  return given;
}

// What is wrong with the arguments, with what may have been meant.
std::string explain_usage(const CLI::App& app, const std::vector<std::string>& arguments, const std::string& error) {
  const bool subcommand = !app.get_subcommands().empty();
  if (!subcommand && arguments.front()[0] != '-') {
    const std::vector<std::string> names = subcommand_names(app);
    const std::string meant = did_you_mean(arguments.front(), names);
    return fmt::format("{} is not a subcommand{}", convoy::quoted(arguments.front()),
                       meant.empty() ? fmt::format("; there are {}", fmt::join(names, " ")) : meant);
  }
  const auto extras = app.remaining(true);
  // (Behind "--" is a program, which is no error.)
  return extras.empty() || extras.front() == "--" ? error : explain_extras(app, arguments, extras);
}

int run(const Program& program, const std::string& command) {
  if (command != "doctor") {  // which shows them beside the variables
    for (const std::string& warning : environment_warnings()) program.note("convoy: " + warning);
  }
  program.remark_on_flags();
  try {
    const Result<int> code = program.action();
    program.say_left_out();
    return code.ok() ? *code : finish(program, command, code.error());
  } catch (const std::bad_alloc&) {
    return finish(program, command, {ErrorCode::out_of_memory, "out of memory"});
  } catch (const std::exception& error) {
    return finish(program, command, {ErrorCode::internal, error.what()});
  }
}

// What was not written is not done.
int checked(const Program& program, const std::string& command, int code) {
  const auto written = program.finish_output();
  if (written.ok()) return code;
  program.note(fmt::format("{}: {}", command, written.error().message));
  return code == kDone ? kFailed : code;
}

int main(int argc, char** argv) {
  keep_closed_streams_closed();
  Program program;
  CLI::App app("Runs convolutions the fastest correct way this machine knows, and shows how it chose.", "convoy");
  app.set_version_flag("--version", std::string("convoy ") + version());
  app.require_subcommand(1);
  app.formatter(std::make_shared<HelpFormatter>(program));
  app.footer(
      "A target is an ONNX file, zoo:NAME, a file with a list of problems, or a problem string.\n"
      "A problem string is one convolution: fprop:x=f32,1x64x56x56,nhwc:w=f32,64x64x3x3:pad=1x1\n"
      "  (docs/problem-strings.md has its format).\n"
      "Exit codes: 0 done, 1 failed, 2 bad usage or input, 3 a result was wrong, 4 not supported,\n"
      "  130 interrupted (what was done until then is kept).\n\n"
      "Example:\n  convoy run zoo:resnet18 --random-inputs --top 5");
  const Parser parser(app);
  add_run(parser, program);
  add_bench(parser, program);
  add_tune(parser, program);
  add_plan(parser, program);
  add_compare(parser, program);
  add_db(parser, program);
  add_exec(parser, program);
  add_report(parser, program);
  add_explain(parser, program);
  add_conformance(parser, program);
  add_verify(parser, program);
  add_repro(parser, program);
  add_list(parser, program);
  add_zoo(parser, program);
  add_doctor(parser, program);
  add_demo(parser, program);
  add_completion(parser, program);
  add_help(parser);

  const std::vector<std::string> arguments = arguments_of({argv + 1, argv + argc});
  const auto bad_usage = [&](const std::string& error) {
    const auto chosen = app.get_subcommands();
    const std::string command = chosen.empty() ? "convoy" : "convoy " + chosen.front()->get_name();
    program.note(fmt::format("{}: {}\n(see {} --help)", command, explain_usage(app, arguments, error), command));
    return kBadInput;
  };
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));  // CLI11 takes the last first
  } catch (const CLI::Success& help_or_version) {
    if (!app.remaining(true).empty()) return bad_usage(help_or_version.what());  // of what there is not
    app.exit(help_or_version);
    return checked(program, "convoy", kDone);
  } catch (const CLI::ParseError& error) {
    return bad_usage(error.what());
  }
  // exec's program has the arguments behind it; one before it that nothing took is a misspelt option.
  if (const auto extras = app.remaining(true); !extras.empty() && extras.front() != "--") return bad_usage("");
  const std::string command = app.get_subcommands().front()->get_name();
  return checked(program, "convoy " + command, run(program, command));
}

// Idle threads of GNU OpenMP spin for milliseconds before they sleep. Where other programs run, too, that is time that
// the thread they wait for does not get: MobileNetV2 on two threads took 430 ms in place of 3.4 beside two busy
// programs, and 9 with this. They spin for 0.3 to 0.5 ms: in less time than another thread takes to wake up, each would
// send the other to sleep. The variable is read before main, so the program starts itself once more; its children don't
// get it. Not where OpenMP is told to bind this thread to a processor: it has done so, and the program would start
// again with that one alone.
void spin_briefly(char** argv) {
  constexpr const char *kSpinCount = "GOMP_SPINCOUNT", *kStartedAgain = "CONVOY_STARTED_AGAIN";
  if (std::getenv(kStartedAgain) == nullptr) {
    for (const char* name : {"OMP_WAIT_POLICY", kSpinCount, "OMP_PROC_BIND", "GOMP_CPU_AFFINITY"}) {
      if (std::getenv(name) != nullptr) return;
    }
    ::setenv(kSpinCount, "10000", 1);
    ::setenv(kStartedAgain, "1", 1);
    ::execv("/proc/self/exe", argv);  // where it can't, threads spin for longer
  }
  ::unsetenv(kStartedAgain);
  ::unsetenv(kSpinCount);
}

}  // namespace
}  // namespace convoy::cli

int main(int argc, char** argv) {
  convoy::cli::spin_briefly(argv);
  return convoy::cli::main(argc, argv);
}
