// convoy exec: a program with the interposer between it and cuDNN.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>

#include "base/environment.h"
#include "cli/choice_file.h"
#include "cli/diagnosis.h"
#include "cli/live_report.h"
#include "cli/program.h"
#include "cli/record_file.h"
#include "cli/record_tuner.h"
#include "cli/seen.h"
#include "cli/tuning_server.h"
#include "convoy/tuning_database.h"
#include "engines/cudnn/known.h"
#include "io/file.h"
#include "report/record.h"
#include "select/choose/engine_list.h"

namespace convoy::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "libconvoy-interposer.so";
constexpr const char* kEngineLibrary = "libconvoy-engines.so";
constexpr std::size_t kRowsShown = 20;

struct ExecFlags {
  std::string record;
  std::vector<std::string> reports;
  std::string every;      // empty: 5m
  std::string diagnosis;  // a folder; empty: it isn't asked for
  bool steer = false;
  bool strict = false;
  bool like_benchmark = false;
  bool no_python_hook = false;
  bool channels_last = false;
  double tune = 0;  // seconds; 0: nothing is measured
  std::vector<std::string> program;
};

// Beside the command: in the build folder, the bundle and where it is installed.
Result<std::string> interposer() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  std::string looked;
  for (const char* folder : {"../lib", "../lib/x86_64-linux-gnu", "../lib64"}) {
    const fs::path file = (self.parent_path() / folder / kLibrary).lexically_normal();
    if (fs::exists(file, error)) return file.string();
    looked += (looked.empty() ? "" : ", ") + file.parent_path().string();
  }
  return Error{ErrorCode::not_found, fmt::format("{} is in none of {}", kLibrary, looked)};
}

// The Python package, in whose convoy/_exec is the sitecustomize.py that puts the hook into PyTorch: where it is
// installed, that of the wheel whose command this is, the sources'. Empty: there is none.
std::string python_package() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  for (const char* folder : {"../share/convoy/python", "../python", "../../..", "../../python"}) {
    const fs::path root = (self.parent_path() / folder).lexically_normal();
    if (fs::exists(root / "convoy/_exec/sitecustomize.py", error)) return root.string();
  }
  return "";
}

// Programs in Python get the hook, and in `mode` what it does; it runs the library beside `interposer`. False: there is
// none.
bool put_python_hook(const std::string& mode, const std::string& interposer) {
  const std::string package = python_package();
  if (package.empty()) return false;
  const char* before = std::getenv("PYTHONPATH");
  const std::string path =
      package + "/convoy/_exec" + (before == nullptr || *before == 0 ? "" : ":" + std::string(before));
  ::setenv("PYTHONPATH", path.c_str(), 1);
  ::setenv(describe(Variable::python_hook).name.data(), mode.c_str(), 1);
  const fs::path library = fs::path(interposer).parent_path() / "libconvoy.so";
  std::error_code error;
  if (fs::exists(library, error)) ::setenv(describe(Variable::library).name.data(), library.c_str(), 0);
  return true;
}

pid_t child = 0;
void pass_on(int signal) {
  if (child > 0) ::kill(child, signal);
}

// The terminal sends Ctrl-C to the program, too; what somebody sent to this process alone, it doesn't get.
void pass_on_what_was_sent(int signal, siginfo_t* from, void*) {
  if (from->si_code != SI_KERNEL) pass_on(signal);
}

