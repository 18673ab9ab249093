// Batches run in parts: which networks may be, that they give what the whole gives, and plans that say so.
#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <set>

#include "convoy/network_plan.h"
#include "network/graph/image_wise.h"
#include "network/graph/onnx/import.h"
#include "network/graph/onnx/tensor_proto.h"
#include "network/testing/plans.h"

namespace convoy::network {
namespace {

namespace fs = std::filesystem;
using Ints = std::vector<std::int64_t>;

NetworkOptions in_parts(std::int64_t images, bool a_thread_each, int threads = 2) {
  NetworkOptions options = test_options(threads);
  options.parts = BatchParts{images, a_thread_each};
  return options;
}

HostTensor longs(const Ints& values) {
  return tensor_of(DataType::s64, {static_cast<std::int64_t>(values.size())}, {values.begin(), values.end()});
}

// Convolutions, pooling, a residual add, and the classifier as PyTorch exports it: sizes decide the Reshape.
Graph classifier(std::int64_t images, std::int64_t classes = 7) {
  GraphBuilder b;
  const int x = b.node("Relu", {b.conv(b.input("x", {images, 3, 11, 13}), 3, 16, 3)});
  const int y = b.node("Relu", {b.node("Add", {b.conv(x, 16, 16, 3), x})});
  const int pooled = b.node("MaxPool", {y}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}});
  const int size = b.node("Gather", {b.node("Shape", {pooled}), b.constant(longs({0}))}, {{"axis", std::int64_t{0}}});
  const int shape = b.node("Concat", {size, b.constant(longs({-1}))}, {{"axis", std::int64_t{0}}});
  const int flat = b.node("Reshape", {pooled, shape});
  const int scores = b.node("Gemm", {flat, b.constant(spread({16 * 5 * 6, classes}))});
  b.output(b.node("Softmax", {scores}, {{"axis", std::int64_t{1}}}));
  b.output(pooled);
  return b.graph;
}

TEST(BatchParts, GiveWhatTheWholeBatchGives) {
  for (const std::int64_t classes : {7, 16}) {  // parts of 28 bytes, between cache lines, and of whole ones
    const Graph graph = classifier(6, classes);
    const auto expected = prepared(graph, test_options());
    ASSERT_TRUE(expected.ok()) << expected.error().message;
    for (const std::int64_t images : {1, 2, 3, 6}) {
      for (const bool a_thread_each : {false, true}) {
        for (const int threads : {1, 2, 4}) {
          const auto ran = prepared(graph, in_parts(images, a_thread_each, threads));
          ASSERT_TRUE(ran.ok()) << ran.error().message;
          for (std::size_t k = 0; k < 2; ++k) expect_close(ran->outputs[k], expected->outputs[k]);
          for (const NetworkStep& step : ran->steps) {
            EXPECT_TRUE(step.kind != "conv" || step.problem.x.dims[0] == images) << print(step.problem);
            EXPECT_LE(step.threads, a_thread_each ? 1 : threads);
          }
        }
      }
    }
  }
}

// Whichever thread takes a part, and when: a part's plan on one thread gives the same bits.
TEST(BatchParts, SideBySideGiveTheSameBits) {
  const Graph graph = classifier(12);
  const auto expected = prepared(graph, in_parts(1, false, 1));
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  auto session = prepare_graph(graph, {.options = in_parts(1, true, 3)});
  ASSERT_TRUE(session.ok()) << session.error().message;
  const auto inputs = inputs_for(graph);
  for (int run = 0; run < 50; ++run) {
    const auto outputs = (*session)->run(inputs);
    ASSERT_TRUE(outputs.ok()) << outputs.error().message;
    for (std::size_t k = 0; k < outputs->size(); ++k) {
      const auto bytes = static_cast<std::size_t>((*outputs)[k].desc.bytes());
      ASSERT_EQ(std::memcmp((*outputs)[k].data.get(), expected->outputs[k].data.get(), bytes), 0) << "run " << run;
    }
  }
}

