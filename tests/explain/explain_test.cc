// Every refusal of every engine on the problems of problems.txt against golden.txt, on a processor that is always the
// same. `explain_test --regenerate` writes golden.txt anew: read what changed before it is committed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "convoy/selection.h"
#include "core/text.h"
#include "explain/limited_engines.h"

namespace convoy {
namespace {

const std::string kFolder = CONVOY_EXPLAIN_FOLDER;

// Own engines by name, so that providers, which differ from machine to machine, change nothing here.
std::vector<const Engine*> stable_engines() {
  const std::set<std::string> own = {"cpu.direct", "cpu.gemm", "cpu.depthwise",     "cpu.winograd",
                                     "cpu.wgrad",  "cpu.int8", "cpu.inner_product", "reference"};
  std::vector<const Engine*> engines;
  for (const Engine* engine : all_engines()) {
    if (own.contains(engine->info().name)) engines.push_back(engine);
  }
  engines.push_back(&testing::narrow_engine());
  engines.push_back(&testing::picky_engine());
  return engines;
}

// A line of problems.txt.
struct Question {
  std::string line;
  ConvProblem problem;
  SelectionOptions options;
  PlanRequest request;
};

Result<Question> read_question(const std::string& line) {
  Question question;
  question.line = line;
  CpuFeatures& cpu = question.request.cpu;
  cpu.isa = Isa::avx512;
  cpu.avx512_vnni = true;
  cpu.l1d_bytes = 48 << 10;
  cpu.l2_bytes = 2 << 20;
  cpu.l3_bytes = 64 << 20;
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    const std::string value = word.substr(word.find('=') + 1);
    if (word.starts_with("isa=")) {
      CONVOY_TRY(const Isa isa, parse_isa(value));
      cpu = capped(cpu, isa);
    } else if (word.starts_with("engines=")) {
      question.options.filter.engines = value;
    } else if (word.starts_with("deterministic=")) {
      question.options.filter.deterministic_only = value == "1";
    } else if (word.starts_with("workspace_limit=")) {
      CONVOY_TRY(const std::int64_t limit, parse_integer(value));
      question.options.filter.workspace_limit = limit;
    } else if (word.starts_with("rule=")) {
      CONVOY_TRY(Candidate candidate, parse_candidate(value));
      question.options.rules.push_back({"*", std::move(candidate)});
    } else {
      CONVOY_TRY(question.problem, parse_problem(word));
    }
  }
  return question;
}

std::vector<Question> questions() {
  std::vector<Question> read;
  std::ifstream file(kFolder + "/problems.txt");
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.starts_with("#")) continue;
    auto question = read_question(line);
    if (!question.ok()) {
      ADD_FAILURE() << line << ": " << question.error().message;
      continue;
    }
    read.push_back(std::move(*question));
  }
  return read;
}

// What golden.txt holds of one question. Which engine is chosen among those that can is not in it: that is a matter of
// cost models.
std::string answer(const Question& question) {
  const auto engines = stable_engines();
  std::string text = question.line + "\n";
  for (const EngineAnswer& given : list_candidates(question.problem, engines, question.request)) {
    text += given.refusal ? fmt::format("  {:<14} {}: {}\n", given.engine->info().name, name_of(given.refusal->code),
                                        given.refusal->reason)
                          : fmt::format("  {:<14} can\n", given.engine->info().name);
  }
  const auto chosen = select(question.problem, engines, question.options, question.request);
  if (!chosen.ok()) text += "  none is chosen: " + chosen.error().message + "\n";
  return text + "\n";
}

std::string all_answers() {
  std::string text = "# Written by explain_test --regenerate from problems.txt.\n\n";
  for (const Question& question : questions()) text += answer(question);
  return text;
}

TEST(Explain, RefusalsAreTheGoldenOnes) {
  std::ifstream file(kFolder + "/golden.txt");
  const std::string golden{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(golden, all_answers()) << "if it is meant: build/tests/explain_test --regenerate";
}

TEST(Explain, FortyProblemsAndEveryKindOfRefusal) {
  const auto all = questions();
  EXPECT_GE(all.size(), 40u);
  std::set<std::string> seen;
  for (const Question& question : all) {
    int can = 0;
    const auto answers = list_candidates(question.problem, stable_engines(), question.request);
    for (const EngineAnswer& given : answers) {
      can += given.refusal ? 0 : 1;
      if (given.refusal) seen.insert(std::string(name_of(given.refusal->code)));
    }
    const bool chosen = select(question.problem, stable_engines(), question.options, question.request).ok();
    EXPECT_TRUE(!chosen || can < static_cast<int>(answers.size())) << question.line << ": everything can run it";
  }
  for (const char* code :
       {"instruction_set", "pass", "data_type", "layout", "spatial_dims", "groups", "channels", "filter", "stride",
        "dilation", "padding", "mode", "scaling", "epilogue", "alignment", "size", "workspace"}) {
    EXPECT_TRUE(seen.contains(code)) << "no problem is refused for its " << code;
  }
}

// "groups=32: ...": the field at fault and its value come first.
TEST(Explain, EveryRefusalNamesTheFieldAndTheValue) {
  const std::regex form("^[A-Za-z][A-Za-z_. ]*=[^:]+: .+");
  for (const Question& question : questions()) {
    for (const EngineAnswer& given : list_candidates(question.problem, stable_engines(), question.request)) {
      if (!given.refusal) continue;
      const std::string& reason = given.refusal->reason;
      EXPECT_TRUE(std::regex_search(reason, form) || reason.starts_with("types "))
          << given.engine->info().name << " on " << question.line << ": " << reason;
    }
  }
}

}  // namespace

int regenerate() {
  std::ofstream file(kFolder + "/golden.txt");
  file << all_answers();
  return file.good() ? 0 : 1;
}

}  // namespace convoy

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc > 1 && std::string(argv[1]) == "--regenerate") return convoy::regenerate();
  return RUN_ALL_TESTS();
}
