#include "network/tune/side_by_side.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "convoy/thread_team.h"
#include "device/cuda/measuring_lock.h"
#include "select/measure/full_speed.h"

namespace convoy::network {
namespace {

constexpr int kMostPreparations = 4;
constexpr int kMostPreparationsOnGpu = 2;  // where memory lies in pages of 2 MB

// On a GPU a run whose steps are timed takes a few microseconds a step longer, so the steps' times are those of a run
// of their own.
class VariantRuns {
 public:
  explicit VariantRuns(const std::optional<CudaDevice>& gpu) : gpu_(gpu) {}

  // Runs of a session in a row; the first of a round, which finds the others' data in the caches, isn't counted, nor on
  // a GPU the second, which may be the one that is recorded.
  Result<void> take(Session& session, std::span<const HostTensor> inputs) {
    constexpr std::size_t kRuns = 3;
    std::optional<cuda::MeasuringLock> lock;
    if (gpu_) lock.emplace(gpu_->ordinal);
    std::vector<double> times;
    const std::size_t uncounted = gpu_ ? 2 : 1;
    for (std::size_t i = 0; i < uncounted + kRuns; ++i) {
      RunStatistics statistics{.each_step = !gpu_};
      CONVOY_CHECK(session.run(inputs, &statistics));
      if (i < uncounted) continue;
      times.push_back(statistics.device_seconds.value_or(statistics.seconds));  // of a GPU without copies
      keep_steps(statistics);
    }
    std::ranges::sort(times);
    runs_.insert(runs_.end(), times.begin(), times.end());
    medians_.push_back(times[kRuns / 2]);
    if (!gpu_) return {};
    RunStatistics statistics;
    CONVOY_CHECK(session.run(inputs, &statistics));
    keep_steps(statistics);
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
    if (!gpu_ || runs_.empty() || steps_.empty()) return;
    std::ranges::sort(runs_);
    timed.undisturbed_seconds = selection::quantile(runs_, 0.1);
    take_marks_off(timed);
  }

 private:
  void keep_steps(const RunStatistics& statistics) {
    if (statistics.step_seconds.empty()) return;
    steps_.resize(statistics.step_seconds.size());
    for (std::size_t s = 0; s < steps_.size(); ++s) steps_[s].push_back(statistics.step_seconds[s]);
  }

  // What timing the steps adds to a run is as much for each step there, but no more than the step has. Copies from and
  // to the processor are not of the run.
  static void take_marks_off(Timed& timed) {
    double over = -timed.seconds.median;
    std::vector<double*> left;
    for (std::size_t s = 0; s < timed.steps.size(); ++s) {
      if (timed.steps[s].kind == "convert" && timed.steps[s].step_problem.empty()) continue;
      over += timed.step_seconds[s];
      if (timed.steps[s].device != "cpu") left.push_back(&timed.step_seconds[s]);
    }
    std::ranges::sort(left, {}, [](const double* step) { return *step; });
    for (std::size_t i = 0; i < left.size() && over > 0; ++i) {
      const double off = std::min(*left[i], over / static_cast<double>(left.size() - i));
      *left[i] -= off;
      over -= off;
    }
  }

  const std::optional<CudaDevice> gpu_;
  std::vector<double> medians_;             // of a round
  std::vector<double> runs_;                // of all rounds
  std::vector<std::vector<double>> steps_;  // of each step what it took, run by run
};

}  // namespace

// The order of the runs goes backwards every second time, so the machine's drift is in none of them, and so does that
// of preparing.
Result<std::vector<Timed>> time_side_by_side(const Network& network, std::span<const TensorDesc> descs,
                                             std::span<const Variant> variants, std::span<const HostTensor> inputs,
                                             int rounds, const std::function<bool()>& go_on, double patience) {
  const std::size_t count = variants.size();
  const bool on_gpu = variants.front().options.cuda.has_value();
  const int preparations = std::min(rounds, on_gpu ? kMostPreparationsOnGpu : kMostPreparations);
  const auto team = make_cpu_team(variants.front().options.threads);
  selection::FullSpeed full_speed(*team, patience);
  std::vector<Timed> result(count);
  std::vector<VariantRuns> runs_of;
  for (const Variant& variant : variants) runs_of.emplace_back(variant.options.cuda);
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
        if (!on_gpu) full_speed(true);
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