TEST(BatchParts, SayWhatOnePartTakes) {
  const Graph graph = classifier(6);
  const auto whole = prepare_graph(graph, {.options = test_options()});
  const auto inputs = inputs_for(graph);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ((*whole)->parts(), BatchParts{});
  EXPECT_EQ((*whole)->turns(), 1);
  for (const bool a_thread_each : {false, true}) {
    auto session = prepare_graph(graph, {.options = in_parts(1, a_thread_each)});
    ASSERT_TRUE(session.ok()) << session.error().message;
    EXPECT_EQ((*session)->turns(), a_thread_each ? 3 : 6);
    const std::size_t side_by_side = a_thread_each ? 2 : 1;
    EXPECT_LE(3 * (*session)->activation_bytes(), side_by_side * (*whole)->activation_bytes());
    RunStatistics statistics;
    ASSERT_TRUE((*session)->run(inputs, &statistics).ok());
    const auto& steps = statistics.step_seconds;
    ASSERT_EQ(steps.size(), (*session)->steps().size());
    const double of_part = std::accumulate(steps.begin(), steps.end(), 0.0);
    EXPECT_LE(of_part * 6 / static_cast<double>(side_by_side), statistics.seconds);
    const auto trace = (*session)->trace(inputs);
    ASSERT_TRUE(trace.ok()) << trace.error().message;
    std::set<std::pair<int, int>> seen;  // step and thread
    for (const auto& span : a_thread_each ? trace->threads : trace->steps) {
      EXPECT_LE(span.begin, span.end);
      EXPECT_LT(span.step, static_cast<int>(steps.size()));
      seen.emplace(span.step, span.thread);
    }
    const std::size_t spans = a_thread_each ? trace->threads.size() : trace->steps.size();
    EXPECT_EQ(spans, 6 * steps.size());
    EXPECT_GE(seen.size(), steps.size());
  }
}

TEST(BatchParts, ArePartOfAPlan) {
  const Graph graph = classifier(4);
  const std::string plan = plan_for(graph, in_parts(2, true));
  EXPECT_NE(plan.find("\nparts 2/thread\n"), std::string::npos) << plan;
  NetworkOptions obeying = test_options();
  obeying.parts.reset();
  obeying.plan = plan_in(plan);
  auto session = prepare_graph(graph, {.options = obeying});
  ASSERT_TRUE(session.ok()) << session.error().message;
  EXPECT_EQ((*session)->parts(), (BatchParts{2, true}));
  EXPECT_EQ(plan_for(graph, obeying), plan);
  const NetworkPlan alone = plan_in(replaced(plan, "parts 2/thread", "parts 1/thread"));
  EXPECT_NEAR(2 * plan_in(plan).cost().seconds, alone.cost().seconds, 1e-12) << "two turns of the same lines";

  obeying.parts = BatchParts{1, true};
  const auto other = prepare_graph(graph, {.options = obeying});
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().message, "plan: the plan is for parts 2/thread, asked for are 1/thread");
  obeying.parts.reset();
  obeying.plan = plan_in(replaced(plan, "parts 2/thread", "parts 3"));
  EXPECT_EQ(prepare_graph(graph, {.options = obeying}).error().message, "parts 3 don't make up a batch of 4 images");
  const std::string wrong = parse_plan(replaced(plan, "parts 2/thread", "parts two")).error().message;
  EXPECT_NE(wrong.find("line 8: parts of a batch: 'two'"), std::string::npos) << wrong;
}

BatchParts chosen_for(const Graph& graph, int threads) {
  NetworkOptions options = test_options(threads);
  options.parts.reset();
  return plan_in(plan_for(graph, options)).header.parts;
}

TEST(BatchParts, AreTakenWherePredictedToTakeLess) {
  const Graph large = plain_zoo_graph("squeezenet1_1", 8);  // activations, and few weights
  EXPECT_NE(chosen_for(large, 1), BatchParts{});
  EXPECT_TRUE(chosen_for(large, 2).a_thread_each);
  GraphBuilder b;  // weights, and few activations
  b.output(b.node("Gemm", {b.input("x", {8, 1024}), b.constant(spread({1024, 2048}))}));
  EXPECT_EQ(chosen_for(b.graph, 1), BatchParts{});
  EXPECT_EQ(chosen_for(b.graph, 2), BatchParts{});
  GraphBuilder between;  // parts that begin between cache lines, so that they would be copied
  between.output(between.node("Abs", {between.input("x", {8, 197, 331})}));
  EXPECT_EQ(chosen_for(between.graph, 2), BatchParts{});
}

TEST(BatchParts, OfOneImageTakeTheLeastMemory) {
  NetworkOptions options = test_options();
  options.parts.reset();
  options.how = "global";
  options.memory.least = true;
  EXPECT_EQ(plan_in(plan_for(classifier(6), options)).header.parts, (BatchParts{1, false}));
}

