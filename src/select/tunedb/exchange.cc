// Records as JSON lines, and back.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "core/text.h"
#include "select/choose/former_knobs.h"
#include "select/measure/step_measurement.h"
#include "select/tunedb/impl.h"

namespace convoy {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "convoy-tuning";
constexpr std::int64_t kVersion = 1;
constexpr std::size_t kMostLine = 1 << 20;

constexpr std::array<std::string_view, 22> kFields = {
    "problem",        "device",        "isa",          "driver",  "threads", "weights", "caches",          "candidate",
    "revision",       "provider",      "state",        "seconds", "spread",  "samples", "workspace_bytes", "error",
    "error_absolute", "energy_joules", "failure_code", "failure", "rule",    "date"};

// JSON has no infinity.
Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// Reads the fields of one line; the first that is wrong is the error.
class LineReader {
 public:
  explicit LineReader(const Json& line) : line_(line) {}

  std::string text(const char* name) {
    const Json* field = find(name);
    if (field != nullptr && field->is_string()) return field->get<std::string>();
    return fail<std::string>(name, "a text");
  }
  // A part of what identifies a record.
  std::string line(const char* name) {
    std::string value = text(name);
    const bool control = std::any_of(value.begin(), value.end(), [](char c) { return c >= 0 && c < ' '; });
    return control ? fail<std::string>(name, "a text without control characters") : value;
  }
  std::int64_t integer(const char* name, std::int64_t low, std::int64_t high) {
    const Json* field = find(name);
    const bool whole = field != nullptr && field->is_number_integer() &&
                       !(field->is_number_unsigned() && field->get<std::uint64_t>() > INT64_MAX);
    const std::int64_t value = whole ? field->get<std::int64_t>() : 0;
    if (whole && value >= low && value <= high) return value;
    return fail<std::int64_t>(name, fmt::format("an integer from {} to {}", low, high));
  }
  // null stands for infinity where that may be.
  double number(const char* name, bool may_be_infinite) {
    const Json* field = find(name);
    if (field != nullptr && field->is_null() && may_be_infinite) return std::numeric_limits<double>::infinity();
    const double value = field != nullptr && field->is_number() ? field->get<double>() : -1;
    if (value >= 0 && std::isfinite(value)) return value;
    return fail<double>(name, "a number that is not negative");
  }
  bool has(const char* name) const { return line_.contains(name); }
  template <class T>
  T parsed(const char* name, Result<T> (*parse)(std::string_view)) {
    const std::string value = text(name);
    if (fault_) return T();
    auto result = parse(value);
    if (result.ok()) return *std::move(result);
    fault_ = fmt::format("'{}': {}", name, result.error().message);
    return T();
  }
  template <class T>
  T fail(const char* name, const std::string& wanted) {
    const Json* field = find(name);
    // Nested ones are not written out: that takes as much stack as they are deep.
    std::string found = field == nullptr     ? "missing"
                        : field->is_array()  ? "an array"
                        : field->is_object() ? "an object"
                                             : dump(*field);
    if (found.size() > 60) found = found.substr(0, 57) + "...";
    if (!fault_) fault_ = fmt::format("'{}' is {}, not {}", name, found, wanted);
    return T();
  }
  const std::optional<std::string>& fault() const { return fault_; }

