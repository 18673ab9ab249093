#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/environment.h"
#include "solver/lp.h"

extern char** environ;

namespace convoy::solver {
namespace {

namespace fs = std::filesystem;

Error internal(std::string message) { return {ErrorCode::internal, std::move(message)}; }

Result<std::string> find_program() {
  const std::string path = environment(Variable::path).value_or("");
  std::istringstream folders(path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string file = folder + "/cbc";
    if (!folder.empty() && ::access(file.c_str(), X_OK) == 0 && !fs::is_directory(file)) return file;
  }
  return Error{
      ErrorCode::not_found,
      fmt::format("the solver CBC (COIN-OR; Debian's package coinor-cbc) is needed for this: there is no `cbc` in "
                  "any folder of PATH ({})",
                  path)};
}

// A folder of its own, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() = default;
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  Result<std::string> make() {
    std::error_code error;
    std::string name = (fs::temp_directory_path(error) / "convoy-cbc-XXXXXX").string();
    if (error || ::mkdtemp(name.data()) == nullptr) {
      return internal(fmt::format("no temporary folder {}: {}", name, std::strerror(errno)));
    }
    path_ = name;
    return name;
  }

 private:
  std::string path_;
};

// Its output goes to a file. Returns the exit status.
Result<int> run(std::vector<std::string> arguments, const std::string& output) {
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = 0;
  const int failed = ::posix_spawn(&child, pointers[0], &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return internal(fmt::format("{}: {}", pointers[0], std::strerror(failed)));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return internal(fmt::format("waitpid: {}", std::strerror(errno)));
  }
  return status;
}

std::string last_lines(const std::string& file) {
  std::ifstream stream(file);
  std::stringstream text;
  text << stream.rdbuf();
  const std::string all = text.str();
  return all.size() > 300 ? all.substr(all.size() - 300) : all;
}

}  // namespace

Result<IlpSolution> solve_by_cbc(const Problem& problem, const std::vector<Resource>& resources,
                                 const std::vector<double>& limits, const CbcOptions& options) {
  CONVOY_CHECK(check(problem, resources, limits));
  std::string program = options.program;
  if (program.empty()) {
    CONVOY_TRY(program, find_program());
  }
  TemporaryFolder temporary;
  std::string folder = options.folder;
  if (folder.empty()) {
    CONVOY_TRY(folder, temporary.make());
  }
  const std::string lp = folder + "/problem.lp", log = folder + "/cbc.log", answer = folder + "/solution.txt";
  {
    std::ofstream stream(lp);
    write_lp(problem, resources, limits, stream);
    if (!stream.flush()) return internal(fmt::format("{}: can't be written", lp));
  }
  CONVOY_TRY(const int status, run({program, lp, "-ratioGap", "0", "-allowableGap", "0", "-timeMode", "elapsed",
                                    "-seconds", fmt::format("{}", options.seconds), "-solve", "-solution", answer},
                                   log));
  std::ifstream stream(answer);
  if (!stream || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return internal(fmt::format("{} failed; it says at last: {}", program, last_lines(log)));
  }
  return read_cbc_solution(problem, resources, limits, stream);
}

}  // namespace convoy::solver
