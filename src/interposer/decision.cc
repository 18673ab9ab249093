#include "interposer/decision.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "interposer/order.h"
#include "interposer/real.h"

namespace convoy::interposer {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::string_view kNotBuilt = "its plan could not be built";
constexpr int kMostMade = 2;   // known configurations that are added to cuDNN's list
constexpr int kMostTried = 8;  // of which it is found out whether they can be

Candidate plain(const Listed& listed) { return without_automatic(listed.engine_config.candidate); }

std::vector<RankedConfiguration> ranked_of(const std::vector<Listed>& listed) {
  std::vector<RankedConfiguration> ranked;
  for (const Listed& each : listed) ranked.push_back({each.notes, each.seconds});
  return ranked;
}

// The notes of `listed` that say what it loses and `other` does not.
std::vector<std::string> losses_beyond(const Listed& listed, const Listed& other) {
  std::vector<std::string> losses;
  for (const std::string& note : listed.notes) {
    if ((losses_of({note}) & ~losses_of(other.notes)) != 0) losses.push_back(note);
  }
  return losses;
}

class Decider {
 public:
  Decider(const Question& question, const Choices& choices) : question_(question), choices_(choices) {}

  std::optional<Decision> decide_by_first(unsigned accepted) {
    const std::vector<Listed> places = list(question_.heuristic, 1);
    if (places.empty()) return std::nullopt;
    const Listed& first = places.front();
    if ((losses_of(first.notes) & ~accepted) != 0) return std::nullopt;
    if (!first.seconds) return Decision{.as_ever = true};  // nothing goes before what nobody measured
    if (*first.seconds == kInfinity) return std::nullopt;
    const KnownTime* fastest = nullptr;
    for (const KnownTime& time : question_.known) {
      if (!has_failed(time.candidate) && (fastest == nullptr || time.seconds < fastest->seconds)) fastest = &time;
    }
    const double worth = std::min(kFaster * *first.seconds, *first.seconds - kLaunch);
    if (fastest == nullptr || fastest->seconds >= worth) return Decision{.as_ever = true};
    auto winner = make(fastest->candidate);
    if (!winner.ok() || !losses_that_count(*winner, first).empty()) return std::nullopt;
    // The program may filter it, and has the next one where it should be only in the whole list.
    if (choices_.like_benchmark && (losses_of(winner->notes) & ~accepted) != 0) return std::nullopt;
    Decision decision{.in_front = true, .target = question_.target};
    decision.entries.push_back(*std::move(winner));
    return decision;
  }

  Decision decide() {
    decision_.target = question_.target;
    std::vector<Listed> permitted, forbidden;
    std::vector<Listed> cudnns = list(question_.heuristic);
    for (const Listed& each : cudnns) {
      decision_.cudnns.push_back(each.engine_config);
      (each.forbidden.empty() ? permitted : forbidden).push_back(each);
    }
    const bool first_list = !question_.fallback;
    if (first_list && permitted.empty()) {  // filtered away, or cuDNN's heuristics have none: the program asks on
      permitted = fallbacks();
      decision_.none_permitted = permitted.empty() && !cudnns.empty();
    }
    const std::vector<Listed> own = cudnns.empty() ? permitted : cudnns;  // in cuDNN's order
    decision_.entries = ordered(permitted);
    if (first_list) add_known();
    // Who times all takes the fastest, whatever stands first.
    const bool left_out = choices_.strict || (question_.benchmark && !entries().empty());
    if (!left_out) std::ranges::copy(ordered(forbidden), std::back_inserter(entries()));
    if (question_.rule) {
      obey(choices_.rules[*question_.rule].candidate);
      if (decision_.obeyed && !own.empty()) decision_.adds = losses_beyond(entries().front(), own.front());
      if (choices_.strict) entries().resize(decision_.obeyed ? 1 : 0);
    } else if (first_list) {
      const bool same = entries().empty() || plain(entries().front()) == plain(own.front());
      if (cudnns.empty() && same) return {.as_ever = true};
      tell_not_placed();
      if ((choices_.like_benchmark || question_.harmless != 0) && !entries().empty()) {
        decision_.adds = losses_beyond(entries().front(), own.front());
      }
    }
    if (question_.benchmark && !cudnns.empty()) cut(cudnns.front());
    return std::move(decision_);
  }

 private:
  std::vector<Listed>& entries() { return decision_.entries; }

