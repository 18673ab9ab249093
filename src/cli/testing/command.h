// The command run as a person or a script runs it, for tests.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/environment.h"
#include "io/file.h"

namespace convoy::cli {

namespace fs = std::filesystem;
using nlohmann::json;

inline const std::string kConv = "fprop:x=f32,1x8x6x6,nhwc:w=f32,8x8x3x3:pad=1x1";

// The folder of models and pictures, or empty.
inline fs::path data_folder() {
  if (const auto folder = environment(Variable::data)) return *folder;
  const fs::path beside = fs::path(CONVOY_SOURCE_DIR) / ".." / "shared" / "data";
  return fs::is_directory(beside) ? beside : fs::path();
}

struct Finished {
  int exit_code = -1;
  std::string out, err;
};

class Command : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("convoy_cli_test_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    ::setenv("CONVOY_DB", path("tuning.db").c_str(), 1);  // not the person's own
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ / name; }

  void write(const std::string& name, const std::string& text) const {
    ASSERT_TRUE(io::write_file(path(name), std::as_bytes(std::span(text))).ok());
  }

  // `interrupt_after`: seconds, then it gets what Ctrl-C sends; 0: never.
  Finished run(std::vector<std::string> arguments, double interrupt_after = 0) const {
    arguments.insert(arguments.begin(), CONVOY_BINARY);
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(::open(path("out").c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600), 1);
      ::dup2(::open(path("err").c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600), 2);
      std::vector<char*> argv;
      for (std::string& argument : arguments) argv.push_back(argument.data());
      argv.push_back(nullptr);
      if (in_child_) in_child_();
      ::execv(CONVOY_BINARY, argv.data());
      ::_exit(127);
    }
    if (interrupt_after > 0) {
      ::usleep(static_cast<useconds_t>(interrupt_after * 1e6));
      ::kill(child, SIGINT);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    const auto text = [](const std::string& file) {
      std::ifstream in(file);
      return std::string(std::istreambuf_iterator<char>(in), {});
    };
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), text(path("out")), text(path("err"))};
  }

  // A --json run: standard output must be exactly one document.
  json run_json(std::vector<std::string> arguments, int exit_code) const {
    arguments.push_back("--json");
    const Finished result = run(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_TRUE(json::accept(result.out)) << result.out;
    return json::parse(result.out, nullptr, false);
  }

  // An error: its exit code, its sentence on standard error, nothing on standard output.
  void expect_error(const std::vector<std::string>& arguments, int exit_code, const std::string& says) const {
    const Finished result = run(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_NE(result.err.find(says), std::string::npos) << result.err;
    EXPECT_EQ(result.out, "");
  }

  fs::path folder_;
  std::function<void()> in_child_;  // called in the child, its streams in place, before the command begins
};

}  // namespace convoy::cli
