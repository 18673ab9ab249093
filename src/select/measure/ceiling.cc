#include "select/measure/ceiling.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <locale>
#include <sstream>
#include <vector>

#include "base/environment.h"
#include "device/cuda/rates.h"
#include "engines/cpu/ceiling/ceiling.h"

namespace convoy::selection {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHead = "# convoy ceilings 1: ISA THREADS F32_FLOPS CACHE_BYTES MEMORY_BYTES DATE PROCESSOR";

std::string today() {
  const std::time_t time = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&time, &utc);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &utc);
  return text;
}

std::string processor_of(const PlanRequest& request) {
  return request.cpu.brand.empty() ? "unknown" : request.cpu.brand;
}

struct Line {
  std::string isa, processor;
  int threads = 0;
  MachineCeiling ceiling;

  bool is_of(const PlanRequest& request) const {
    return isa == name_of(request.cpu.isa) && processor == processor_of(request) && threads == request.threads;
  }
};

std::optional<Line> parse(const std::string& text) {
  std::istringstream in(text);
  in.imbue(std::locale::classic());
  Line line;
  in >> line.isa >> line.threads >> line.ceiling.f32_flops >> line.ceiling.cache_bytes >> line.ceiling.memory_bytes >>
      line.ceiling.date >> std::ws;
  if (!std::getline(in, line.processor) || line.ceiling.f32_flops <= 0 || line.ceiling.memory_bytes <= 0) return {};
  return line;
}

// Of a file of another version, or none: nothing.
std::vector<Line> read_lines(const std::string& file) {
  std::vector<Line> lines;
  std::ifstream in(file);
  std::string text;
  if (!std::getline(in, text) || text != kHead) return lines;
  while (std::getline(in, text)) {
    if (auto line = parse(text)) lines.push_back(std::move(*line));
  }
  return lines;
}

// Under another name first: a reader never sees half a file.
bool write_lines(const std::string& file, const std::vector<Line>& lines) {
  std::error_code error;
  fs::create_directories(fs::path(file).parent_path(), error);
  const std::string other = fmt::format("{}.{}", file, ::getpid());
  {
    std::ofstream out(other);
    out << kHead << "\n";
    for (const Line& line : lines) {
      const MachineCeiling& c = line.ceiling;
      out << fmt::format("{} {} {:.4g} {:.4g} {:.4g} {} {}\n", line.isa, line.threads, c.f32_flops, c.cache_bytes,
                         c.memory_bytes, c.date, line.processor);
    }
    if (!out.flush()) error = std::make_error_code(std::errc::io_error);
  }
  if (!error) fs::rename(other, file, error);
  if (error) {
    std::error_code ignored;
    fs::remove(other, ignored);
  }
  return !error;
}

// The ceiling, written to the file in place of the one that is there.
MachineCeiling kept(MachineCeiling ceiling, const PlanRequest& request) {
  const std::string file = ceilings_file();
  std::vector<Line> lines = read_lines(file);
  std::erase_if(lines, [&](const Line& line) { return line.is_of(request); });
  lines.push_back({std::string(name_of(request.cpu.isa)), processor_of(request), request.threads, ceiling});
  ceiling.kept = !file.empty() && write_lines(file, lines);
  return ceiling;
}

// Bytes of a problem that come from beyond the private caches, and how fast.
struct Moved {
  double bytes = 0, rate = 0;
  bool cached = false;  // in the shared cache
};
Moved bytes_at(const ConvProblem& problem, const MachineCeiling& ceiling, const PlanRequest& request) {
  const double bytes = bytes_moved(problem);
  if (ceiling.cache_bytes <= 0 || bytes > static_cast<double>(request.cpu.l3_bytes) / 2) {
    return {bytes, ceiling.memory_bytes, false};
  }
  const double own = static_cast<double>(request.cpu.l2_bytes) * request.threads;
  return {std::max(bytes - own, 0.0), std::max(ceiling.cache_bytes, ceiling.memory_bytes), true};
}

bool is_f32_arithmetic(const ConvProblem& problem, const CpuFeatures& cpu) {
  if (problem.compute != DataType::f32) return false;
  if (problem.x.type == DataType::f32 && problem.math == MathMode::strict) return true;
  // Other types are widened to f32, unless the processor has arithmetic of their own.
  return !cpu.avx512_bf16 && !cpu.avx512_fp16 && !cpu.amx_bf16;
}

}  // namespace

std::string ceilings_file() {
  if (const auto cache = environment(Variable::xdg_cache_home)) return *cache + "/convoy/ceilings.txt";
  if (const auto home = environment(Variable::home)) return *home + "/.cache/convoy/ceilings.txt";
  return {};
}

MachineCeiling machine_ceiling(const PlanRequest& request, bool again) {
  if (request.cuda) return {0, 0, cuda::memory_bytes_per_second(*request.cuda), "", true};
  if (!again) {
    for (const Line& line : read_lines(ceilings_file())) {
      if (line.is_of(request)) return line.ceiling;
    }
  }
  const auto team = make_cpu_team(request.threads);
  const cpu::Ceiling measured = cpu::measure_ceiling(request.cpu, *team);
  return kept({measured.f32_flops, measured.cache_bytes, measured.memory_bytes, today(), true}, request);
}

std::optional<double> least_seconds(const ConvProblem& problem, const MachineCeiling& ceiling,
                                    const PlanRequest& request) {
  const Moved moved = bytes_at(problem, ceiling, request);
  if (moved.rate <= 0) return std::nullopt;
  if (request.kind() != DeviceKind::cpu) return moved.bytes / moved.rate;
  if (ceiling.f32_flops <= 0 || !is_f32_arithmetic(problem, request.cpu)) return std::nullopt;
  return std::max(flops(problem) / ceiling.f32_flops, moved.bytes / moved.rate);
}

std::optional<Reached> reached(const ConvProblem& problem, const Measurement& measurement,
                               std::span<const Engine* const> engines, const PlanRequest& request) {
  const auto engine = std::ranges::find_if(
      engines, [&](const Engine* each) { return each->info().name == measurement.candidate.engine; });
  if (measurement.failure || measurement.median_seconds <= 0 || engine == engines.end()) return std::nullopt;
  const std::vector<std::string> notes = (*engine)->notes(problem, measurement.candidate.knobs, request);
  const bool fewer_operations =
      std::ranges::any_of(notes, [](const std::string& note) { return note == note::winograd || note == note::fft; });
  return Reached{problem, measurement.median_seconds, !fewer_operations};
}

MachineCeiling raised(const MachineCeiling& ceiling, std::span<const Reached> all, const PlanRequest& request) {
  MachineCeiling higher = ceiling;
  if (request.kind() != DeviceKind::cpu || ceiling.f32_flops <= 0) return ceiling;
  for (const Reached& each : all) {
    if (each.all_arithmetic && is_f32_arithmetic(each.problem, request.cpu)) {
      higher.f32_flops = std::max(higher.f32_flops, flops(each.problem) / each.seconds);
    }
    const Moved moved = bytes_at(each.problem, higher, request);
    double& rate = moved.cached ? higher.cache_bytes : higher.memory_bytes;
    rate = std::max(rate, moved.bytes / each.seconds);
  }
  const bool is_raised = higher.f32_flops > ceiling.f32_flops || higher.cache_bytes > ceiling.cache_bytes ||
                         higher.memory_bytes > ceiling.memory_bytes;
  if (!is_raised) return ceiling;
  higher.date = today();
  return kept(higher, request);
}

}  // namespace convoy::selection