// Runs the program to its end; signals that end this process go to it. Its exit code, 128 + N where signal N ended it.
// Meanwhile `live` (may be null) writes its report, SIGUSR2 is for it then, and `tuning` (likewise) measures.
Result<int> run_program(std::vector<std::string> arguments, LiveReport* live, TuningServer* tuning) {
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  struct sigaction terminal = {}, before_int = {}, before_quit = {};  // a shell's background jobs ignore both
  terminal.sa_sigaction = pass_on_what_was_sent;
  terminal.sa_flags = SA_SIGINFO | SA_RESTART;
  ::sigaction(SIGINT, &terminal, &before_int);
  ::sigaction(SIGQUIT, &terminal, &before_quit);
  if (live != nullptr) std::signal(SIGUSR2, SIG_IGN);  // until it is for the report
  child = ::fork();
  if (child < 0) return Error{ErrorCode::internal, fmt::format("fork: {}", std::strerror(errno))};
  if (child == 0) {
    ::sigaction(SIGINT, &before_int, nullptr);
    ::sigaction(SIGQUIT, &before_quit, nullptr);
    if (live != nullptr) std::signal(SIGUSR2, SIG_DFL);
    ::execvp(pointers[0], pointers.data());
    const std::string message = fmt::format("convoy exec: {}: {}\n", pointers[0], std::strerror(errno));
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, message.data(), message.size());
    ::_exit(errno == ENOENT ? 127 : 126);
  }
  for (const int signal : {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) std::signal(signal, pass_on);
  if (tuning != nullptr) tuning->begin();
  const auto started = live != nullptr ? live->start() : Result<void>();
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return Error{ErrorCode::internal, fmt::format("waitpid: {}", std::strerror(errno))};
  }
  if (live != nullptr) live->stop();
  if (!started.ok()) return started.error();
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// To standard error: standard output is the program's.
void show(const Program& program, const report::Record& record) {
  std::size_t rows = 0;
  for (const report::RecordedGraph& graph : record.graphs) {
    if (graph.problem.empty() || ++rows > kRowsShown) continue;
    program.note(fmt::format("  {} calls: {}, of {} offered: {}", graph.calls,
                             graph.plans.empty() ? "no plan" : graph.plans.front().candidate, graph.offered.size(),
                             graph.problem));
  }
  if (rows > kRowsShown) program.note(fmt::format("  and {} more problems", rows - kRowsShown));
  for (const report::RecordedGraph& graph : record.graphs) {
    if (graph.problem.empty() && graph.reason != "no convolution") {
      program.note(fmt::format("  {} calls of {} passed through: {}", graph.calls, graph.operations, graph.reason));
    }
  }
}

// A folder of files that are there as long as the program runs.
class TemporaryFolder {
 public:
  TemporaryFolder() = default;
  TemporaryFolder(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code error;
    if (!path_.empty()) fs::remove_all(path_, error);
  }
  // The path of a file in it. The first call makes the folder.
  Result<std::string> file(const std::string& name) {
    if (path_.empty()) {
      std::error_code error;
      std::string folder = (fs::temp_directory_path(error) / "convoy-exec-XXXXXX").string();
      if (::mkdtemp(folder.data()) == nullptr) {
        return Error{ErrorCode::internal, fmt::format("{}: {}", folder, std::strerror(errno))};
      }
      path_ = folder;
    }
    return (path_ / name).string();
  }

 private:
  fs::path path_;
};

// `library` by a name that LD_PRELOAD takes, which is a list with spaces and colons in between: itself, else a link in
// `folder`, with the engines beside it.
Result<std::string> preloadable(const std::string& library, TemporaryFolder& folder) {
  constexpr const char* kSeparators = " :";
  if (library.find_first_of(kSeparators) == std::string::npos) return library;
  for (const fs::path& file : {fs::path(library).replace_filename(kEngineLibrary), fs::path(library)}) {
    CONVOY_TRY(const std::string link, folder.file(file.filename().string()));
    std::error_code error;
    fs::create_symlink(file, link, error);
    if (error || link.find_first_of(kSeparators) != std::string::npos) {
      return Error{ErrorCode::invalid_argument,
                   fmt::format("{}: LD_PRELOAD takes no path with a space or a colon, and {} is no better{}", library,
                               link, error ? ": " + error.message() : "")};
    }
  }
  return folder.file(kLibrary);
}

