#include "network/tune/side_by_side.h"

#include <algorithm>
#include <memory>

#include "convoy/thread_team.h"
#include "select/measure/full_speed.h"

namespace convoy::network {
namespace {

constexpr int kMostPreparations = 4;

// What one variant takes, round by round.
class VariantRuns {
 public:
  // Runs of a session in a row; the first of a round, which finds the others' data in the caches, isn't counted.
  Result<void> take(Session& session, std::span<const HostTensor> inputs) {
    constexpr std::size_t kRuns = 3;
    std::vector<double> times;
    for (std::size_t i = 0; i <= kRuns; ++i) {
      RunStatistics statistics;
      CONVOY_CHECK(session.run(inputs, &statistics));
      if (i == 0) continue;
      times.push_back(statistics.device_seconds.value_or(statistics.seconds));  // of a GPU without copies
      steps_.resize(statistics.step_seconds.size());
      for (std::size_t s = 0; s < steps_.size(); ++s) steps_[s].push_back(statistics.step_seconds[s]);
    }
    std::ranges::sort(times);
    medians_.push_back(times[kRuns / 2]);
    return {};
  }

  // Of the first so many rounds.
  void finish(std::size_t rounds, const VariantRuns& first, Timed& timed) {
    medians_.resize(rounds);
    std::vector<double> ratios;
    for (std::size_t i = 0; i < medians_.size(); ++i) ratios.push_back(medians_[i] / first.medians_[i]);
    timed.over_first = selection::summarize(ratios);
    timed.seconds = selection::summarize(medians_);
    for (std::vector<double>& step : steps_) {
      std::ranges::sort(step);
      timed.step_seconds.push_back(selection::quantile(step, 0.5));
      timed.undisturbed_seconds += timed.turns * selection::quantile(step, 0.1);
    }
  }

 private:
  std::vector<double> medians_;
  std::vector<std::vector<double>> steps_;  // of each step what it took, run by run
};

}  // namespace

// The order of the runs goes backwards every second time, so the machine's drift is in none of them, and so does that
// of preparing.
Result<std::vector<Timed>> time_side_by_side(const Network& network, std::span<const TensorDesc> descs,
                                             std::span<const Variant> variants, std::span<const HostTensor> inputs,
                                             int rounds, const std::function<bool()>& go_on, double patience) {
  const std::size_t count = variants.size();
  const int preparations = std::min(rounds, kMostPreparations);
  const auto team = make_cpu_team(variants.front().options.threads);
  selection::FullSpeed full_speed(*team, patience);
  std::vector<Timed> result(count);
  std::vector<VariantRuns> runs_of(count);
  bool ended = false;
  const auto in_order = [&](int number, const auto& what) -> Result<void> {
    for (std::size_t i = 0; i < count; ++i) {
      ended = ended || (go_on && !go_on());
      if (ended) return {};
      CONVOY_CHECK(what(number % 2 == 0 ? i : count - 1 - i));
    }
    return {};
  };
  std::size_t whole = 0;  // rounds
  for (int preparation = 0; preparation < preparations && !ended; ++preparation) {
    std::vector<std::unique_ptr<Session>> sessions(count);
    CONVOY_CHECK(in_order(preparation, [&](std::size_t which) -> Result<void> {
      auto session = network.prepare(descs, variants[which].options);
      const std::string& name = variants[which].name;
      if (!session.ok()) return name.empty() ? session.error() : session.error().within(name);
      sessions[which] = *std::move(session);
      return {};
    }));
    if (ended) break;
    for (int round = preparation; round < rounds && !ended; round += preparations) {
      CONVOY_CHECK(in_order(round / preparations, [&](std::size_t which) {
        full_speed(true);
        return runs_of[which].take(*sessions[which], inputs);
      }));
      whole += ended ? 0 : 1;
    }
    if (preparation > 0) continue;
    for (std::size_t i = 0; i < count; ++i) {
      const Session& session = *sessions[i];
      result[i].steps = session.steps();
      result[i].remarks = session.remarks();
      result[i].turns = session.turns();
      result[i].activations = session.activations();
      result[i].activation_bytes = session.activation_bytes();
      result[i].weight_bytes = session.weight_bytes();
      result[i].workspace_bytes = session.workspace_bytes();
    }
  }
  for (std::size_t i = 0; i < count; ++i) runs_of[i].finish(whole, runs_of[0], result[i]);
  return result;
}

}  // namespace convoy::network
