// convoy bench 'convert:...': a conversion beside a copy.
#include "cli/bench_conversion.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "convert/convert.h"
#include "convert/problem.h"
#include "convoy/host_tensor.h"
#include "report/format.h"
#include "report/table.h"

namespace convoy::cli {
namespace {

constexpr int kSamples = 101;

template <class Body>
double seconds_of(Body body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

Result<int> bench_conversion(const Program& program, const std::string& text) {
  CONVOY_TRY(const PlanRequest request, program.plan_request());
  CONVOY_TRY(const ConversionProblem problem, parse_conversion(text));
  if (program.on_gpu()) {
    return Error{ErrorCode::unsupported,
                 fmt::format("--device {}: conversions are timed on the processor only", program.shared.device)};
  }
  CONVOY_TRY(const HostTensor source, HostTensor::zeros(problem.x));
  CONVOY_TRY(const HostTensor target, HostTensor::zeros(problem.y));
  const double moved = bytes_moved(problem);
  if (moved == 0) return Error{ErrorCode::invalid_argument, "x.dims=" + to_string(problem.x.dims) + ": no elements"};
  const auto half = static_cast<std::int64_t>(moved / 2);
  CONVOY_TRY(const HostTensor copy_source, HostTensor::zeros(TensorDesc::packed(DataType::u8, {half})));
  CONVOY_TRY(const HostTensor copy_target, HostTensor::zeros(TensorDesc::packed(DataType::u8, {half})));
  const auto team = make_cpu_team(request.threads);
  const auto convert = [&] {
    convert_layout(problem.x, source.data.get(), problem.y, target.data.get(), *team, request.cpu);
  };
  const auto copy = [&] {
    parallel_ranges(*team, half, [&](std::int64_t begin, std::int64_t end, int) {
      std::memcpy(copy_target.data.get() + begin, copy_source.data.get() + begin,
                  static_cast<std::size_t>(end - begin));
    });
  };
  convert();
  copy();
  std::vector<double> conversions, copies;
  for (int i = 0; i < kSamples; ++i) {  // in turns, so that both meet the same machine
    conversions.push_back(seconds_of(convert));
    copies.push_back(seconds_of(copy));
  }
  const double seconds = median(conversions), copy_seconds = median(copies);
  const double predicted = conversion_seconds(problem.x, problem.y, request);
  const std::string_view kind = name_of(conversion_kind(problem.x, problem.y));
  program.say(fmt::format("{} on {}", print(problem), place_of(request)));
  using report::Align;
  report::Table table;
  table.column("").column("time", Align::right).column("GB/s", Align::right).column("of a copy", Align::right);
  table.row({fmt::format("conversion ({})", kind), report::seconds(seconds), report::rate(moved / seconds),
             report::percent(copy_seconds / seconds)});
  table.row({"copy of as many bytes", report::seconds(copy_seconds), report::rate(moved / copy_seconds), ""});
  table.row({"predicted", report::seconds(predicted), "", ""});
  program.say(table, 2);
  program.document({{"target", print(problem)},
                    {"threads", request.threads},
                    {"kind", kind},
                    {"samples", kSamples},
                    {"seconds", seconds},
                    {"bytes_per_second", moved / seconds},
                    {"copy_seconds", copy_seconds},
                    {"share_of_copy", copy_seconds / seconds},
                    {"predicted_seconds", predicted}});
  return kDone;
}

}  // namespace convoy::cli