// The choosing flags. Errors name the flag, of a rules file the line and field too.
Result<ChoiceOptions> choice_options(const Program& program, const ExecFlags& flags) {
  CONVOY_TRY(SelectionOptions selection, program.selection());
  const auto engines = program.engines();
  if (std::none_of(engines.begin(), engines.end(), [&](const Engine* engine) {
        const std::string& name = engine->info().name;
        return name.starts_with(kGraphEngines) && selection::engine_list_may_match(program.shared.engines, name);
      })) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("--engines: '{}' matches none of cuDNN's engines ({}N), and "
                             "a program's plans are made of those: what runs in their place needs one",
                             program.shared.engines, kGraphEngines)};
  }
  return ChoiceOptions{.filter = std::move(selection.filter),
                       .rules = std::move(selection.rules),
                       .strict = flags.strict,
                       .objective = selection.objective,
                       .like_benchmark = flags.like_benchmark,
                       .sm_count = program.shared.sm_count};
}

// What the database knows. That it knows nothing is said, and no error: the program runs as ever.
Result<std::vector<KnownCost>> costs_in_database(const Program& program, const ChoiceOptions& options, bool tunes) {
  std::vector<KnownCost> costs;
  if (program.shared.no_database) return costs;
  CONVOY_TRY(const std::string path, TuningDatabase::default_path());
  const auto database = TuningDatabase::open(path, TuningDatabase::Access::read);
  if (!database && database.error().code != ErrorCode::not_found) return database.error();
  if (database) {
    CONVOY_TRY(const auto records, (*database)->records());
    costs = known_costs(records, all_engines(), options.objective, options.sm_count);
  }
  if (costs.empty() && !tunes) {
    const bool times = options.objective == Objective();
    program.note(fmt::format(
        "convoy exec: {} has no measurement of cuDNN's engines{}{}, so {} (convoy tune RECORD --device cuda{}{})", path,
        times ? "" : fmt::format(" for the objective {}", print(options.objective)),
        options.sm_count > 0 ? fmt::format(" with {} SMs", options.sm_count) : "",
        asks_for_something(options) ? "only the flags decide" : "the program chooses as ever",
        times ? "" : fmt::format(" --objective {}", program.shared.objective),
        options.sm_count > 0 ? fmt::format(" --sm-count {}", options.sm_count) : ""));
  }
  return costs;
}

// Hands what is known and asked for to the program's processes. False: there is nothing.
Result<bool> steer(const Program& program, const ChoiceOptions& options, bool tunes, TemporaryFolder& folder) {
  CONVOY_TRY(const auto costs, costs_in_database(program, options, tunes));
  if (costs.empty() && !asks_for_something(options) && !tunes) return false;
  const std::string text = choice_file(costs, options);
  CONVOY_TRY(const std::string file, folder.file("choices.txt"));
  CONVOY_CHECK(io::write_file(file, std::as_bytes(std::span(text))));
  ::setenv(describe(Variable::choices).name.data(), file.c_str(), 1);
  return true;
}

// Names the rules that matched nothing, and those that could not be obeyed everywhere.
void say_rules(const Program& program, const std::vector<SelectionRule>& rules, const report::Record& record) {
  std::vector<std::string> unmatched, disobeyed;
  const std::vector<SelectionRule> given = rules_for_programs(rules);
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const std::string text = fmt::format("{} -> {}", rules[i].pattern, print(rules[i].candidate));
    const std::string candidate = print(given[i].candidate);
    const auto found = std::find_if(record.rules.begin(), record.rules.end(), [&](const report::RecordedRule& r) {
      return r.pattern == given[i].pattern && r.candidate == candidate;
    });
    if (found == record.rules.end() || found->matched == 0) {
      unmatched.push_back(text);
    } else if (found->obeyed < found->matched) {
      disobeyed.push_back(fmt::format("{}: for {} of {}{}{}", text, found->obeyed, found->matched,
                                      found->reason.empty() ? "" : ": ", found->reason));
    }
  }
  const auto say = [&](const std::vector<std::string>& some, std::string_view what) {
    if (some.empty()) return;
    std::string text = fmt::format("convoy exec: --rules: {} of {} rules {}:", some.size(), rules.size(), what);
    for (std::size_t i = 0; i < std::min(some.size(), kRowsShown); ++i) text += "\n  " + some[i];
    if (some.size() > kRowsShown) text += fmt::format("\n  and {} more", some.size() - kRowsShown);
    program.note(text);
  };
  say(unmatched, "matched no convolution");
  say(disobeyed, "could not be obeyed for every convolution they match");
}

