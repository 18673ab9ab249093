#include "cli/program_reports.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "convoy/tuning_database.h"
#include "core/provider.h"
#include "device/cuda/device.h"
#include "engines/table.h"
#include "io/file.h"

namespace convoy::cli {
namespace {

namespace fs = std::filesystem;

Result<std::string> read_text(const std::string& path) {
  CONVOY_TRY(const auto bytes, io::read_file(path));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

struct Known {
  report::KnownTimes times;
  std::string from;  // for people
};

Known known_times(const std::string& cudnn) {
  const auto path = TuningDatabase::default_path();
  if (!path) return {{}, "none: " + path.error().message};
  const auto database = TuningDatabase::open(*path, TuningDatabase::Access::read);
  if (!database) return {{}, "none: " + database.error().message};
  const auto records = (*database)->records();
  if (!records) return {{}, "none: " + records.error().message};
  Known known{report::KnownTimes(*records, cudnn), *path};
  if (known.times.empty()) {
    known.from = fmt::format("none: {} has no measurement of a GPU with cuDNN {} (convoy tune RECORD --device cuda)",
                             *path, cudnn);
  }
  return known;
}

std::optional<CudaDevice> device_named(const std::string& name) {
  const auto count = cuda::device_count();
  for (int ordinal = 0; count.ok() && ordinal < *count; ++ordinal) {
    auto device = cuda::describe(ordinal);
    if (device.ok() && device->name == name) return *std::move(device);
  }
  return std::nullopt;
}

// Of this build's engines. Where the problem decides they are asked, if the program's GPU and cuDNN are here.
report::NotesOf notes_by_engines(const std::string& cudnn) {
  return [cudnn](const std::string& device, const ConvProblem& problem,
                 const Candidate& candidate) -> std::optional<std::vector<std::string>> {
    const auto engines = engines_on(DeviceKind::cuda);
    const auto found = std::find_if(engines.begin(), engines.end(),
                                    [&](const Engine* engine) { return engine->info().name == candidate.engine; });
    if (found == engines.end()) return std::nullopt;
    if (!(*found)->info().notes_vary) return (*found)->info().notes;
    PlanRequest request;
    request.cuda = device_named(device);
    if (!request.cuda) return std::nullopt;
    const auto provider = provider_of(**found);
    if (!provider || (!provider->empty() && *provider != "cuDNN " + cudnn)) return std::nullopt;
    if (refuse(**found, problem, request)) return std::nullopt;
    return (*found)->notes(problem, candidate.knobs, request);
  };
}

}  // namespace

std::vector<std::string> record_parts(const std::string& file) {
  const fs::path path = fs::absolute(file);
  const std::string prefix = path.filename().string() + ".";
  std::vector<std::string> parts;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path.parent_path(), error)) {
    const std::string name = entry.path().filename().string();
    if (name.size() == prefix.size() || !name.starts_with(prefix)) continue;
    if (std::all_of(name.begin() + static_cast<std::ptrdiff_t>(prefix.size()), name.end(),
                    [](unsigned char c) { return std::isdigit(c) != 0; })) {
      parts.push_back(entry.path().string());
    }
  }
  std::sort(parts.begin(), parts.end());
  return parts;
}

Result<RecordText> read_record(const std::string& file) {
  RecordText record;
  std::error_code error;
  const auto whole = fs::last_write_time(file, error);
  for (const std::string& part : record_parts(file)) {
    // One that is older than the record was left by a run that was killed.
    if (std::error_code none; !error && fs::last_write_time(part, none) < whole) continue;
    const auto text = read_text(part);
    if (!text.ok() && text.error().code == ErrorCode::not_found) continue;  // put together meanwhile
    if (!text.ok()) return text.error();
    record.text += *text;
    record.unfinished = true;
  }
  if (record.unfinished) return record;
  CONVOY_TRY(record.text, read_text(file));
  return record;
}

Result<ProgramReports> report_on(const RecordText& record, const std::string& file,
                                 std::optional<double> copy_bandwidth) {
  CONVOY_TRY(report::Record parsed, report::parse_record(record.text, file));
  const Known known = known_times(parsed.cudnn);
  const report::NotesOf notes = notes_by_engines(parsed.cudnn);
  ProgramReports made;
  made.former_names = report::former_names(parsed);
  made.report = report::make_program_report(std::move(parsed), known.times, notes);
  made.report.database = known.from;
  made.report.unfinished = record.unfinished;
  made.layouts = report::compare_layouts(made.report, known.times, notes, copy_bandwidth);
  return made;
}

}  // namespace convoy::cli
