// Every candidate of the engines that a glob names, on problem lists, in every pass and type: right against the oracle,
// or refused with a reason. Each problem is run small (batch 1, maps shrunk until the products are few: every output is
// compared), and some as large as they are at batch 1 (corners, edges and at least 4,096 outputs are compared).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/problem_list.h"
#include "engines/testing/engine_property.h"
#include "select/choose/candidates.h"
#include "select/choose/glob.h"

namespace {

using namespace convoy;
using namespace convoy::testing;

struct Flags {
  std::vector<std::string> lists;
  std::string engines = "*,!reference";
  std::string json;
  double products = 2e6;
  int large_every = 0;  // a problem in so many is also run large; 0: none
  double most_products = 2e8;
  int threads = 2;
};

struct Variant {
  Pass pass;
  DataType type;
};
constexpr Variant kVariants[] = {
    {Pass::fprop, DataType::f32},  {Pass::dgrad, DataType::f32},  {Pass::wgrad, DataType::f32},
    {Pass::fprop, DataType::bf16}, {Pass::dgrad, DataType::bf16}, {Pass::wgrad, DataType::bf16},
    {Pass::fprop, DataType::f16},  {Pass::dgrad, DataType::f16},  {Pass::wgrad, DataType::f16},
    {Pass::fprop, DataType::u8},   {Pass::fprop, DataType::s8},
};

// The problem as this variant: other passes have no epilogue; 8-bit ones requantize to u8 or sum to s32.
ConvProblem as_variant(ConvProblem problem, const Variant& variant) {
  const bool integers = is_integer(variant.type);
  problem.pass = variant.pass;
  problem.x.type = problem.w.type = problem.y.type = variant.type;
  problem.compute = integers ? DataType::s32 : DataType::f32;
  problem.x_zero_point = problem.w_zero_point = problem.y_zero_point = 0;
  problem.epilogue.requantize = Requantize::none;
  problem.epilogue.residual.reset();
  if (variant.pass != Pass::fprop) problem.epilogue = {};
  if (!integers) return problem;
  problem.w.type = DataType::s8;
  problem.epilogue.gamma = 0;
  if (variant.type == DataType::s8) {
    problem.y.type = DataType::s32;
  } else {
    problem.epilogue.requantize = Requantize::per_channel;
    problem.x_zero_point = 3;
    problem.y_zero_point = 7;
  }
  return problem;
}

// Batch 1, and maps halved until there are at most so many products.
ConvProblem shrunk(ConvProblem problem, double products) {
  const Layout x = problem.x.layout(), y = problem.y.layout();
  Dims in = problem.x.dims, out;
  in[0] = 1;
  for (;;) {
    out = {1, problem.w.dims[0]};
    for (int i = 0; i < problem.spatial_dims(); ++i) {
      const auto size = conv_output_size(in[2 + i], problem.w.dims[2 + i], problem.pre_padding[i],
                                         problem.post_padding[i], problem.stride[i], problem.dilation[i], "y");
      out.push_back(size.ok() ? *size : 0);
    }
    problem.x = TensorDesc::packed(problem.x.type, in, x == Layout::strided ? Layout::nchw : x);
    problem.y = TensorDesc::packed(problem.y.type, out, y == Layout::strided ? Layout::nchw : y);
    if (flops(problem) / 2 <= products) return problem;
    const auto largest = std::max_element(in.begin() + 2, in.end());
    const auto i = largest - in.begin() - 2;
    const std::int64_t window = problem.dilation[i] * (problem.w.dims[2 + i] - 1) + 1;
    const std::int64_t least = std::max<std::int64_t>(1, window - problem.pre_padding[i] - problem.post_padding[i]);
    if (*largest / 2 < least) return problem;
    *largest = *largest / 2;
  }
}

struct Counts {
  std::int64_t right = 0, large = 0;
  std::int64_t left_out = 0;                    // plain loops on large problems: they take minutes
  std::map<std::string, std::int64_t> refused;  // by code
  std::map<std::string, std::string> example;   // a reason a code
  double max_error = 0;
};

class Run {
 public:
  explicit Run(const Flags& flags) : flags_(flags), team_(make_cpu_team(flags.threads)) {}

