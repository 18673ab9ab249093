#include "interposer/choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace convoy::interposer {
namespace {

constexpr std::string_view kFirstLine = "convoy-choices 1";

// Of cuDNN's notes, those that say what a result loses.
constexpr std::array<std::string_view, 6> kLosses = {
    "NONDETERMINISTIC", "TENSOR_CORE", "DOWN_CONVERT_INPUTS", "FFT", "REDUCED_PRECISION_REDUCTION", "WINOGRAD"};

unsigned losses_of(const Contender& contender) {
  unsigned losses = 0;
  for (std::size_t i = 0; i < kLosses.size(); ++i) {
    for (const std::string& note : contender.notes) losses |= note == kLosses[i] ? 1u << i : 0u;
  }
  return losses;
}

std::string key_of(std::string_view device, std::string_view cudnn, std::string_view problem) {
  return fmt::format("{}\t{}\t{}", device, cudnn, problem);
}

std::string_view take(std::string_view& text, char end) {
  const std::string_view part = text.substr(0, text.find(end));
  text.remove_prefix(std::min(part.size() + 1, text.size()));
  return part;
}

}  // namespace

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
    if (take(line, '\t') != "time") return damaged("it does not begin with 'time'");
    const std::string_view device = take(line, '\t'), cudnn = take(line, '\t'), problem = take(line, '\t');
    auto candidate = parse_candidate(take(line, '\t'));
    if (!candidate.ok()) return damaged(candidate.error().message);
    double seconds = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), seconds);
    if (error != std::errc() || end != line.data() + line.size() || !(seconds > 0))
      return damaged("no time at its end");
    auto& known = choices.times_[key_of(device, cudnn, problem)];
    known.push_back({*std::move(candidate), seconds});
  }
  return choices;
}

const std::vector<KnownTime>* Choices::find(std::string_view device, std::string_view cudnn,
                                            std::string_view problem) const {
  const auto found = times_.find(key_of(device, cudnn, problem));
  return found == times_.end() ? nullptr : &found->second;
}

std::vector<int> order_by_time(const std::vector<Contender>& offered) {
  std::vector<int> left(offered.size());
  for (std::size_t i = 0; i < left.size(); ++i) left[i] = static_cast<int>(i);
  std::vector<int> order;
  while (!left.empty()) {
    auto next = left.begin();
    // Of all that cuDNN names before: the losses that every one has, and the least time.
    unsigned common = ~0u;
    std::optional<double> least;
    for (auto each = left.begin(); each != left.end(); ++each) {
      const Contender& contender = offered[*each];
      if (!contender.seconds) break;  // nobody knows whether what follows is faster
      const unsigned losses = losses_of(contender);
      const bool fastest = !least || *contender.seconds < *least;
      if (fastest && (losses & ~common) == 0) next = each;
      if (fastest) least = contender.seconds;
      common &= losses;
    }
    order.push_back(*next);
    left.erase(next);
  }
  return order;
}

}  // namespace convoy::interposer
