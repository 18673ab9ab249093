#include "interposer/choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/math_mode.h"
#include "select/choose/engine_list.h"
#include "select/choose/former_knobs.h"
#include "select/choose/glob.h"

namespace convoy::interposer {
namespace {

constexpr std::string_view kFirstLine = "convoy-choices 2";
constexpr std::string_view kNoVersion = "-";

std::string key_of(std::string_view device, std::string_view cudnn, std::string_view problem) {
  return fmt::format("{}\t{}\t{}", device, cudnn, problem);
}

std::string_view take(std::string_view& text, char end) {
  const std::string_view part = text.substr(0, text.find(end));
  text.remove_prefix(std::min(part.size() + 1, text.size()));
  return part;
}

template <class Number>
bool read(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

bool noted(const std::vector<std::string>& notes, std::string_view note) {
  return std::find(notes.begin(), notes.end(), note) != notes.end();
}

Result<void> read_filter(std::string_view line, Filters& filters) {
  std::string text(line);
  std::replace(text.begin(), text.end(), '\t', ' ');
  const std::string_view name = take(line, '\t');
  bool known = true;
  if (name == "engines") {
    filters.engines = line;
  } else if (name == "notes") {
    filters.notes = line;
  } else if (name == "deterministic") {
    filters.deterministic = true;
  } else if (name == "workspace") {
    known = read(line, filters.workspace);
  } else if (name == "sm-count") {
    known = read(line, filters.sm_count.emplace()) && *filters.sm_count > 0;
  } else {
    known = false;
  }
  if (!known) return Error{ErrorCode::corrupt, fmt::format("'{}' is no filter", text)};
  filters.texts.push_back(std::move(text));
  return {};
}

// A file may be older than the names that knobs have; no engine that runs in a program needs the problem for them.
Result<Candidate> read_candidate(std::string_view text, int line, std::vector<std::string>& remarks) {
  CONVOY_TRY(Candidate candidate, parse_candidate(text));
  return selection::named_today(std::move(candidate), nullptr, fmt::format("line {}", line), remarks);
}

}  // namespace

bool is_offered(const Candidate& candidate) { return candidate.engine.starts_with("cudnn.eng"); }

bool Filters::choose() const {
  return !engines.empty() || !notes.empty() || deterministic || workspace != std::numeric_limits<std::int64_t>::max();
}

std::string Filters::forbids(const Candidate& candidate, const std::vector<std::string>& all_notes,
                             std::int64_t workspace_bytes) const {
  if (!engines.empty() && !selection::engine_list_matches(engines, candidate.engine, candidate.knobs)) {
    return "engines " + engines;
  }
  if (deterministic && noted(all_notes, note::nondeterministic)) return "deterministic";
  for (const std::string& each : all_notes) {
    if (!notes.empty() && !selection::glob_list_matches(notes, each)) return fmt::format("notes {} ({})", notes, each);
  }
  if (workspace_bytes > workspace) return fmt::format("workspace {} ({} bytes)", workspace, workspace_bytes);
  return {};
}

// "fprop:x=f32,1x8x9x9,nchw,align=16:w=..." -> "fprop:x=f32,1x8x9x9,nchw:w=..."
std::string Choices::without_alignments(std::string_view problem, Alignments& alignments) {
  constexpr std::string_view mark = ",align=";
  constexpr std::string_view tensors = "xwy";
  alignments.fill(TensorDesc().alignment);
  std::string rest;
  while (!problem.empty()) {
    std::string_view field = take(problem, ':');
    const std::size_t which = field.size() > 2 && field[1] == '=' ? tensors.find(field[0]) : std::string_view::npos;
    const std::size_t at = field.find(mark);
    if (which != std::string_view::npos && at != std::string_view::npos &&
        read(field.substr(at + mark.size()), alignments[which])) {
      field = field.substr(0, at);
    }
    rest.append(rest.empty() ? "" : ":").append(field);
  }
  return rest;
}

Result<Choices> Choices::parse(std::string_view text) {
  Choices choices;
  if (take(text, '\n') != kFirstLine) {
    return Error{ErrorCode::unsupported, fmt::format("line 1: it does not begin with '{}'", kFirstLine)};
  }
  for (int number = 2; !text.empty(); ++number) {
    std::string_view line = take(text, '\n');
    const auto damaged = [&](std::string_view what) {
      return Error{ErrorCode::corrupt, fmt::format("line {}: {}", number, what)};
    };
    const std::string_view kind = take(line, '\t');
    if (kind == "strict") {
      choices.strict = true;
    } else if (kind == "like-benchmark") {
      choices.like_benchmark = true;
    } else if (kind == "filter") {
      if (const auto filter = read_filter(line, choices.filters); !filter.ok()) return damaged(filter.error().message);
    } else if (kind == "rule") {
      const std::string_view pattern = take(line, '\t');
      auto parsed = selection::RulePattern::parse(pattern);
      if (!parsed.ok()) return damaged(parsed.error().message);
      auto candidate = read_candidate(line, number, choices.remarks);
      if (!candidate.ok()) return damaged(candidate.error().message);
      choices.rules.push_back({std::string(pattern), *std::move(parsed), *std::move(candidate)});
    } else if (kind == "time") {
      CONVOY_CHECK(choices.read_time(line, number));
    } else {
      return damaged(fmt::format("'{}' is no kind of line", kind));
    }
  }
  return choices;
}

Result<void> Choices::read_time(std::string_view fields, int line) {
  const auto damaged = [&](std::string_view what) {
    return Error{ErrorCode::corrupt, fmt::format("line {}: {}", line, what)};
  };
  const std::string_view device = take(fields, '\t'), cudnn = take(fields, '\t'), problem = take(fields, '\t');
  auto candidate = read_candidate(take(fields, '\t'), line, remarks);
  if (!candidate.ok()) return damaged(candidate.error().message);
  double cost = 0;
  if (!read(take(fields, '\t'), cost) || !(cost > 0)) return damaged("no time at its end");
  const auto math = fields.empty() ? Result<MathMode>(MathMode::strict) : parse_math_mode(fields);
  if (!math.ok()) return damaged("math " + math.error().message);
  AlignedTime row{{}, {*std::move(candidate), cost, *math}};
  const std::string key = key_of(device, cudnn, without_alignments(problem, row.alignments));
  times_[key].push_back(std::move(row));
  return {};
}

Result<void> Choices::learn(std::string_view lines) {
  const std::lock_guard lock(*times_mutex_);
  for (int number = 1; !lines.empty(); ++number) {
    std::string_view line = take(lines, '\n');
    if (take(line, '\t') != "time") return Error{ErrorCode::corrupt, fmt::format("line {}: not a time", number)};
    CONVOY_CHECK(read_time(line, number));
  }
  return {};
}

void Choices::collect(const std::string& key, const Alignments& callers, std::vector<KnownTime>& known) const {
  const auto found = times_.find(key);
  if (found == times_.end()) return;
  // Those of its own alignment count first.
  for (const bool own : {true, false}) {
    const std::size_t before = known.size();
    for (const AlignedTime& row : found->second) {
      if ((row.alignments == callers) != own) continue;
      bool serves = own || row.known.seconds < std::numeric_limits<double>::infinity();
      for (std::size_t i = 0; i < callers.size(); ++i) serves &= row.alignments[i] <= callers[i];
      if (!serves) continue;
      const auto same = std::find_if(known.begin(), known.end(), [&](const KnownTime& other) {
        return other.candidate == row.known.candidate && other.math == row.known.math;
      });
      if (same == known.end()) {
        known.push_back(row.known);
      } else if (same >= known.begin() + static_cast<std::ptrdiff_t>(before)) {
        same->seconds = std::min(same->seconds, row.known.seconds);
      }
    }
  }
}

std::vector<KnownTime> Choices::find(std::string_view device, std::string_view cudnn, std::string_view problem) const {
  const std::lock_guard lock(*times_mutex_);
  if (times_.empty()) return {};
  Alignments callers;
  std::vector<KnownTime> known;
  collect(key_of(device, cudnn, without_alignments(problem, callers)), callers, known);
  std::erase_if(known, [](const KnownTime& time) { return !is_offered(time.candidate); });
  return known;
}

std::vector<KnownTime> Choices::substitutes(std::string_view device, std::string_view cudnn,
                                            std::string_view problem) const {
  const std::lock_guard lock(*times_mutex_);
  if (times_.empty()) return {};
  Alignments callers;
  const std::string text = without_alignments(problem, callers);
  std::vector<KnownTime> known;
  for (const std::string_view version : {cudnn, kNoVersion}) collect(key_of(device, version, text), callers, known);
  std::erase_if(known, [](const KnownTime& time) { return is_offered(time.candidate); });
  return known;
}

}  // namespace convoy::interposer
