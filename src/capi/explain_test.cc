// Explanations, and the tuning database as text, in the C interface.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "convoy.h"

namespace {

namespace fs = std::filesystem;

bool says(std::string_view part) { return std::string_view(convoy_error()).find(part) != std::string_view::npos; }

constexpr const char* kText = "fprop:x=f32,1x8x6x6,nhwc:w=f32,8x8x3x3:pad=1x1";

struct CExplanation : testing::Test {
  void SetUp() override { ASSERT_EQ(convoy_problem_create(kText, &problem), CONVOY_OK) << convoy_error(); }
  void TearDown() override {
    convoy_explanation_destroy(explanation);
    convoy_problem_destroy(problem);
    for (const fs::path& file : files) {
      for (const char* suffix : {"", "-wal", "-shm"}) fs::remove(file.string() + suffix);
    }
  }
  std::string new_file(const char* name) {
    files.push_back(fs::path(testing::TempDir()) / (std::string(name) + std::to_string(::getpid()) + ".db"));
    fs::remove(files.back());
    return files.back().string();
  }
  void explain(const convoy_options* options = nullptr) {
    convoy_explanation_destroy(explanation);
    ASSERT_EQ(convoy_explain(problem, options, &explanation), CONVOY_OK) << convoy_error();
    outcome = CONVOY_OUTCOME_INIT;
    ASSERT_EQ(convoy_explanation_outcome(explanation, &outcome), CONVOY_OK) << convoy_error();
  }
  convoy_verdict verdict_of(std::string_view engine) {
    convoy_verdict verdict = CONVOY_VERDICT_INIT;
    for (std::size_t i = 0; i < convoy_explanation_engines(explanation); ++i) {
      EXPECT_EQ(convoy_explanation_verdict(explanation, i, &verdict), CONVOY_OK) << convoy_error();
      if (verdict.engine == engine) return verdict;
    }
    ADD_FAILURE() << "no engine " << engine;
    return CONVOY_VERDICT_INIT;
  }
  std::string exported(const std::string& file) {
    std::string text;
    const auto keep = [](void* user, const char* lines, std::size_t bytes) {
      static_cast<std::string*>(user)->assign(lines, bytes);
    };
    EXPECT_EQ(convoy_database_export(file.c_str(), keep, &text), CONVOY_OK) << convoy_error();
    return text;
  }

