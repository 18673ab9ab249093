// What a first choice that measures nothing costs on a GPU, beside one query of cuDNN's own heuristic: every problem of
// the lists that are named, each for the first time in this process. Prints one JSON object; needs cuDNN 9.8 or newer,
// and where there is no GPU chooses for an H200 that is only described.
//
//   gpu_choice_cost LIST...
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "convoy/selection.h"
#include "core/problem_list.h"
#include "device/cuda/device.h"
#include "engines/cudnn/cudnn.h"
#include "engines/cudnn/described_h200.h"
#include "engines/cudnn/graph.h"
#include "engines/cudnn/limits.h"
#include "engines/cudnn/properties.h"
#include "engines/table.h"
#include "io/file.h"

namespace convoy {
namespace {

// Of this thread. Where other processes have the processors too, it says what the wall clock doesn't.
double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Taken {
  double wall = 0, cpu = 0;
};

template <class Body>
Taken taken_by(const Body& body) {
  const double wall = monotonic_seconds(), cpu = cpu_seconds();
  body();
  return {monotonic_seconds() - wall, cpu_seconds() - cpu};
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// As a framework asks: the operation graph, mode A, all results. Whether there were any.
bool query(const cuda::CudnnApi& api, const ConvProblem& problem, const cudnn::Descriptor& device) {
  const cudnn::Graph graph(api, problem, nullptr);
  if (!graph.ok()) return false;
  cudnn::Descriptor heuristic(api, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.descriptor())
      .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A)
      .set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device)
      .finalize();
  if (!heuristic.ok()) return false;
  const std::int64_t count = heuristic.count(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR);
  return !heuristic.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, count).empty();
}

Result<int> run(const std::vector<std::string>& lists) {
  CONVOY_TRY(const cuda::CudnnApi* api, cuda::cudnn());
  PlanRequest request;
  const auto device = cuda::describe(0);
  if (device.ok()) {
    request.cuda = *device;
  } else {
    request.cuda = cudnn::described_h200();
  }
  auto properties = cudnn::device_properties(*api, *request.cuda);
  if (!properties.descriptor.ok()) return Error{ErrorCode::unsupported, "cuDNN does not know the device"};
  const auto engines = engines_on(DeviceKind::cuda);
  std::vector<double> ratios, cpu_ratios, choices, queries;
  std::string rows;
  bool loaded = false;
  for (const std::string& file : lists) {
    CONVOY_TRY(const auto bytes, io::read_file(file));
    CONVOY_TRY(const auto problems,
               parse_problem_list({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file));
    for (const ListedProblem& listed : problems) {
      if (cudnn::outside_limits(listed.problem, *request.cuda)) continue;
      bool asked = false;
      std::optional<Result<Selection>> selection;
      const auto ask = [&] { asked = query(*api, listed.problem, properties.descriptor); };
      const auto choose = [&] { selection = select(listed.problem, engines, {}, request); };
      // In turns which comes first, since either leaves something in the caches for the other.
      Taken chosen, queried;
      const bool first = ratios.size() % 2 == 0;
      if (first) chosen = taken_by(choose);
      queried = taken_by(ask);
      if (!first) chosen = taken_by(choose);
      if (!std::exchange(loaded, true) || !asked || !selection->ok()) continue;  // cuDNN loads with the first
      ratios.push_back(chosen.wall / queried.wall);
      cpu_ratios.push_back(chosen.cpu / queried.cpu);
      choices.push_back(chosen.wall);
      queries.push_back(queried.wall);
      rows += fmt::format(
          "{}{{\"problem\":\"{}\",\"candidate\":\"{}\",\"choice_seconds\":{},\"query_seconds\":{},"
          "\"choice_cpu_seconds\":{},\"query_cpu_seconds\":{}}}",
          rows.empty() ? "" : ",\n", print(listed.problem), print((*selection)->candidate), chosen.wall, queried.wall,
          chosen.cpu, queried.cpu);
    }
  }
  std::printf("%s\n",
              fmt::format("{{\"device\":\"{}\",\"described_only\":{},\"cudnn\":\"{}\",\"problems\":{},"
                          "\"median_ratio\":{},\"median_cpu_ratio\":{},\"worst_ratio\":{},"
                          "\"median_choice_seconds\":{},\"median_query_seconds\":{},\"rows\":[\n{}]}}",
                          request.cuda->name, !device.ok(), api->text, ratios.size(), median(ratios),
                          median(cpu_ratios), ratios.empty() ? 0 : *std::max_element(ratios.begin(), ratios.end()),
                          median(choices), median(queries), rows)
                  .c_str());
  return ratios.empty() ? 4 : 0;
}

int main(int argc, char** argv) {
  const auto code = run({argv + 1, argv + argc});
  if (code.ok()) return *code;
  std::fprintf(stderr, "%s\n", code.error().message.c_str());
  return 4;
}

}  // namespace
}  // namespace convoy

int main(int argc, char** argv) { return convoy::main(argc, argv); }