  // What keeps a configuration behind more precise ones: its notes but the harmless; like benchmark mode those alone
  // that cuDNN doesn't say, since the program's filters look at all others.
  std::vector<std::string> guarded(const Listed& listed) const {
    std::vector<std::string> notes = choices_.like_benchmark ? listed.engine_config.hidden_notes : listed.notes;
    std::erase_if(notes, [&](const std::string& note) { return (losses_of({note}) & question_.harmless) != 0; });
    return notes;
  }
  std::vector<RankedConfiguration> guarded(const std::vector<Listed>& listed) const {
    std::vector<RankedConfiguration> ranked;
    for (const Listed& each : listed) ranked.push_back({guarded(each), each.seconds});
    return ranked;
  }
  std::vector<Listed> ordered(const std::vector<Listed>& listed) const {
    std::vector<Listed> sorted;
    for (const int i : order_by_time(guarded(listed))) sorted.push_back(listed[i]);
    return sorted;
  }
  // The notes of `listed` that keep it from going before `other`.
  std::vector<std::string> losses_that_count(const Listed& listed, const Listed& other) const {
    std::vector<std::string> notes = losses_beyond(listed, other);
    const std::vector<std::string> counted = guarded(listed);
    std::erase_if(notes, [&](const std::string& note) { return std::ranges::count(counted, note) == 0; });
    return notes;
  }

  void assess(Listed& listed, cudnnBackendDescriptor_t configuration) {
    listed.engine_config = engine_config_of(configuration, question_.problem);
    listed.notes = listed.engine_config.notes;
    listed.notes.insert(listed.notes.end(), listed.engine_config.hidden_notes.begin(),
                        listed.engine_config.hidden_notes.end());
    const Candidate candidate = plain(listed);
    for (const KnownTime& time : question_.known) {
      if (time.candidate == candidate) listed.seconds = time.seconds;
    }
    if (has_failed(candidate)) listed.seconds = kInfinity;
    if (question_.benchmark || choices_.filters.choose()) listed.workspace = workspace_of(configuration);
    listed.forbidden = choices_.filters.forbids(listed.engine_config.candidate, listed.notes, listed.workspace);
  }

  bool has_failed(const Candidate& candidate) const {
    return std::find(question_.failed.begin(), question_.failed.end(), candidate) != question_.failed.end();
  }

  // A configuration can be filled once only, so the list is found out with others than the program's.
  std::vector<Listed> list(cudnnBackendDescriptor_t heuristic, std::optional<std::int64_t> places = {}) {
    const cudnn::Descriptor asked = cudnn::Descriptor::borrowed(real(), heuristic);
    if (!places) places = asked.count(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR);
    const auto given = asked.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, *places);
    std::vector<Listed> listed(given.size());
    for (std::size_t i = 0; i < given.size(); ++i) {
      listed[i].index = static_cast<int>(i);
      assess(listed[i], given[i].raw());
    }
    return listed;
  }