std::string refusal_of(const Graph& graph, std::int64_t images = 1) {
  auto session = prepare_graph(graph, {.options = in_parts(images, false)});
  NetworkOptions free = test_options();
  free.parts.reset();
  const auto chosen = prepare_graph(graph, {.options = free});
  EXPECT_TRUE(chosen.ok()) << "what can't run in parts runs as a whole";
  EXPECT_TRUE(!chosen.ok() || session.ok() || (*chosen)->parts() == BatchParts{});
  return session.ok() ? "" : session.error().message;
}

TEST(BatchParts, AreRefusedWhereImagesMeet) {
  using Build = std::function<int(GraphBuilder&, int)>;
  const auto along = [](const char* op, std::int64_t axis) {
    return [=](GraphBuilder& b, int x) { return b.node(op, {x}, {{"axis", axis}}); };
  };
  const auto over = [](const char* op, Ints axes) {
    return [=](GraphBuilder& b, int x) { return b.node(op, {x}, {{"axes", axes}}, 11); };
  };
  const std::vector<std::pair<std::string, Build>> mixing{
      {"Softmax_0", along("Softmax", 0)},
      {"Softmax_0", along("Softmax", -4)},
      {"CumSum_0",
       [](GraphBuilder& b, int x) {
         return b.node("CumSum", {x, b.constant(longs({0}))});
       }},
      {"ReduceMean_0", over("ReduceMean", {0, 2})},
      {"ReduceMean_0", over("ReduceMean", {-4})},
      {"ReduceMean_0", [](GraphBuilder& b, int x) { return b.node("ReduceMean", {x}, {}, 11); }},
      {"Transpose_0",
       [](GraphBuilder& b, int x) {
         return b.node("Transpose", {x}, {{"perm", Ints{1, 0, 2, 3}}});
       }},
      {"Reshape_0",
       [](GraphBuilder& b, int x) {
         return b.node("Reshape", {x, b.constant(longs({1, -1}))});
       }},
      {"Flatten_0", along("Flatten", 0)},
      {"Concat_0",
       [](GraphBuilder& b, int x) {
         return b.node("Concat", {x, x}, {{"axis", std::int64_t{0}}});
       }},
      {"Gather_0",
       [](GraphBuilder& b, int x) {
         return b.node("Gather", {x, b.constant(longs({3, 2, 1, 0}))}, {{"axis", std::int64_t{0}}});
       }},
      {"Slice_0",
       [](GraphBuilder& b, int x) {
         return b.node("Slice", {x, b.constant(longs({-1})), b.constant(longs({-9})), b.constant(longs({0})),
                                 b.constant(longs({-1}))});
       }},
      {"Resize_0",
       [](GraphBuilder& b, int x) {
         return b.node("Resize", {x, kAbsent, b.constant(tensor_of(DataType::f32, {4}, {1.1, 1, 1, 1}))},
                       {{"mode", std::string("linear")}});
       }},
      {"Pad_0",
       [](GraphBuilder& b, int x) {
         return b.node("Pad", {x, b.constant(longs({1, 0, 0, 0, -1, 0, 0, 0}))});
       }},
      {"DynamicQuantizeLinear_0",
       [](GraphBuilder& b, int x) {
         return b.node("Cast", {b.node("DynamicQuantizeLinear", {x})}, {{"to", std::int64_t{1}}});
       }},
      // The images' own numbers, and how many there are.
      {"Mul_2",
       [](GraphBuilder& b, int x) {
         const int count = b.node("Cast", {b.node("Size", {x})}, {{"to", std::int64_t{1}}});
         return b.node("Mul", {x, count});
       }},
      {"Add_0",
       [](GraphBuilder& b, int x) {
         return b.node("Add", {x, b.constant(spread({4, 1, 1, 1}))});
       }},
      {"MatMul_0",
       [](GraphBuilder& b, int x) {
         return b.node("MatMul", {b.constant(spread({4, 4, 6, 6})), x});
       }},
      // Channels as many as images.
      {"Reshape_3",
       [](GraphBuilder& b, int x) {
         const int size = b.node("Gather", {b.node("Shape", {x}), b.constant(longs({0}))}, {{"axis", std::int64_t{0}}});
         const int shape = b.node("Concat", {size, size, b.constant(longs({-1}))}, {{"axis", std::int64_t{0}}});
         return b.node("Reshape", {x, shape});
       }},
      // The first axis only looks like one of images.
      {"Expand_1",
       [](GraphBuilder& b, int x) {
         const int one = b.node("ReduceMean", {x}, {{"axes", Ints{1, 2, 3}}, {"keepdims", std::int64_t{0}}}, 11);
         return b.node("Expand", {one, b.constant(longs({4, 4}))});
       }},
  };
  for (const auto& [name, build] : mixing) {
    GraphBuilder b;
    b.output(build(b, b.input("x", {4, 4, 6, 6})));
    const std::string refusal = refusal_of(b.graph);
    EXPECT_NE(refusal.find("'" + name), std::string::npos) << name << ": " << refusal;
  }
}