// The problem list beside the record, and what the terminal shows of both.
Result<void> keep(const Program& program, const report::Record& record, const RecordFile& file,
                  const std::string& name) {
  const std::string problems = report::problem_list(record);
  CONVOY_CHECK(io::write_file(file.problem_list(), std::as_bytes(std::span(problems))));
  program.note(fmt::format("convoy exec: {} graphs of {} processes, cuDNN {}: {}, {}", record.graphs.size(),
                           record.processes, record.cudnn, name, fs::path(file.problem_list()).filename().string()));
  show(program, record);
  return {};
}

// What --report and --every say; null where there is no report. The error is found before the program starts.
Result<std::unique_ptr<LiveReport>> live_report(const ExecFlags& flags, const std::string& record) {
  std::error_code error;
  for (const std::string& report : flags.reports) {
    const fs::path file = fs::absolute(report);
    if (fs::is_directory(file, error)) {
      return Error{ErrorCode::invalid_argument, fmt::format("--report {}: it is a folder", report)};
    }
    if (!fs::is_directory(file.parent_path(), error)) {
      return Error{ErrorCode::not_found,
                   fmt::format("--report {}: there is no folder {}", report, file.parent_path().string())};
    }
  }
  if (flags.reports.empty()) {
    if (!flags.every.empty()) return Error{ErrorCode::invalid_argument, "--every: it is for --report FILE"};
    return std::unique_ptr<LiveReport>();
  }
  const auto every = parse_period(flags.every.empty() ? "5m" : flags.every);
  if (!every.ok()) return every.error().within("--every");
  // A report is as old as what it is made of.
  constexpr double kUsually = 60;
  if (*every < kUsually) ::setenv(describe(Variable::record_every).name.data(), fmt::format("{}", *every).c_str(), 1);
  return std::make_unique<LiveReport>(record, flags.reports, *every);
}

// Which Python processes had PyTorch's own convolutions that nobody saw.
void say_unhooked(const Program& program, const std::vector<std::string>& unhooked) {
  if (unhooked.empty()) return;
  std::string text =
      "convoy exec: torch was imported without the hook, so convolutions by its own kernels were not seen:";
  for (std::size_t i = 0; i < std::min(unhooked.size(), kRowsShown); ++i) text += "\n  " + unhooked[i];
  if (unhooked.size() > kRowsShown) text += fmt::format("\n  and {} more", unhooked.size() - kRowsShown);
  program.note(text);
}

// What --channels-last did, or that it found nothing to do.
void say_channels_last(const Program& program, int weights) {
  program.note(weights > 0
                   ? fmt::format("convoy exec: --channels-last: {} weights lie channels last", weights)
                   : "convoy exec: --channels-last: no model with weights of 2D or 3D convolutions was moved to "
                     "a GPU by .to() or .cuda(), so nothing was changed");
}

// What the program's processes recorded: the files that were asked for, and what became of rules.
Result<void> tell(const Program& program, const ExecFlags& flags, const std::vector<SelectionRule>& rules,
                  const RecordFile& file, const std::string& why_not) {
  CONVOY_TRY(const std::string text, file.collect());
  if (text.empty()) {
    program.note(fmt::format("convoy exec: {} called no cuDNN of version 9{}{}{}", flags.program.front(),
                             !flags.record.empty() ? fmt::format(", so there is no {}", flags.record)
                             : !rules.empty()      ? ", so no rule matched anything"
                                                   : ", so there is nothing to report",
                             why_not.empty() ? "" : ": ", why_not));
    return {};
  }
  CONVOY_TRY(const report::Record record, report::parse_record(text, file.path()));
  if (!flags.record.empty()) CONVOY_CHECK(keep(program, record, file, flags.record));
  say_rules(program, rules, record);
  if (!flags.reports.empty()) {
    CONVOY_CHECK(write_report(file.path(), flags.reports));
    program.note(fmt::format("convoy exec: {}", fmt::join(flags.reports, ", ")));
  }
  if (!flags.diagnosis.empty()) CONVOY_CHECK(say_diagnosis(program, record, flags.diagnosis, "convoy exec"));
  return {};
}

