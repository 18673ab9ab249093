// Where output goes: nothing that is lost counts as done, and only terminals get escape codes.
#include <gtest/gtest.h>
#include <pty.h>

#include <cstdlib>

#include "cli/testing/command.h"

namespace convoy::cli {
namespace {

class Output : public Command {
 protected:
  void TearDown() override {
    for (const char* name : set_) ::unsetenv(name);
    Command::TearDown();
  }
  void set(const char* name, const char* value) {
    ::setenv(name, value, 1);
    set_.push_back(name);
  }

  // Both streams on a terminal: all that the command wrote there.
  static std::string on_terminal(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), CONVOY_BINARY);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    int terminal = -1;
    const pid_t child = ::forkpty(&terminal, nullptr, nullptr, nullptr);
    if (child == 0) {
      ::execv(CONVOY_BINARY, argv.data());
      ::_exit(127);
    }
    std::string text;
    char some[4096];
    for (ssize_t count; (count = ::read(terminal, some, sizeof some)) > 0;) {
      text.append(some, static_cast<std::size_t>(count));
    }
    ::close(terminal);
    ::waitpid(child, nullptr, 0);
    return text;
  }

 private:
  std::vector<const char*> set_;
};

const std::vector<std::vector<std::string>> kCommands = {
    {"--help"},
    {"--version"},
    {"explain", "--help"},
    {"db", "path"},
    {"db", "path", "--json"},
    {"list", "engines"},
    {"list", "layouts", "--json"},
    {"doctor", "--json"},
    {"explain", kConv},
    {"explain", kConv, "--json"},
    {"bench", kConv, "--budget", "50ms", "--json"},
    {"tune", kConv, "--budget", "50ms"},
    {"db", "export"},
    {"verify", kConv, "--json"},
    {"run", "zoo:squeezenet1_1", "--random-inputs", "--dim", "H=64", "--dim", "W=64", "--json"},
};

TEST_F(Output, AFullDiskIsAFailure) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "skipped: no /dev/full";
  in_child_ = [] { ::dup2(::open("/dev/full", O_WRONLY), 1); };
  for (const auto& command : kCommands) {
    const Finished result = run(command);
    EXPECT_EQ(result.exit_code, 1) << command[0] << ": " << result.err;
    EXPECT_NE(result.err.find("standard output did not take everything"), std::string::npos)
        << command[0] << ": " << result.err;
  }
  EXPECT_NE(run({"list", "layouts"}).err.find("No space left on device"), std::string::npos);
  EXPECT_EQ(run({"list", "nothing"}).exit_code, 2);  // nothing was written
}

TEST_F(Output, AClosedStreamIsAFailureAndNoFileTakesItsPlace) {
  in_child_ = [] {
    ::close(0);
    ::close(1);
  };
  const Finished result = run({"tune", kConv, "--budget", "50ms"});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_NE(result.err.find("standard output did not take everything"), std::string::npos) << result.err;
  in_child_ = {};
  EXPECT_EQ(run({"db", "path"}).exit_code, 0);  // its text is not in the database
}

TEST_F(Output, APipeThatNobodyReadsEndsTheCommand) {
  in_child_ = [] {
    int ends[2];
    if (::pipe(ends) != 0) ::_exit(126);
    ::close(ends[0]);
    ::dup2(ends[1], 1);
    ::signal(SIGPIPE, SIG_DFL);
  };
  EXPECT_EQ(run({"list", "engines"}).exit_code, 128 + SIGPIPE);  // as every program in a pipeline ends
  const auto closed = in_child_;
  in_child_ = [closed] {
    closed();
    ::signal(SIGPIPE, SIG_IGN);
  };
  const Finished ignored = run({"list", "engines"});
  EXPECT_EQ(ignored.exit_code, 128 + SIGPIPE);
  EXPECT_EQ(ignored.err, "");
}

TEST_F(Output, FilesThatAreNotWrittenAreFailures) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "skipped: no /dev/full";
  const auto expect_full = [&](const std::vector<std::string>& arguments) {
    const Finished result = run(arguments);
    EXPECT_EQ(result.exit_code, 1) << result.err;
    EXPECT_NE(result.err.find("/dev/full: cannot write: No space left on device"), std::string::npos) << result.err;
  };
  expect_full({"zoo", "squeezenet1_1", "-o", "/dev/full"});
  expect_full({"tune", kConv, "--budget", "50ms", "-o", "/dev/full"});
  expect_full({"db", "export", "-o", "/dev/full"});
  expect_error({"db", "export", "-o", path("nowhere/out.jsonl")}, 2, "cannot write");
}

TEST_F(Output, OnlyTerminalsThatWantThemGetEscapeCodes) {
  const std::vector<std::string> command = {"bench", kConv, "--budget", "300ms", "--threads", "1"};
  set("TERM", "xterm");
  const std::string coloured = on_terminal(command);
  EXPECT_NE(coloured.find('\x1b'), std::string::npos) << coloured;
  EXPECT_NE(coloured.find("measuring ["), std::string::npos) << coloured;
  set("NO_COLOR", "1");
  const std::string plain = on_terminal(command);
  EXPECT_EQ(plain.find('\x1b'), std::string::npos) << plain;
  EXPECT_NE(plain.find("measuring ["), std::string::npos) << plain;
  ::unsetenv("NO_COLOR");
  set("TERM", "dumb");
  const std::string dumb = on_terminal(command);
  EXPECT_EQ(dumb.find('\x1b'), std::string::npos) << dumb;
  EXPECT_EQ(dumb.find("measuring ["), std::string::npos) << dumb;
  EXPECT_NE(dumb.find("Totals of convolutions"), std::string::npos) << dumb;
  ::unsetenv("TERM");
  EXPECT_EQ(on_terminal({"list", "layouts"}).find('\x1b'), std::string::npos);
  set("TERM", "xterm");
  EXPECT_EQ(run(command).out.find('\x1b'), std::string::npos);  // no terminal
}

}  // namespace
}  // namespace convoy::cli