  void problem(const ConvProblem& problem, bool large) {
    if (!seen_.insert(print(problem)).second) return;
    problems_ += 1;
    std::optional<ConvData> data;
    std::optional<Expectation> expectation;
    for (const Engine* engine : all_engines()) {
      const EngineInfo& info = engine->info();
      if (info.device != DeviceKind::cpu || !selection::glob_list_matches(flags_.engines, info.name)) continue;
      Counts& counts = counts_[{info.name, fmt::format("{} {}", name_of(problem.pass), name_of(problem.x.type))}];
      if (const auto refusal = refuse(*engine, problem, {1, cpu_features()})) {
        const std::string code(name_of(refusal->code));
        ++counts.refused[code];
        counts.example.emplace(code, refusal->reason);
        continue;
      }
      if (info.oracle && flops(problem) / 2 > flags_.products) {
        ++counts.left_out;
        continue;
      }
      if (!data) {
        data.emplace(problem, 1, Fill::normal);
        expectation.emplace(problem, data->args(), VerifyOptions{.full_terms = 20'000'000}, *team_);
      }
      for (const Candidate& candidate : selection::all_configurations(*engine, problem, {1, cpu_features()})) {
        EngineCase test;
        test.engine = engine;
        test.problem = problem;
        test.knobs = candidate.knobs;
        test.isa = cpu_features().isa;
        test.threads = flags_.threads;
        test.constant_weights = problem.pass != Pass::wgrad;
        const EngineOutcome outcome = run(test, *data, *expectation);
        counts.max_error = std::max(counts.max_error, outcome.verification.max_error);
        if (outcome.failure.empty()) {
          counts.right += 1;
          counts.large += large;
        } else {
          failures_.push_back(outcome.failure + "\n" + describe(test));
          std::fprintf(stderr, "%s\n", failures_.back().c_str());
        }
      }
    }
  }

  nlohmann::json summary() const {
    nlohmann::json engines;
    for (const auto& [key, counts] : counts_) {
      nlohmann::json entry = {{"right", counts.right}, {"of_them_large", counts.large}, {"refused", counts.refused}};
      if (counts.left_out > 0) entry["left_out_as_slow"] = counts.left_out;
      if (counts.right > 0) entry["max_error"] = counts.max_error;
      if (!counts.example.empty()) entry["a_reason"] = counts.example;
      engines[key.first][key.second] = entry;
    }
    return {{"threads", flags_.threads},
            {"problems", problems_},
            {"products_at_most", {{"small", flags_.products}, {"large", flags_.most_products}}},
            {"engines", engines},
            {"failures", failures_}};
  }
  std::size_t failures() const { return failures_.size(); }
  std::int64_t problems() const { return problems_; }

 private:
  const Flags& flags_;
  std::unique_ptr<ThreadTeam> team_;
  std::set<std::string> seen_;
  std::int64_t problems_ = 0;
  std::map<std::pair<std::string, std::string>, Counts> counts_;
  std::vector<std::string> failures_;
};

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Every candidate on problem lists: right, or refused with a reason");
  app.add_option("lists", flags.lists, "problem lists")->required();
  app.add_option("--engines", flags.engines, "glob over engine names");
  app.add_option("--products", flags.products, "most products of a problem run small");
  app.add_option("--large-every", flags.large_every, "run one problem in so many also at batch 1 of its own size");
  app.add_option("--most-products", flags.most_products, "but none with more products than this");
  app.add_option("--threads", flags.threads);
  app.add_option("--json", flags.json, "file for the summary");
  CLI11_PARSE(app, argc, argv);

  Run run(flags);
  std::int64_t listed = 0;
  for (const std::string& path : flags.lists) {
    const auto list = read_problem_list(path);
    if (!list.ok()) return std::fprintf(stderr, "%s\n", list.error().message.c_str()), 2;
    for (const ListedProblem& entry : *list) {
      ++listed;
      for (const Variant& variant : kVariants) {
        const ConvProblem problem = as_variant(entry.problem, variant);
        run.problem(shrunk(problem, flags.products), false);
        if (flags.large_every > 0 && listed % flags.large_every == 0) {
          run.problem(shrunk(problem, flags.most_products), true);
        }
      }
    }
    std::printf("%s: %lld problems so far, %zu failures\n", path.c_str(), static_cast<long long>(run.problems()),
                run.failures());
    std::fflush(stdout);
  }
  nlohmann::json summary = run.summary();
  std::vector<std::string> names;
  for (const std::string& path : flags.lists) names.push_back(path.substr(path.rfind('/') + 1));
  summary["lists"] = names;
  summary["listed"] = listed;
  if (!flags.json.empty()) std::ofstream(flags.json) << summary.dump(1) << '\n';
  return run.failures() == 0 ? 0 : 1;
}
