// Times every design of depthwise problems on a GPU, each verified first: what the cost model is tuned with.
//   cuda_depthwise_bench LIST BATCH TYPES LAYOUTS PASSES DESIGNS [MATCH]    (f32,bf16 nhwc,nchw fprop,dgrad,wgrad 12)
// A line a design: JSON. The layers of LIST that aren't depthwise, or whose text lacks MATCH, are left out.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "core/problem_list.h"
#include "device/cuda/device.h"
#include "device/cuda/stream.h"
#include "engines/cuda/depthwise/depthwise.h"
#include "engines/cuda/reference/verification.h"
#include "engines/cuda/testing/device_data.h"

namespace convoy::cuda {
namespace {

constexpr double kBandwidth = 4.27e12;  // of an H200: a copy, bytes read and written
constexpr double kMultiplyAdds = 67e12 / 2;
constexpr std::size_t kRotated = 200u << 20;  // bytes that repeated runs go through, so that L2 doesn't serve them

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

ConvProblem variant(const ConvProblem& from, std::int64_t batch, DataType type, Layout layout, Pass pass) {
  ConvProblem problem = from;
  problem.pass = pass;
  for (TensorDesc* desc : {&problem.x, &problem.y}) {
    Dims dims = desc->dims;
    dims[0] = batch;
    *desc = TensorDesc::packed(type, dims, layout);
  }
  problem.w = TensorDesc::packed(type, problem.w.dims);
  return problem;
}

double floor_seconds(const ConvProblem& problem) {
  return std::max(bytes_moved(problem) / kBandwidth, flops(problem) / 2 / kMultiplyAdds);
}

struct Set {
  DeviceMemory x, w, y, out;
  ConvArgs args() const { return {.x = x.data(), .w = w.data(), .y = y.data(), .out = out.data()}; }
};

Result<double> timed(const ConvPlan& plan, const std::vector<Set>& sets, const DeviceMemory& workspace, int ordinal) {
  const auto team = make_cpu_team(1);
  CONVOY_TRY(const Stream stream, Stream::create(ordinal));
  CONVOY_TRY(const Event begin, Event::create(ordinal));
  CONVOY_TRY(const Event end, Event::create(ordinal));
  const ExecContext context{*team, workspace.data(), workspace.bytes(), stream.get()};
  const auto run = [&](int i) { return plan.execute(sets[static_cast<std::size_t>(i) % sets.size()].args(), context); };
  for (int i = 0; i < 5; ++i) CONVOY_CHECK(run(i));
  std::vector<double> times;
  for (int round = 0; round < 5; ++round) {
    constexpr int kRuns = 20;
    // Work in front keeps the stream fed while the host enqueues.
    for (int i = 0; i < 4; ++i) CONVOY_CHECK(run(i));
    CONVOY_CHECK(begin.record(stream.get()));
    for (int i = 0; i < kRuns; ++i) CONVOY_CHECK(run(i));
    CONVOY_CHECK(end.record(stream.get()));
    CONVOY_CHECK(end.synchronize());
    CONVOY_TRY(const double seconds, Event::seconds(begin, end));
    times.push_back(seconds / kRuns);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

Result<void> bench(const ConvProblem& problem, std::size_t most, const PlanRequest& request) {
  const Engine& engine = depthwise_engine();
  const int ordinal = request.cuda->ordinal;
  std::vector<std::int64_t> values = engine.knobs(problem, request).front().values;
  if (values.size() > most) values.resize(most);
  std::vector<Result<std::unique_ptr<ConvPlan>>> plans;
  for (std::size_t i = 0; i < values.size(); ++i) plans.emplace_back(Error{});
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < values.size(); ++i) {
    threads.emplace_back([&] {
      for (std::size_t at = next++; at < values.size(); at = next++) {
        plans[at] = engine.plan(problem, {{"tile", values[at]}}, request);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  CONVOY_CHECK(make_current(ordinal));
  std::vector<Set> sets;
  const std::size_t bytes = problem.x.bytes() + problem.w.bytes() + problem.y.bytes();
  for (std::size_t i = 0; i < std::clamp<std::size_t>(kRotated / bytes + 1, 1, 8); ++i) {
    CONVOY_TRY(DeviceMemory x, testing::random_memory(problem.x.type, problem.x.bytes(), 1, ordinal));
    CONVOY_TRY(DeviceMemory w, testing::random_memory(problem.w.type, problem.w.bytes(), 2, ordinal));
    CONVOY_TRY(DeviceMemory y, testing::random_memory(problem.y.type, problem.y.bytes(), 3, ordinal));
    CONVOY_TRY(DeviceMemory out, DeviceMemory::allocate(ordinal, problem.out().bytes(), "out"));
    sets.push_back({std::move(x), std::move(w), std::move(y), std::move(out)});
  }
  CONVOY_TRY(const DeviceExpectation expected,
             DeviceExpectation::make(problem, sets[0].args(), {.full_outputs = 0}, *request.cuda, nullptr));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double predicted = engine.predict_seconds(problem, {{"tile", values[i]}}, request);
    std::string outcome;
    if (!plans[i].ok()) {
      outcome = fmt::format("\"error\":\"{}\"", plans[i].error().message.substr(0, 200));
    } else {
      const ConvPlan& plan = **plans[i];
      CONVOY_TRY(const DeviceMemory workspace, DeviceMemory::allocate(ordinal, plan.workspace_bytes(), "workspace"));
      const auto team = make_cpu_team(1);
      CONVOY_CHECK(fill_bytes(sets[0].out.data(), 0xFF, sets[0].out.bytes(), nullptr));
      CONVOY_CHECK(plan.execute(sets[0].args(), {*team, workspace.data(), workspace.bytes(), nullptr}));
      CONVOY_TRY(const Verification verdict, expected.compare(sets[0].out.data(), Arithmetic::direct, false, nullptr));
      CONVOY_TRY(const double seconds, timed(plan, sets, workspace, ordinal));
      outcome = fmt::format("\"us\":{:.2f},\"error_in_tolerances\":{:.3g}", seconds * 1e6, verdict.max_error);
    }
    fmt::print("{{\"problem\":\"{}\",\"tile\":{},\"rank\":{},\"floor_us\":{:.2f},\"predicted_us\":{:.2f},{}}}\n",
               print(problem), values[i], i, floor_seconds(problem) * 1e6, predicted * 1e6, outcome);
  }
  std::fflush(stdout);
  return {};
}

Result<void> bench_all(int count, char** words) {
  if (count < 7) return Error{ErrorCode::invalid_argument, "LIST BATCH TYPES LAYOUTS PASSES DESIGNS [MATCH]"};
  PlanRequest request;
  CONVOY_TRY(request.cuda, describe(0));
  CONVOY_TRY(const auto list, read_problem_list(words[1]));
  const std::string match = count > 7 ? words[7] : "";
  for (const ListedProblem& listed : list) {
    if (!listed.problem.is_depthwise() || print(listed.problem).find(match) == std::string::npos) continue;
    for (const std::string& type_name : split(words[3])) {
      CONVOY_TRY(const DataType type, parse_data_type(type_name));
      for (const std::string& layout_name : split(words[4])) {
        CONVOY_TRY(const Layout layout, parse_layout(layout_name));
        for (const std::string& pass_name : split(words[5])) {
          CONVOY_TRY(const Pass pass, parse_pass(pass_name));
          const ConvProblem problem = variant(listed.problem, std::atoll(words[2]), type, layout, pass);
          const auto done = bench(problem, std::strtoull(words[6], nullptr, 10), request);
          if (!done.ok()) fmt::print("{{\"problem\":\"{}\",\"error\":\"{}\"}}\n", print(problem), done.error().message);
        }
      }
    }
  }
  return {};
}

}  // namespace
}  // namespace convoy::cuda

int main(int count, char** words) {
  const auto done = convoy::cuda::bench_all(count, words);
  if (done.ok()) return 0;
  fmt::print(stderr, "{}\n", done.error().message);
  return 1;
}
