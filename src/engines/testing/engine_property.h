// The property that every engine has: on any problem it accepts, under any instruction set, thread count and knobs, its
// result is the oracle's within the tolerance, whatever out and the workspace held before, and it writes nowhere else.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "convoy/engine.h"
#include "engines/reference/reference.h"
#include "engines/testing/conv_data.h"
#include "engines/testing/problem_generator.h"

namespace convoy::testing {

// One execution, with all that decides its result.
struct EngineCase {
  const Engine* engine = nullptr;
  ConvProblem problem;
  KnobValues knobs;
  Isa isa = Isa::avx2;
  int threads = 1;
  bool extensions = true;  // with what the processor has beyond the instruction set: VNNI, BF16, FP16, AMX
  bool constant_weights = false;
  Fill fill = Fill::normal;
  std::uint64_t data_seed = 0;
};

// Several lines: every field, and the command that repeats the case.
std::string describe(const EngineCase& test);

// The processor as the case sees it.
CpuFeatures features_of(Isa isa, bool extensions);

struct EngineOutcome {
  std::string failure;  // empty: right
  Verification verification;
  std::vector<std::byte> out;  // the storage of out after the execution
};

// Plans and executes, with out and workspace filled with NaN and all buffers between red zones. Small integers must
// give the oracle's bits, except from engines that declare WINOGRAD.
EngineOutcome run(const EngineCase& test, const ConvData& data, const Expectation& expectation);
// The same, making data and expectation.
EngineOutcome run(const EngineCase& test);

struct PropertyOptions {
  std::int64_t count = 150;  // problems an engine and instruction set
  std::uint64_t seed = 1;
  std::vector<Isa> isas = {Isa::avx2, Isa::avx512};  // those above the processor's are left out
  std::vector<int> threads = {1, 3};
  int attempts = 400;    // offers until a problem is accepted
  int max_failures = 3;  // an engine is given up after so many
};

struct PropertyRuns {
  Isa isa;
  int threads;
  std::int64_t problems = 0;
  std::int64_t exact = 0;             // of them with small integers
  std::int64_t special = 0;           // of them with special values
  std::int64_t constant_weights = 0;  // of them packed at plan time
  std::int64_t random_knobs = 0;      // of them not the default candidate
  double max_error = 0;               // in units of the tolerance
  std::string worst;                  // that problem's string
};

struct PropertySummary {
  std::string engine;
  Acceptance acceptance;
  std::int64_t problems = 0;  // different ones
  std::vector<PropertyRuns> runs;
  bool unavailable = false;  // this processor lacks what it needs
  std::vector<std::string> failures;
  double seconds = 0;
};

// A plan is immutable: four threads execute one at once, each with its own workspace and output, on a few problems, and
// all get the bits that one gets alone. "" or what went wrong.
std::string check_concurrency(const Engine& engine, std::uint64_t seed, int attempts = 400);

PropertySummary check_engine(const Engine& engine, const PropertyOptions& options);
nlohmann::json to_json(const PropertySummary& summary);

}  // namespace convoy::testing
