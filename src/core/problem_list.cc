#include "core/problem_list.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "core/text.h"

namespace convoy {
namespace {

constexpr std::size_t kMostBytes = 16 << 20;
constexpr std::int64_t kMostCount = 1'000'000'000;

// `line` without surrounding space; not empty, not a comment.
Result<ListedProblem> parse_line(std::string_view line) {
  ListedProblem item;
  const std::size_t hash = line.find('#');
  if (hash != std::string_view::npos) item.name = trim(line.substr(hash + 1));
  std::string_view problem = trim(line.substr(0, hash));
  const std::size_t space = problem.find_first_of(" \t");
  if (space != std::string_view::npos) {
    const std::string_view count = problem.substr(0, space);
    const auto parsed = parse_integer(count);
    if (!parsed.ok()) return parsed.error().within("count");
    if (*parsed < 1 || *parsed > kMostCount) {
      return Error{ErrorCode::invalid_argument, fmt::format("count: {} is not from 1 to {}", *parsed, kMostCount)};
    }
    item.count = *parsed;
    problem = trim(problem.substr(space));
  }
  CONVOY_TRY(item.problem, parse_problem(problem));
  return item;
}

}  // namespace

Result<std::vector<ListedProblem>> parse_problem_list(std::string_view text, std::string_view file) {
  std::vector<ListedProblem> list;
  int number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++number;
    line = trim(line);
    if (line.empty() || line.front() == '#') continue;
    auto item = parse_line(line);
    if (!item.ok()) return item.error().within(fmt::format("{}:{}", file, number));
    item->line = number;
    list.push_back(*std::move(item));
  }
  if (list.empty()) return Error{ErrorCode::invalid_argument, fmt::format("{}: no problem in it", file)};
  return list;
}

Result<std::vector<ListedProblem>> read_problem_list(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) return Error{ErrorCode::not_found, fmt::format("{}: {}", path, std::strerror(errno))};
  std::string text;
  char buffer[1 << 16];
  while (const std::size_t read = std::fread(buffer, 1, sizeof buffer, file.get())) {
    text.append(buffer, read);
    if (text.size() > kMostBytes) {
      return Error{ErrorCode::invalid_argument, fmt::format("{}: more than {} bytes, not a list", path, kMostBytes)};
    }
  }
  if (std::ferror(file.get())) {
    return Error{ErrorCode::not_found, fmt::format("{}: {}", path, std::strerror(errno))};
  }
  return parse_problem_list(text, path);
}

}  // namespace convoy
