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

struct Line {
  std::string isa, processor;
  int threads = 0;
  MachineCeiling ceiling;
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
  Line wanted{std::string(name_of(request.cpu.isa)),
              request.cpu.brand.empty() ? "unknown" : request.cpu.brand,
              request.threads,
              {}};
  const std::string file = ceilings_file();
  std::vector<Line> lines = read_lines(file);
  const auto known = std::find_if(lines.begin(), lines.end(), [&](const Line& line) {
    return line.isa == wanted.isa && line.processor == wanted.processor && line.threads == wanted.threads;
  });
  if (known != lines.end() && !again) return known->ceiling;
  const auto team = make_cpu_team(request.threads);
  const cpu::Ceiling measured = cpu::measure_ceiling(request.cpu, *team);
  wanted.ceiling = {measured.f32_flops, measured.cache_bytes, measured.memory_bytes, today(), true};
  if (known != lines.end()) {
    *known = wanted;
  } else {
    lines.push_back(wanted);
  }
  wanted.ceiling.kept = !file.empty() && write_lines(file, lines);
  return wanted.ceiling;
}

std::optional<double> least_seconds(const ConvProblem& problem, const MachineCeiling& ceiling,
                                    const PlanRequest& request) {
  const double bytes = bytes_moved(problem);
  const bool fits = ceiling.cache_bytes > 0 && bytes <= static_cast<double>(request.cpu.l3_bytes) / 2;
  const double rate = fits ? std::max(ceiling.cache_bytes, ceiling.memory_bytes) : ceiling.memory_bytes;
  if (rate <= 0) return std::nullopt;
  if (request.kind() != DeviceKind::cpu) return bytes / rate;
  if (ceiling.f32_flops <= 0 || !is_f32_arithmetic(problem, request.cpu)) return std::nullopt;
  return std::max(flops(problem) / ceiling.f32_flops, bytes / rate);
}

}  // namespace convoy::selection