Result<int> exec(const Program& program, const ExecFlags& flags) {
  CONVOY_TRY(const std::string library, interposer());
  RecordFile file;
  if (!flags.record.empty()) {
    CONVOY_TRY(file, RecordFile::open(flags.record, flags.reports));
  }
  CONVOY_TRY(const ChoiceOptions options, choice_options(program, flags));
  TemporaryFolder folder;
  const bool asked = asks_for_something(options) || options.objective != Objective();
  const bool chooses = asked || flags.like_benchmark || flags.tune > 0;
  bool steers = false;
  if (file.empty() || flags.steer || chooses) {
    CONVOY_TRY(steers, steer(program, options, flags.tune > 0, folder));
  }
  std::unique_ptr<TuningServer> tuning;
  if (flags.tune > 0) {
    if (program.shared.no_database) {
      return Error{ErrorCode::invalid_argument,
                   "--tune: what it measures goes to the tuning database, which --no-db leaves alone"};
    }
    CONVOY_TRY(const std::string socket, folder.file("tuner"));
    CONVOY_TRY(tuning, TuningServer::listen(program, options, socket, flags.tune));
    ::setenv(describe(Variable::tuner).name.data(), socket.c_str(), 1);
  }
  // What became of rules is in a record; the report and the diagnosis are made of one.
  if (file.empty() && (!options.rules.empty() || !flags.reports.empty() || !flags.diagnosis.empty())) {
    CONVOY_TRY(const std::string unnamed, folder.file("record.jsonl"));
    CONVOY_TRY(file, RecordFile::open(unnamed, {}));
  }
  CONVOY_TRY(const auto live, live_report(flags, file.path()));
  CONVOY_TRY(std::string preload, preloadable(library, folder));
  if (const char* before = std::getenv("LD_PRELOAD"); before != nullptr && *before != 0)
    preload += ":" + std::string(before);
  ::setenv("LD_PRELOAD", preload.c_str(), 1);
  if (!file.empty()) ::setenv(describe(Variable::record).name.data(), file.path().c_str(), 1);
  const bool decides = flags.record.empty() || flags.steer || chooses;
  const std::string mode = !decides ? "record" : program.shared.no_database ? "no-db" : "steer";
  const bool hooked =
      !flags.no_python_hook && put_python_hook(mode + (flags.channels_last ? ",channels-last" : ""), library);
  if (flags.channels_last && !hooked) {
    return Error{ErrorCode::invalid_argument,
                 flags.no_python_hook ? "--channels-last: the Python hook does it, which --no-python-hook leaves out"
                                      : "--channels-last: Convoy's Python package, which does it, is not installed"};
  }
  CONVOY_TRY(const std::string seen, folder.file("seen"));
  std::error_code error;
  fs::create_directory(seen, error);
  ::setenv(describe(Variable::seen).name.data(), seen.c_str(), 1);
  CONVOY_TRY(const int code, run_program(flags.program, live.get(), tuning.get()));
  if (tuning != nullptr) program.note(fmt::format("convoy exec: {}", tuning->end()));
  const bool off = environment(Variable::exec) == "off";
  const Seen of_cudnn = seen_in(seen);
  const std::string why_not = off ? "CONVOY_EXEC is off" : of_cudnn.why_not;
  if (!flags.no_python_hook && !off) say_unhooked(program, of_cudnn.unhooked);
  if (flags.channels_last && !off) say_channels_last(program, of_cudnn.channels_last);
  for (const int version : of_cudnn.versions) {
    if (const std::string remark = cudnn::not_verified(version); !remark.empty())
      program.note("convoy exec: " + remark);
  }
  if (file.empty()) {
    if (!why_not.empty() && !off && steers) {
      program.note(fmt::format("convoy exec: {} was not seen to call cuDNN: {}", flags.program.front(), why_not));
    }
    return code;
  }
  const auto told = tell(program, flags, options.rules, file, why_not);
  if (told.ok()) return code;
  if (code == 0) return told.error();
  program.note(fmt::format("convoy exec: {}", told.error().message));
  return code;
}

}  // namespace