 private:
  const Json* find(const char* name) const {
    const auto found = line_.find(name);
    return found == line_.end() ? nullptr : &*found;
  }
  const Json& line_;
  std::optional<std::string> fault_;
};

// "2026-11-21T15:41:02Z"
bool is_date(const std::string& text) {
  constexpr std::string_view form = "dddd-dd-ddTdd:dd:ddZ";
  return text.size() == form.size() && std::equal(form.begin(), form.end(), text.begin(), [](char f, char c) {
           return f == 'd' ? c >= '0' && c <= '9' : f == c;
         });
}

Result<TuningRecord> parse_record(const Json& line) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  for (const auto& [name, value] : line.items()) {
    if (std::find(kFields.begin(), kFields.end(), name) == kFields.end()) {
      return Error{ErrorCode::corrupt, fmt::format("'{}' is no field of a record", name.substr(0, 60))};
    }
  }
  LineReader reader(line);
  TuningRecord record;
  MeasurementKey& key = record.key;
  key.problem = reader.line("problem");
  const bool is_step = selection::is_step_problem(key.problem);  // taken as it is: nothing here can read it
  const ConvProblem problem = is_step ? ConvProblem() : reader.parsed("problem", parse_problem);
  if (!is_step && !reader.fault()) key.problem = print(problem);
  key.device = reader.line("device");
  key.isa = reader.line("isa");
  key.driver = reader.line("driver");
  key.threads = static_cast<int>(reader.integer("threads", 1, most));
  const std::string weights = reader.text("weights");
  key.constant_weights = weights == "constant";
  if (!key.constant_weights && weights != "variable") reader.fail<int>("weights", "constant or variable");
  key.caches = reader.parsed("caches", parse_cache_state);
  Measurement& m = record.measurement;
  m.candidate = reader.parsed("candidate", parse_candidate);
  if (!reader.fault() && is_step != selection::is_step(m.candidate)) {
    reader.fail<int>("candidate", is_step ? "ops.NAME or convert" : "a convolution's engine");
  }
  if (!reader.fault() && !is_step) {
    if (auto named = selection::with_named_knobs(m.candidate, &problem)) {
      log(LogLevel::warning, "import", {{"candidate", print(m.candidate)}, {"is_written_now", print(*named)}});
      m.candidate = *std::move(named);
    }
  }
  m.revision = static_cast<int>(reader.integer("revision", 0, most));
  m.provider = reader.line("provider");
  m.state = reader.parsed("state", parse_measurement_state);
  m.median_seconds = reader.number("seconds", false);
  m.spread = reader.number("spread", true);
  m.samples = static_cast<int>(reader.integer("samples", 0, most));
  m.workspace_bytes =
      static_cast<std::size_t>(reader.integer("workspace_bytes", 0, std::numeric_limits<std::int64_t>::max()));
  m.max_error = reader.number("error", true);
  m.max_error_absolute = reader.number("error_absolute", true);
  if (reader.has("energy_joules")) m.energy_joules = reader.number("energy_joules", false);
  if (reader.has("failure_code") || reader.has("failure")) {
    const auto code = tunedb::parse_code(reader.text("failure_code"));
    if (!code) reader.fail<int>("failure_code", "the code of an error");
    m.failure = Error{code.value_or(ErrorCode::internal), reader.text("failure")};
    record.rule = reader.has("rule") ? static_cast<int>(reader.integer("rule", 1, most)) : 1;
  }
  record.date = reader.text("date");
  if (!is_date(record.date)) reader.fail<int>("date", "a date like 2026-11-21T15:41:02Z");
  if (reader.fault()) return Error{ErrorCode::corrupt, *reader.fault()};
  return record;
}

Result<void> check_header(const Json& line) {
  const auto format = line.find("format");
  const auto version = line.find("version");
  if (format == line.end() || *format != std::string(kFormat) || version == line.end() ||
      !version->is_number_integer()) {
    return Error{ErrorCode::corrupt,
                 fmt::format("it must begin with a line like {{\"format\":\"{}\",\"version\":{}}}", kFormat, kVersion)};
  }
  if (*version != kVersion) {
    return Error{ErrorCode::unsupported,
                 fmt::format("'version' is {}, this Convoy reads {}", dump(*version), kVersion)};
  }
  return {};
}

}  // namespace

std::string tunedb::record_line(const TuningRecord& record) {
  const MeasurementKey& key = record.key;
  const Measurement& m = record.measurement;
  Json line = {{"problem", key.problem},
               {"device", key.device},
               {"isa", key.isa},
               {"driver", key.driver},
               {"threads", key.threads},
               {"weights", key.constant_weights ? "constant" : "variable"},
               {"caches", name_of(key.caches)},
               {"candidate", print(m.candidate)},
               {"revision", m.revision},
               {"provider", m.provider},
               {"state", name_of(m.state)},
               {"seconds", m.median_seconds},
               {"spread", finite_or_null(m.spread)},
               {"samples", m.samples},
               {"workspace_bytes", m.workspace_bytes},
               {"error", finite_or_null(m.max_error)},
               {"error_absolute", finite_or_null(m.max_error_absolute)}};
  if (m.energy_joules) line["energy_joules"] = *m.energy_joules;
  if (m.failure) {
    line["failure_code"] = tunedb::code_name(m.failure->code);
    line["failure"] = m.failure->message;
    line["rule"] = record.rule;
  }
  line["date"] = record.date;
  return dump(line);
}

std::string export_lines(std::span<const TuningRecord> records) {
  std::string text = dump(Json{{"format", kFormat}, {"version", kVersion}}) + "\n";
  for (const TuningRecord& record : records) text += tunedb::record_line(record) + "\n";
  return text;
}

Result<std::vector<TuningRecord>> parse_lines(std::string_view text, std::string_view file) {
  if (text.starts_with("SQLite format 3")) {
    return Error{ErrorCode::corrupt,
                 fmt::format("{}: a tuning database, not an export: convoy db merge {}", file, file)};
  }
  std::vector<TuningRecord> records;
  bool header = false;
  int number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++number;
    line = trim(line);
    if (line.empty()) continue;
    const auto within = [&](const Error& error) { return error.within(fmt::format("{}:{}", file, number)); };
    if (line.size() > kMostLine) {
      return within({ErrorCode::corrupt, fmt::format("a line of {} bytes is no record", line.size())});
    }
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_object()) return within({ErrorCode::corrupt, "not a JSON object"});
    if (!header) {
      if (auto checked = check_header(json); !checked.ok()) return within(checked.error());
      header = true;
      continue;
    }
    auto record = parse_record(json);
    if (!record.ok()) return within(record.error());
    records.push_back(*std::move(record));
  }
  if (!header) return Error{ErrorCode::corrupt, fmt::format("{}: no line in it", file)};
  return records;
}

}  // namespace convoy