  // One that cuDNN did not offer, tried with a configuration that nobody gets.
  Result<Listed> make(const Candidate& candidate) {
    const cudnn::Descriptor trial(real(), CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    CONVOY_TRY(const Parts parts, configure(trial.raw(), question_.target, candidate));
    Listed made;
    assess(made, trial.raw());
    made.engine_config.candidate = candidate;
    return made;
  }

  // What the heuristics' fallback list has that the filters permit. It is made here, since it is another query's.
  std::vector<Listed> fallbacks() {
    cudnn::Descriptor heuristic(real(), CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, question_.target.graph)
        .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_FALLBACK);
    if (question_.target.device_properties != nullptr) {
      heuristic.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                    question_.target.device_properties);
    }
    heuristic.finalize();
    std::vector<Listed> permitted;
    if (!heuristic.ok()) return permitted;
    for (const Listed& each : list(heuristic.raw())) {
      if (!each.forbidden.empty()) continue;
      if (auto made = make(each.engine_config.candidate); made.ok()) permitted.push_back(*std::move(made));
    }
    return permitted;
  }

  // The fastest that were measured and that cuDNN did not offer, where the order's promise allows it.
  void add_known() {
    std::vector<KnownTime> missing;
    double slowest = 0;
    for (const Listed& each : entries()) slowest = std::max(slowest, each.seconds.value_or(0));
    for (const KnownTime& time : question_.known) {
      const bool offered = std::any_of(entries().begin(), entries().end(),
                                       [&](const Listed& each) { return plain(each) == time.candidate; });
      if (!offered && time.seconds < slowest && !has_failed(time.candidate)) missing.push_back(time);
    }
    std::sort(missing.begin(), missing.end(),
              [](const KnownTime& a, const KnownTime& b) { return a.seconds < b.seconds; });
    missing.resize(std::min<std::size_t>(missing.size(), kMostTried));
    int made = 0;
    for (const KnownTime& time : missing) {
      auto found = make(time.candidate);
      if (!found.ok() || !found->forbidden.empty()) continue;
      const auto place = place_in(guarded(entries()), {guarded(*found), found->seconds});
      if (!place) continue;
      entries().insert(entries().begin() + static_cast<std::ptrdiff_t>(*place), *std::move(found));
      if (++made == kMostMade) return;
    }
  }

  // Puts the rule's candidate first.
  void obey(const Candidate& wanted) {
    const auto first = [&](auto matches) { return std::find_if(entries().begin(), entries().end(), matches); };
    auto found = first([&](const Listed& each) { return plain(each) == without_automatic(wanted); });
    if (found == entries().end()) found = first([&](const Listed& each) { return fits(plain(each), wanted); });
    if (found == entries().end() && question_.fallback) {  // the first list had it
      const bool built = std::none_of(question_.failed.begin(), question_.failed.end(),
                                      [&](const Candidate& failed) { return fits(failed, wanted); });
      if (!built) decision_.disobeyed = std::string(kNotBuilt);
      return;
    }
    std::optional<Listed> made;
    if (found == entries().end()) {
      auto result = make(wanted);
      if (!result.ok()) {
        decision_.disobeyed = result.error().message;
        return;
      }
      made = *std::move(result);
    }
    const Listed& winner = made ? *made : *found;
    if (!winner.forbidden.empty()) {
      decision_.disobeyed = "the filter takes it away: " + winner.forbidden;
    } else if (has_failed(plain(winner))) {
      decision_.disobeyed = std::string(kNotBuilt);
    } else {
      decision_.obeyed = true;
      if (made) {
        entries().insert(entries().begin(), *std::move(made));
      } else {
        std::rotate(entries().begin(), found, std::next(found));
      }
    }
  }

  // Of the fastest that is known, where it is not what the program is offered first.
  void tell_not_placed() {
    const auto best = std::min_element(question_.known.begin(), question_.known.end(),
                                       [](const KnownTime& a, const KnownTime& b) { return a.seconds < b.seconds; });
    // Those that are known to fail stand in nobody's way.
    const auto front =
        std::find_if(entries().begin(), entries().end(), [](const Listed& each) { return each.seconds != kInfinity; });
    if (best == question_.known.end() || best->seconds == kInfinity || front == entries().end()) return;
    const Listed& first = *front;
    if (plain(first) == best->candidate) return;
    decision_.not_placed = print(best->candidate);
    const auto found = std::find_if(entries().begin(), entries().end(),
                                    [&](const Listed& each) { return plain(each) == best->candidate; });
    const Result<Listed> winner = found == entries().end() ? make(best->candidate) : Result<Listed>(*found);
    if (!winner.ok()) {
      decision_.not_placed_reason = winner.error().message;
    } else if (!winner->forbidden.empty()) {
      decision_.not_placed_reason = "the filter takes it away: " + winner->forbidden;
    } else if (has_failed(plain(*winner))) {
      decision_.not_placed_reason = std::string(kNotBuilt);
    } else if (const auto losses = losses_that_count(*winner, first); !losses.empty()) {
      decision_.not_placed_reason =
          fmt::format("{}: {} has no such note", fmt::join(losses, ", "), print(plain(first)));
    } else {
      decision_.not_placed_reason =
          print(plain(first)) + " goes before it: nobody measured one of them, or they are equal";
    }
  }

  // For who times what it is offered: the few that matter, where all are known. One of them has the least workspace,
  // for who can't have more.
  void cut(const Listed& cudnns) {
    if (entries().empty()) return;
    const bool known = std::all_of(entries().begin(), entries().end(),
                                   [](const Listed& each) { return each.seconds || each.index < 0; });
    if (!known) return;
    std::vector<int> kept = worth_timing(ranked_of(entries()), {cudnns.notes, {}}, question_.fallback ? 1 : 2);
    const auto least = std::min_element(entries().begin(), entries().end(), [](const Listed& a, const Listed& b) {
      return std::pair(a.seconds == kInfinity, a.workspace) < std::pair(b.seconds == kInfinity, b.workspace);
    });
    kept.push_back(static_cast<int>(least - entries().begin()));
    if (decision_.obeyed) kept.push_back(0);
    std::sort(kept.begin(), kept.end());
    kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
    std::vector<Listed> few;
    for (const int i : kept) few.push_back(std::move(entries()[i]));
    entries() = std::move(few);
  }

  const Question& question_;
  const Choices& choices_;
  Decision decision_;
};

}  // namespace

Decision decide(const Question& question, const Choices& choices) { return Decider(question, choices).decide(); }

std::optional<Decision> decide_by_first(const Question& question, const Choices& choices, unsigned accepted) {
  return Decider(question, choices).decide_by_first(accepted);
}

}  // namespace convoy::interposer