void add_exec(Parser app, Program& program) {
  Parser command = add_subcommand(
      app, "exec", "Run a program that uses cuDNN, PyTorch for one, with faster convolutions; or record them",
      "  convoy exec --tune 5min -- python train.py\n"
      "  convoy exec --record r.jsonl -- python train.py\n"
      "  convoy tune r.jsonl --device cuda\n"
      "  convoy exec -- python train.py");
  auto flags = std::make_shared<ExecFlags>();
  begin(command, Subject::output);
  command
      .add_option("--record", flags->record,
                  "Write every distinct convolution, with calls and engines, to FILE, and a problem list beside it "
                  "(.txt). Without a flag that chooses nothing changes for the program")
      .type_name("FILE");
  command
      .add_option(
          "--report", flags->reports,
          "Write what convoy report shows to FILE (.html, .json, else text): every --every, at SIGUSR2, and at the end")
      .type_name("FILE");
  command.add_option("--every", flags->every, "How often --report writes: 90s, 5m (default), 2h").type_name("TIME");
  command
      .add_option(
          "--diagnose", flags->diagnosis,
          "Say why descriptors and plans failed; FOLDER (default convoy-diagnosis) gets a PyTorch script for each "
          "such convolution")
      .type_name("FOLDER")
      .expected(0, 1)
      .default_str("convoy-diagnosis");
  add_steering_flags(command, program);
  command.add_flag("--strict,!--fallback", flags->strict,
                   "Where a rule or filter can't be obeyed, fail the program's call (--strict), or warn and choose "
                   "another (--fallback, the default)");
  command.add_flag("--like-benchmark", flags->like_benchmark,
                   "Put the fastest known first, whatever notes cuDNN says it has: the program's own filters decide, "
                   "as in benchmark mode. The record and the report say which notes that adds");
  command
      .add_option(
          "--tune", flags->tune,
          "Measure a convolution that has no stored time when the program first asks cuDNN for it, for so long in all")
      .type_name("SECONDS")
      .unit({{"ms", 1e-3}, {"s", 1}, {"m", 60}, {"min", 60}, {"h", 3600}})
      .range(0.0, 1e6);
  command.add_flag(
      "--steer", flags->steer,
      "With --record: also choose by stored times (the default without --record, and with any flag that chooses)");
  command.add_flag("--no-python-hook", flags->no_python_hook,
                   "Leave PyTorch's own depthwise convolutions alone: only calls of cuDNN are seen");
  command.add_flag(
      "--channels-last", flags->channels_last,
      "Lay the weights of PyTorch's 2D and 3D convolutions channels last where the program moves a model to "
      "a GPU, as model.to(memory_format=torch.channels_last) does: activations follow");
  command.add_flag("--no-db", program.shared.no_database,
                   "Leave the tuning database alone: only rules and filters choose");
  begin(command, Subject::device);
  command
      .add_option("--sm-count", program.shared.sm_count,
                  "Choose for so many SMs and leave the others free, where cuDNN's engines can (default: all)")
      .type_name("N")
      .range(1, 1'000'000);
  command.add_option("program", flags->program, "The program and its arguments, after --").required();
  command.positionals_at_end();
  command.prefix_command();
  command.callback([flags, &program] {
    program.shared.device = "cuda";  // whose engines are meant
    program.action = [flags, &program] { return exec(program, *flags); };
  });
}

}  // namespace convoy::cli
