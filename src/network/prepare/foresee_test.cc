// What is compiled ahead for other batches; in run/home_test.cc's program, on the fake driver.
#include "network/prepare/foresee.h"

#include <set>

#include "core/compiles_ahead.h"
#include "core/shared_bytes.h"
#include "network/prepare/decide.h"
#include "network/prepare/improve.h"
#include "network/testing/home.h"

namespace convoy::network {
namespace {

// Compiles a text for each problem, and is fastest from so many images on.
struct CompiledEngine : testing_support::StreamEngine, CompilesAhead {
  CompiledEngine(std::string name, std::int64_t from) : StreamEngine(std::move(name)), least(from) {}
  double predict_seconds(const ConvProblem& problem, const KnobValues&, const PlanRequest&) const override {
    return problem.x.dims[0] >= least ? 1e-6 / static_cast<double>(1 + least) : 1e-3;
  }
  std::vector<CompilationJob> compilations(const ConvProblem& problem, const KnobValues&,
                                           const PlanRequest&) const override {
    const std::string text = info().name + " " + print(problem);
    if (kept.contains(text)) return {};
    return {{text, [this, text](const std::stop_token&) { kept.insert(text); }}};
  }
  std::int64_t least;
  mutable std::set<std::string> kept;
};

class Foresee : public Home {
 protected:
  Foresee() : graph_(only_convolutions()) {
    graph_.input_info = {{.name = "x", .dims = {-1, 4, 12, 12}}};
    engines_ = {&reference_engine(), &small_, &large_};
  }
  PrepareSettings settings() const { return {.options = options_, .engines = engines_}; }

  std::vector<Background::Job> foreseen(const std::stop_token& stop = {}) {
    auto improved = improve(graph_, settings());
    Chooser chooser(options_, {}, {}, engines_);
    const auto own = decide(std::move(improved->graph), improved->header, chooser);
    EXPECT_TRUE(own.ok()) << own.error().message;
    std::vector<Background::Job> jobs;
    foresee_batches(graph_, own->assignment, settings(), stop,
                    [&](Background::Job job) { jobs.push_back(std::move(job)); });
    return jobs;
  }

  CompiledEngine small_{"test.small", 0}, large_{"test.large", 8};
  Graph graph_;
};

TEST_F(Foresee, WhatOtherBatchesChooseIsCompiled) {
  const std::vector<Background::Job> jobs = foreseen();
  EXPECT_EQ(jobs.size(), 8U);  // of two convolutions, for 1, 8, 32 and 128
  for (const Background::Job& job : jobs) job({});
  EXPECT_EQ(small_.kept.size(), 2U);
  EXPECT_EQ(large_.kept.size(), 6U);
  for (const std::int64_t images : {32, 1, 128, 8}) {
    graph_.values[graph_.inputs[0]].desc = TensorDesc::packed(DataType::f32, {images, 4, 12, 12});
    prepare(graph_);
    int convolutions = 0;
    for (const NetworkStep& step : session_->steps()) {
      if (step.kind != "conv") continue;
      ++convolutions;
      const CompiledEngine& engine = images < 8 ? small_ : large_;
      EXPECT_EQ(step.implementation, engine.info().name);
      EXPECT_TRUE(engine.kept.contains(engine.info().name + " " + print(step.problem))) << print(step.problem);
    }
    EXPECT_EQ(convolutions, 2);
    // All of it is there, so nothing more is looked for.
    EXPECT_TRUE(foreseen().empty());
  }
}

TEST_F(Foresee, AStopEndsIt) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(foreseen(stop.get_token()).empty());
  EXPECT_FALSE(foreseen().empty());
}

TEST_F(Foresee, OfNetworksWithAFreeBatchThatPredictionsDecide) {
  EXPECT_TRUE(can_foresee(graph_, options_));
  const auto without = [&](auto change) {
    Graph graph = graph_;
    NetworkOptions options = options_;
    change(graph, options);
    return !can_foresee(graph, options);
  };
  EXPECT_TRUE(without([](Graph&, NetworkOptions& options) { options.cuda.reset(); }));
  EXPECT_TRUE(without([](Graph&, NetworkOptions& options) { options.how = "global"; }));
  EXPECT_TRUE(without([](Graph&, NetworkOptions& options) { options.plan.emplace(); }));
  EXPECT_TRUE(without([](Graph&, NetworkOptions& options) { options.selection.mode = SelectionMode::measured; }));
  EXPECT_TRUE(without([](Graph& graph, NetworkOptions&) { graph.input_info[0].dims[0] = 2; }));
  EXPECT_TRUE(without([](Graph& graph, NetworkOptions&) { graph.input_info.push_back({.name = "scale"}); }));
  EXPECT_TRUE(without([](Graph& graph, NetworkOptions&) {
    for (Value& value : graph.values) {
      if (value.constant) value.constant->data = borrowed(value.constant->data.get());
    }
  }));
}

}  // namespace
}  // namespace convoy::network
