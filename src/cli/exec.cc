// convoy exec: a program with the interposer between it and cuDNN.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <span>

#include "base/environment.h"
#include "cli/program.h"
#include "convoy/tuning_database.h"
#include "io/file.h"
#include "report/record.h"

namespace convoy::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "libconvoy-interposer.so";
constexpr std::size_t kRowsShown = 20;

struct ExecFlags {
  std::string record;
  bool steer = false;
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

pid_t child = 0;
void pass_on(int signal) {
  if (child > 0) ::kill(child, signal);
}

// Runs the program to its end; signals that end this process go to it. Its exit code, 128 + N where signal N ended it.
Result<int> run_program(std::vector<std::string> arguments) {
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  // The terminal sends Ctrl-C to both.
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGQUIT, SIG_IGN);
  child = ::fork();
  if (child < 0) return Error{ErrorCode::internal, fmt::format("fork: {}", std::strerror(errno))};
  if (child == 0) {
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGQUIT, SIG_DFL);
    ::execvp(pointers[0], pointers.data());
    const std::string message = fmt::format("convoy exec: {}: {}\n", pointers[0], std::strerror(errno));
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, message.data(), message.size());
    ::_exit(errno == ENOENT ? 127 : 126);
  }
  for (const int signal : {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) std::signal(signal, pass_on);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return Error{ErrorCode::internal, fmt::format("waitpid: {}", std::strerror(errno))};
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// What the processes wrote, FILE.PID each, becomes FILE.
Result<std::string> collect(const std::string& file) {
  const fs::path path(file);
  std::vector<fs::path> parts;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path.parent_path(), error)) {
    const std::string name = entry.path().filename().string();
    const std::string prefix = path.filename().string() + ".";
    if (!name.starts_with(prefix)) continue;
    if (std::all_of(name.begin() + static_cast<std::ptrdiff_t>(prefix.size()), name.end(), ::isdigit)) {
      parts.push_back(entry.path());
    }
  }
  std::sort(parts.begin(), parts.end());
  std::string text;
  for (const fs::path& part : parts) {
    CONVOY_TRY(const auto bytes, io::read_file(part.string()));
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  if (text.empty()) return text;
  CONVOY_CHECK(io::write_file(file, std::as_bytes(std::span(text))));
  for (const fs::path& part : parts) fs::remove(part, error);
  return text;
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

// "NVIDIA H200" of "cuda NVIDIA H200 sms=132 l2=60M mem=139G".
std::string device_name(const std::string& device_class) {
  constexpr std::string_view kind = "cuda ";
  if (!device_class.starts_with(kind)) return {};
  return device_class.substr(kind.size(), device_class.find(" sms=") - kind.size());
}

// What the database knows of cuDNN's engines, as a choice file (interposer/choices.h). The problems' math mode, which
// cuDNN is not told, and the caches' state are left out: of several times of a candidate the least counts. One
// that failed has an infinite time.
std::string choice_file(const std::vector<TuningRecord>& records) {
  std::map<std::string, double> times;
  for (const TuningRecord& record : records) {
    const Measurement& measurement = record.measurement;
    const std::string device = device_name(record.key.device);
    constexpr std::string_view provider = "cuDNN ";
    constexpr std::string_view engines = "cudnn.eng";
    if (device.empty() || is_outdated_verdict(record) || !measurement.provider.starts_with(provider)) continue;
    const double seconds = measurement.failure ? std::numeric_limits<double>::infinity() : measurement.median_seconds;
    if (!measurement.candidate.engine.starts_with(engines) || !(seconds > 0)) continue;
    auto problem = parse_problem(record.key.problem);
    if (!problem) continue;
    problem->math = MathMode::strict;
    Candidate candidate = measurement.candidate;
    std::erase_if(candidate.knobs, [](const KnobValue& knob) { return knob.value < 0; });  // left to cuDNN
    const std::string line = fmt::format("time\t{}\t{}\t{}\t{}", device, measurement.provider.substr(provider.size()),
                                         print(*problem), print(candidate));
    const auto [found, added] = times.emplace(line, seconds);
    if (!added) found->second = std::min(found->second, seconds);
  }
  std::string text = "convoy-choices 2\n";
  for (const auto& [line, seconds] : times) text += fmt::format("{}\t{}\n", line, seconds);
  return times.empty() ? "" : text;
}

// A file that is there as long as the program runs.
class ChoiceFile {
 public:
  ChoiceFile() = default;
  ChoiceFile(const ChoiceFile&) = delete;
  ~ChoiceFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  Result<void> write(const std::string& text) {
    std::error_code error;
    std::string name = (fs::temp_directory_path(error) / "convoy-choices-XXXXXX").string();
    const int file = ::mkstemp(name.data());
    if (file < 0) return Error{ErrorCode::internal, fmt::format("{}: {}", name, std::strerror(errno))};
    ::close(file);
    path_ = name;
    return io::write_file(name, std::as_bytes(std::span(text)));
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Hands what is known to the program's processes. Nothing known is no error: the program runs as ever.
Result<void> choose_from_database(const Program& program, ChoiceFile& file) {
  CONVOY_TRY(const std::string path, TuningDatabase::default_path());
  const auto database = TuningDatabase::open(path, TuningDatabase::Access::read);
  if (!database && database.error().code != ErrorCode::not_found) return database.error();
  std::string text;
  if (database) {
    CONVOY_TRY(const auto records, (*database)->records());
    text = choice_file(records);
  }
  if (text.empty()) {
    program.note(
        fmt::format("convoy exec: {} has no measurement of cuDNN's engines, so the program chooses as ever "
                    "(convoy tune RECORD --device cuda)",
                    path));
    return {};
  }
  CONVOY_CHECK(file.write(text));
  ::setenv(describe(Variable::choices).name.data(), file.path().c_str(), 1);
  return {};
}

Result<int> exec(const Program& program, const ExecFlags& flags) {
  CONVOY_TRY(const std::string library, interposer());
  const fs::path file = flags.record.empty() ? fs::path() : fs::absolute(flags.record);
  std::error_code error;
  if (!file.empty() && !fs::is_directory(file.parent_path(), error)) {
    return Error{ErrorCode::not_found,
                 fmt::format("--record {}: there is no folder {}", flags.record, file.parent_path().string())};
  }
  if (fs::is_directory(file, error)) {
    return Error{ErrorCode::invalid_argument, fmt::format("--record {}: it is a folder", flags.record)};
  }
  const char* before = std::getenv("LD_PRELOAD");
  const std::string preload = before == nullptr || *before == 0 ? library : library + ":" + before;
  ::setenv("LD_PRELOAD", preload.c_str(), 1);
  ChoiceFile choices;
  if (file.empty() || flags.steer) CONVOY_CHECK(choose_from_database(program, choices));
  if (!file.empty()) ::setenv(describe(Variable::record).name.data(), file.c_str(), 1);
  CONVOY_TRY(const int code, run_program(flags.program));
  if (file.empty()) return code;
  CONVOY_TRY(const std::string text, collect(file.string()));
  if (text.empty()) {
    program.note(fmt::format("convoy exec: {} called no cuDNN of version 9, so there is no {}", flags.program.front(),
                             flags.record));
    return code;
  }
  CONVOY_TRY(const report::Record record, report::parse_record(text, flags.record));
  fs::path list = file;
  list.replace_extension(".txt");
  const std::string problems = report::problem_list(record);
  CONVOY_CHECK(io::write_file(list.string(), std::as_bytes(std::span(problems))));
  program.note(fmt::format("convoy exec: {} graphs of {} processes, cuDNN {}: {}, {}", record.graphs.size(),
                           record.processes, record.cudnn, flags.record, list.filename().string()));
  show(program, record);
  return code;
}

}  // namespace

void add_exec(CLI::App& app, Program& program) {
  CLI::App& command = add_subcommand(app, "exec", "Run a program with its cuDNN convolutions seen and steered",
                                     "  convoy exec --record r.jsonl -- python train.py\n"
                                     "  convoy tune r.jsonl --device cuda\n"
                                     "  convoy exec -- python train.py");
  auto flags = std::make_shared<ExecFlags>();
  begin(command, Subject::output);
  command
      .add_option("--record", flags->record,
                  "Only look: write every distinct convolution, with calls and engines, to FILE, and a problem list "
                  "beside it (.txt)")
      ->type_name("FILE");
  begin(command, Subject::choosing);
  command.add_flag("--steer", flags->steer, "With --record: choose by what is known, too (without --record it does)");
  command.add_option("program", flags->program, "The program and its arguments, after --")->required();
  command.positionals_at_end();
  command.prefix_command();
  command.callback([flags, &program] { program.action = [flags, &program] { return exec(program, *flags); }; });
}

}  // namespace convoy::cli