  convoy_problem* problem = nullptr;
  convoy_explanation* explanation = nullptr;
  convoy_outcome outcome = CONVOY_OUTCOME_INIT;
  std::vector<fs::path> files;
};

TEST_F(CExplanation, ChoosesWhatSelectChooses) {
  explain();
  convoy_choice* choice = nullptr;
  ASSERT_EQ(convoy_select(problem, nullptr, &choice), CONVOY_OK) << convoy_error();
  EXPECT_STREQ(outcome.candidate, convoy_choice_candidate(choice));
  EXPECT_EQ(convoy_choice_warnings(choice), nullptr);
  EXPECT_STREQ(outcome.reason, "heuristic");
  EXPECT_TRUE(std::string_view(outcome.decided_by).starts_with("the heuristic, among")) << outcome.decided_by;
  ASSERT_NE(outcome.runner_up, nullptr);
  EXPECT_NE(outcome.why_not_runner_up, nullptr);
  convoy_choice_destroy(choice);
}

TEST_F(CExplanation, SaysOfEachEngineWhatItAnswered) {
  convoy_options options = CONVOY_OPTIONS_INIT;
  options.engines = "cpu.*";
  explain(&options);
  const convoy_verdict direct = verdict_of("cpu.direct");
  EXPECT_EQ(direct.refusal, nullptr);
  EXPECT_EQ(direct.excluded, nullptr);
  EXPECT_TRUE(std::string_view(direct.candidate).starts_with("cpu.direct")) << direct.candidate;
  EXPECT_GT(direct.predicted_seconds, 0);
  EXPECT_EQ(direct.measured_seconds, 0);
  const convoy_verdict depthwise = verdict_of("cpu.depthwise");
  EXPECT_STREQ(depthwise.refusal_kind, "groups");
  EXPECT_NE(std::string_view(depthwise.refusal).find("groups=1"), std::string_view::npos) << depthwise.refusal;
  EXPECT_EQ(depthwise.candidate, nullptr);
  EXPECT_NE(verdict_of("reference").excluded, nullptr);
}

TEST_F(CExplanation, NothingToChooseIsAnOutcome) {
  convoy_options options = CONVOY_OPTIONS_INIT;
  options.engines = "cpu.depthwise";
  explain(&options);
  EXPECT_EQ(outcome.candidate, nullptr);
  EXPECT_NE(std::string_view(outcome.reason).find("groups=1"), std::string_view::npos) << outcome.reason;
}

TEST_F(CExplanation, WrongArgumentsAreNamed) {
  EXPECT_EQ(convoy_explain(nullptr, nullptr, &explanation), CONVOY_INVALID_ARGUMENT);
  EXPECT_STREQ(convoy_error(), "problem is null");
  EXPECT_EQ(convoy_explain(problem, nullptr, nullptr), CONVOY_INVALID_ARGUMENT);
  explain();
  convoy_verdict verdict = CONVOY_VERDICT_INIT;
  EXPECT_EQ(convoy_explanation_verdict(explanation, convoy_explanation_engines(explanation), &verdict),
            CONVOY_INVALID_ARGUMENT);
  EXPECT_TRUE(says("engines")) << convoy_error();
  EXPECT_EQ(convoy_explanation_verdict(explanation, 0, nullptr), CONVOY_INVALID_ARGUMENT);
  EXPECT_EQ(convoy_explanation_outcome(nullptr, &outcome), CONVOY_INVALID_ARGUMENT);
  EXPECT_EQ(convoy_explanation_engines(nullptr), 0u);
  EXPECT_EQ(convoy_choice_warnings(nullptr), nullptr);
  convoy_explanation_destroy(nullptr);
}

// The variable is read once in a process: this one is new.
TEST_F(CExplanation, TheConfigurationOfTheEnvironmentIsObeyed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto look = [&] {
    ::setenv("CONVOY_CONFIG", "portable", 1);
    explain();
    const std::string_view excluded = verdict_of("onednn.gemm").excluded;
    std::fprintf(stderr, "%.*s\n", static_cast<int>(excluded.size()), excluded.data());
    std::exit(std::string_view(outcome.candidate).starts_with("cpu.") ? 0 : 1);
  };
  EXPECT_EXIT(look(), testing::ExitedWithCode(0), "configuration=portable");
}

// What one database measured, another knows: through text, and for choosing without measuring.
TEST_F(CExplanation, DatabasesAreMergedAsText) {
  const std::string from = new_file("capi-from-"), to = new_file("capi-to-");
  convoy_options options = CONVOY_OPTIONS_INIT;
  options.threads = 1;
  options.database = to.c_str();
  convoy_choice* choice = nullptr;
  ASSERT_EQ(convoy_select(problem, &options, &choice), CONVOY_OK) << convoy_error();  // of a file that is not there
  EXPECT_STREQ(convoy_choice_reason(choice), "heuristic");
  const std::string guess = convoy_choice_candidate(choice);
  EXPECT_FALSE(fs::exists(to));
  convoy_choice_destroy(choice);

  options.database = from.c_str();
  ASSERT_EQ(convoy_tune(problem, &options, &choice), CONVOY_OK) << convoy_error();
  const std::string fastest = convoy_choice_candidate(choice);
  const std::size_t measured = convoy_choice_measured(choice);
  convoy_choice_destroy(choice);
  const std::string text = exported(from);
  std::int64_t taken = 0;
  ASSERT_EQ(convoy_database_import(to.c_str(), text.data(), text.size(), &taken), CONVOY_OK) << convoy_error();
  EXPECT_EQ(taken, static_cast<std::int64_t>(measured));
  EXPECT_EQ(exported(to), text);
  ASSERT_EQ(convoy_database_import(to.c_str(), text.data(), text.size(), &taken), CONVOY_OK) << convoy_error();
  EXPECT_EQ(taken, 0);

  options.database = to.c_str();
  ASSERT_EQ(convoy_select(problem, &options, &choice), CONVOY_OK) << convoy_error();
  EXPECT_STREQ(convoy_choice_reason(choice), "stored") << guess;
  EXPECT_EQ(convoy_choice_candidate(choice), fastest);
  convoy_choice_destroy(choice);
  explain(&options);
  EXPECT_EQ(outcome.candidate, fastest);
  EXPECT_GT(verdict_of("cpu.direct").measured_seconds, 0);
}

TEST_F(CExplanation, TextThatIsNoDatabaseIsRefusedWhole) {
  const std::string to = new_file("capi-refused-");
  std::int64_t taken = 7;
  EXPECT_EQ(convoy_database_import(to.c_str(), "nonsense", 8, &taken), CONVOY_CORRUPT);
  EXPECT_TRUE(says("text")) << convoy_error();
  EXPECT_EQ(taken, 0);
  EXPECT_FALSE(fs::exists(to));
  const auto nothing = [](void*, const char*, std::size_t) {};
  EXPECT_EQ(convoy_database_export(to.c_str(), nothing, nullptr), CONVOY_NOT_FOUND);
  EXPECT_EQ(convoy_database_export(to.c_str(), nullptr, nullptr), CONVOY_INVALID_ARGUMENT);
  EXPECT_EQ(convoy_database_import(nullptr, "", 0, nullptr), CONVOY_INVALID_ARGUMENT);
}

}  // namespace