// Of the images' height, as detectors compute their anchors.
TEST(BatchParts, MayComputeWithSizesThatBatchesShare) {
  GraphBuilder b;
  const int x = b.input("x", {4, 4, 6, 6});
  const int height = b.node("Gather", {b.node("Shape", {x}), b.constant(longs({2}))}, {{"axis", std::int64_t{0}}});
  b.output(b.node("Mul", {x, b.node("Cast", {height}, {{"to", std::int64_t{1}}})}));
  const auto whole = prepared(b.graph, test_options()), parts = prepared(b.graph, in_parts(2, false));
  ASSERT_TRUE(whole.ok() && parts.ok()) << refusal_of(b.graph);
  expect_close(parts->outputs[0], whole->outputs[0]);
}

TEST(BatchParts, AreForEveryNetworkOfTheZoo) {
  const auto team = make_cpu_team(1);
  for (const std::string& name : zoo_names()) {
    const Graph graph = plain_zoo_graph(name, 6);
    for (const std::int64_t images : {1, 3}) {
      const auto done = check_image_wise(graph, images, {*team, cpu_features()});
      EXPECT_TRUE(done.ok()) << name << ": " << done.error().message;
    }
  }
}

// Every case of the standard whose inputs, or first one alone, can be a batch.
TEST(BatchParts, AgreeOnTheConformanceCases) {
  const fs::path data = data_folder();
  if (data.empty()) GTEST_SKIP() << "skipped: no data";
  int in_parts_count = 0, whole_only = 0;
  for (const auto& entry : fs::recursive_directory_iterator(data)) {
    if (entry.path().filename() != "model.onnx" || entry.path().string().find("/models/") != std::string::npos)
      continue;
    const fs::path inputs_at = entry.path().parent_path() / "test_data_set_0";
    std::vector<HostTensor> given;
    for (int i = 0; fs::exists(inputs_at / ("input_" + std::to_string(i) + ".pb")); ++i) {
      auto tensor = onnx_io::read_tensor_file((inputs_at / ("input_" + std::to_string(i) + ".pb")).string());
      if (tensor.ok()) given.push_back(tensor->tensor);
    }
    const auto imported = onnx_io::import_file(entry.path().string());
    if (!imported.ok() || given.size() != imported->inputs.size() || given.empty()) continue;
    for (const bool first_only : {false, true}) {
      Graph graph = *imported;
      std::vector<HostTensor> inputs;
      for (std::size_t i = 0; i < given.size(); ++i) {
        Value& value = graph.values[graph.inputs[i]];
        value.known = true;
        value.desc = given[i].desc;
        if (first_only && i > 0) {
          value.constant = given[i];
        } else {
          inputs.push_back(given[i]);
        }
      }
      graph.inputs.resize(inputs.size());
      if (batch_of(graph).value_or(1) < 2) continue;
      auto part = prepare_graph(graph, {.options = in_parts(1, true)});
      auto whole = prepare_graph(graph, {.options = test_options()});
      if (!whole.ok()) continue;
      if (!part.ok()) {
        ++whole_only;
        continue;
      }
      ++in_parts_count;
      const auto expected = (*whole)->run(inputs), ran = (*part)->run(inputs);
      ASSERT_TRUE(expected.ok() && ran.ok()) << entry.path();
      for (std::size_t k = 0; k < expected->size(); ++k) {
        SCOPED_TRACE(entry.path().parent_path().filename());
        expect_close((*ran)[k], (*expected)[k]);
      }
    }
  }
  EXPECT_GE(in_parts_count, 500) << "and " << whole_only << " as a whole only";
}

}  // namespace
}  // namespace convoy::network
