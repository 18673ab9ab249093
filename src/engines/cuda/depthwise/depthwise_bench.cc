// Times every design of depthwise problems on a GPU, each verified first: what the cost model is tuned with.
//   cuda_depthwise_bench LIST BATCH TYPES LAYOUTS PASSES DESIGNS [MATCH]    (f32,bf16 nhwc,nchw fprop,dgrad,wgrad 12)
// DESIGNS: how many of each problem's, or configurations, {kernel=patch,..}, with semicolons.
// A line a design: JSON. The layers of LIST that aren't depthwise, or whose text lacks MATCH, are left out.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "core/problem_list.h"
#include "device/cuda/device.h"
#include "device/cuda/stream.h"
#include "engines/cuda/depthwise/depthwise.h"
#include "engines/cuda/depthwise/problems.h"
#include "engines/cuda/reference/verification.h"
#include "engines/cuda/testing/device_data.h"

namespace convoy::cuda {
namespace {

constexpr double kBandwidth = 4.27e12;  // of an H200: a copy, bytes read and written
constexpr double kMultiplyAdds = 67e12 / 2;
constexpr std::int64_t kRotated = 200 << 20;  // bytes that repeated runs go through, so that L2 doesn't serve them

std::vector<std::string> split(const std::string& text, char separator = ',') {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

double floor_seconds(const ConvProblem& problem) {
  return std::max(bytes_moved(problem) / kBandwidth, flops(problem) / 2 / kMultiplyAdds);
}

// The median over rounds of the mean of a few milliseconds of executions.
Result<double> timed(const ConvPlan& plan, const std::vector<ConvArgs>& sets, const DeviceMemory& workspace,
                     CUstream stream, double guess) {
  CudaQueue queue(stream);
  CONVOY_TRY(const Event begin, Event::create(0));
  CONVOY_TRY(const Event end, Event::create(0));
  const ExecContext context{queue, workspace.data(), workspace.bytes()};
  const auto run = [&](int i) { return plan.execute(sets[static_cast<std::size_t>(i) % sets.size()], context); };
  for (int i = 0; i < 3; ++i) CONVOY_CHECK(run(i));
  std::vector<double> times;
  const int runs = std::clamp(static_cast<int>(1.2e-3 / guess), 8, 60);
  for (int round = 0; round < 5; ++round) {
    // Work in front keeps the stream fed while the host enqueues.
    for (int i = 0; i < 4; ++i) CONVOY_CHECK(run(i));
    CONVOY_CHECK(begin.record(stream));
    for (int i = 0; i < runs; ++i) CONVOY_CHECK(run(i));
    CONVOY_CHECK(end.record(stream));
    CONVOY_CHECK(end.synchronize());
    CONVOY_TRY(const double seconds, Event::seconds(begin, end));
    times.push_back(seconds / runs);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

struct Item {
  ConvProblem problem;
  KnobValues configuration = {};
  std::size_t rank = 0;
  Result<std::unique_ptr<ConvPlan>> plan = Error{};
};

Result<std::vector<Item>> items_of(char** words, const std::string& match, const PlanRequest& request) {
  CONVOY_TRY(const auto list, read_problem_list(words[1]));
  std::vector<KnobValues> asked;
  if (words[6][0] == '{') {
    for (const std::string& text : split(words[6], ';')) {
      CONVOY_TRY(const Candidate candidate, parse_candidate("cuda.depthwise" + text));
      asked.push_back(candidate.knobs);
    }
  }
  const auto most = asked.empty() ? static_cast<std::size_t>(std::atoll(words[6])) : asked.size();
  std::vector<Item> items;
  for (const ListedProblem& listed : list) {
    if (!listed.problem.is_depthwise() || print(listed.problem).find(match) == std::string::npos) continue;
    for (const std::string& type_name : split(words[3])) {
      CONVOY_TRY(const DataType type, parse_data_type(type_name));
      for (const std::string& layout_name : split(words[4])) {
        CONVOY_TRY(const Layout layout, parse_layout(layout_name));
        for (const std::string& pass_name : split(words[5])) {
          CONVOY_TRY(const Pass pass, parse_pass(pass_name));
          const ConvProblem problem = variant(listed.problem, std::atoll(words[2]), type, layout, pass);
          const std::vector<KnobValues> all =
              asked.empty() ? depthwise_engine().configurations(problem, request).listed : asked;
          for (std::size_t i = 0; i < std::min(most, all.size()); ++i) items.push_back({problem, all[i], i});
        }
      }
    }
  }
  return items;
}

// Compiling takes most of the time: all plans are made first, side by side.
void plan_all(std::vector<Item>& items, const PlanRequest& request) {
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) {
    threads.emplace_back([&] {
      for (std::size_t at = next++; at < items.size(); at = next++) {
        items[at].plan = depthwise_engine().plan(items[at].problem, items[at].configuration, request);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Tensors one behind another in `in` and `out`: several sets, so that L2 doesn't serve repeated runs.
std::vector<ConvArgs> sets_in(const ConvProblem& problem, const DeviceMemory& in, const DeviceMemory& out) {
  const auto padded = [](std::int64_t bytes) { return (bytes + 1023) / 1024 * 1024; };
  const std::int64_t x = padded(problem.x.bytes()), w = padded(problem.w.bytes()), y = padded(problem.y.bytes());
  const std::int64_t result = padded(problem.out().bytes());
  std::vector<ConvArgs> sets;
  for (std::int64_t i = 0; i < std::clamp<std::int64_t>(kRotated / (x + w + y) + 1, 1, 16); ++i) {
    auto* first = static_cast<std::byte*>(in.data()) + i * (x + w + y);
    sets.push_back(
        {.x = first, .w = first + x, .y = first + x + w, .out = static_cast<std::byte*>(out.data()) + i * result});
  }
  return sets;
}

Result<void> bench_all(int count, char** words) {
  if (count < 7) return Error{ErrorCode::invalid_argument, "LIST BATCH TYPES LAYOUTS PASSES DESIGNS [MATCH]"};
  PlanRequest request;
  CONVOY_TRY(request.cuda, describe(0));
  CONVOY_TRY(std::vector<Item> items, items_of(words, count > 7 ? words[7] : "", request));
  plan_all(items, request);

  CONVOY_CHECK(make_current(0));
  CONVOY_TRY(const Stream stream, Stream::create(0));
  std::int64_t in_bytes = 0, out_bytes = 0, workspace_bytes = 0;
  for (const Item& item : items) {
    const ConvProblem& p = item.problem;
    in_bytes = std::max(in_bytes, p.x.bytes() + p.w.bytes() + p.y.bytes());
    out_bytes = std::max(out_bytes, p.out().bytes());
    if (item.plan.ok())
      workspace_bytes = std::max(workspace_bytes, static_cast<std::int64_t>((*item.plan)->workspace_bytes()));
  }
  std::map<DataType, DeviceMemory> inputs;
  CONVOY_TRY(const DeviceMemory out, DeviceMemory::allocate(0, out_bytes + 2 * kRotated, "out"));
  CONVOY_TRY(const DeviceMemory workspace, DeviceMemory::allocate(0, workspace_bytes, "workspace"));
  CudaQueue queue(nullptr);
  std::vector<ConvArgs> sets;
  std::optional<DeviceExpectation> expected;
  for (const Item& item : items) {
    const ConvProblem& problem = item.problem;
    if (item.rank == 0) {
      if (!inputs.contains(problem.x.type)) {
        CONVOY_TRY(DeviceMemory memory, testing::random_memory(problem.x.type, in_bytes + 2 * kRotated, 1, 0));
        inputs.emplace(problem.x.type, std::move(memory));
      }
      sets = sets_in(problem, inputs.at(problem.x.type), out);
      CONVOY_TRY(expected, DeviceExpectation::make(problem, sets[0], {.full_terms = 1, .full_outputs = 0},
                                                   *request.cuda, nullptr));
    }
    std::string outcome;
    if (!item.plan.ok()) {
      outcome = fmt::format("\"error\":\"{}\"", item.plan.error().message.substr(0, 200));
    } else {
      const ConvPlan& plan = **item.plan;
      CONVOY_CHECK(fill_bytes(sets[0].out, 0xFF, problem.out().bytes(), nullptr));
      CONVOY_CHECK(plan.execute(sets[0], {queue, workspace.data(), workspace.bytes()}));
      CONVOY_TRY(const Verification verdict, expected->compare(sets[0].out, Arithmetic::direct, false, nullptr));
      CONVOY_TRY(const double seconds, timed(plan, sets, workspace, stream.get(), floor_seconds(problem) + 2e-6));
      outcome = fmt::format("\"us\":{:.2f},\"error_in_tolerances\":{:.3g}", seconds * 1e6, verdict.max_error);
    }
    const double predicted = depthwise_engine().predict_seconds(problem, item.configuration, request);
    fmt::print(
        "{{\"problem\":\"{}\",\"candidate\":\"{}\",\"rank\":{},\"floor_us\":{:.2f},\"predicted_us\":{:.2f},{}}}\n",
        print(problem), print(Candidate{"cuda.depthwise", item.configuration}), item.rank, floor_seconds(problem) * 1e6,
        predicted * 1e6, outcome);
    std::fflush(stdout);
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
