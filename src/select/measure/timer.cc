#include "select/measure/timer.h"

#include <algorithm>
#include <cmath>

namespace convoy::selection {
namespace {

constexpr double kLongWarmUpSeconds = 0.1;
constexpr double kClearMargin = 1.05;
constexpr int kMostRetries = 3;      // of a sample
constexpr int kPatienceAtMost = 24;  // retries that came to nothing in a row, after which there are none

struct Lane {
  const Contestant* contestant = nullptr;
  int repeats = 1;
  double sample_seconds = 0;  // of its last sample, preparation included
  bool racing = true;
  bool settled = false;
  std::vector<double> samples;
  std::optional<Error> failure;
};

class Race {
 public:
  Race(std::span<const Contestant> contestants, const TimingOptions& options, Clock clock,
       FunctionRef<bool()> keep_going)
      : options_(options), clock_(clock), keep_going_(keep_going), start_(clock()) {
    for (const Contestant& contestant : contestants) {
      Lane lane;
      lane.contestant = &contestant;
      lanes_.push_back(std::move(lane));
    }
  }

  std::vector<Timing> run() {
    for (Lane& lane : lanes_) {
      if (!warm_up(lane)) return result();
    }
    for (int round = 0; round < options_.max_samples; ++round) {
      if (!run_round(round)) return result();
      if (leader() == nullptr) return result();  // all have failed
      drop_hopeless();
      if (round + 1 < options_.min_samples) continue;
      drop_losers();
      if (all_known()) break;
    }
    for (Lane& lane : lanes_) lane.settled = lane.settled || lane.racing;
    return result();
  }

 private:
  // Nothing where an execution failed, which ends the lane.
  std::optional<double> sample(Lane& lane) {
    const double start = clock_();
    const auto seconds = lane.contestant->sample ? lane.contestant->sample() : timed(lane);
    lane.sample_seconds = clock_() - start;
    if (seconds.ok()) return undisturbed(lane, *seconds);
    lane.failure = seconds.error();
    lane.samples.clear();
    // Who lost against it may win.
    for (Lane& each : lanes_) {
      each.racing = !each.failure;
      each.settled = false;
    }
    return std::nullopt;
  }

  // The first of some more samples that nobody slows down, else the least of them all.
  double undisturbed(const Lane& lane, double seconds) {
    for (int i = 0; disturbed_ && i < kMostRetries && patience_ > 0 && may_take(lane.sample_seconds); ++i) {
      --patience_;
      const auto again = timed(lane);
      if (!again.ok()) break;  // it will say so at its next sample
      seconds = disturbed_ ? std::min(seconds, *again) : *again;
    }
    if (!disturbed_) patience_ = kPatienceAtMost;
    return seconds;
  }

  Result<double> timed(const Lane& lane) {
    if (lane.contestant->prepare) lane.contestant->prepare();
    const bool before = !options_.at_full_speed || options_.at_full_speed(true);
    const double start = clock_();
    for (int i = 0; i < lane.repeats; ++i) CONVOY_CHECK(lane.contestant->body());
    const double seconds = (clock_() - start) / lane.repeats;
    disturbed_ = !before || (options_.at_full_speed && !options_.at_full_speed(false));
    return seconds;
  }

  bool may_take(double seconds) { return keep_going_() && clock_() - start_ + seconds <= options_.budget_seconds; }

  bool warm_up(Lane& lane) {
    double seconds = 0;
    for (int i = 0; i < options_.warm_ups && seconds < kLongWarmUpSeconds; ++i) {
      if (!may_take(seconds)) return false;
      const auto taken = sample(lane);
      if (!taken) return true;
      seconds = *taken;
    }
    if (!lane.contestant->prepare && !lane.contestant->sample && seconds < options_.min_sample_seconds) {
      const double wanted = std::ceil(options_.min_sample_seconds / std::max(seconds, 1e-9));
      lane.repeats = static_cast<int>(std::min(wanted, 10000.0));
    }
    return true;
  }

  // False: cut short. A first round keeps what it has, since it is all there is.
  bool run_round(int round) {
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      Lane& lane = lanes_[round % 2 == 0 ? i : lanes_.size() - 1 - i];
      if (!lane.racing) continue;
      if (!may_take(lane.sample_seconds)) {
        for (Lane& each : lanes_) {
          if (round > 0 && each.samples.size() > static_cast<std::size_t>(round)) each.samples.pop_back();
        }
        return false;
      }
      if (const auto seconds = sample(lane)) lane.samples.push_back(*seconds);
    }
    return true;
  }

  // Other rounds have to agree: disturbed samples, high or low, throw nobody out. The longer a time, the fewer it
  // takes.
  void drop_hopeless() {
    const double best = summarize(leader()->samples).median;
    for (Lane& lane : lanes_) {
      if (!lane.racing) continue;
      const double least = *std::min_element(lane.samples.begin(), lane.samples.end());
      const int samples = least > kLongestDisturbanceSeconds ? 2 : options_.min_samples;  // that count
      if (least > options_.hopeless * best && summarize(lane.samples).samples >= samples) lane.racing = false;
    }
  }

  void drop_losers() {
    const Lane* winner = leader();
    const Summary best = summarize(winner->samples);
    const double limit = best.median * (1 + best.relative_uncertainty()) * kClearMargin;
    for (Lane& lane : lanes_) {
      if (!lane.racing || &lane == winner) continue;
      const Summary own = summarize(lane.samples);
      if (own.median * (1 - own.relative_uncertainty()) <= limit) continue;
      lane.racing = false;
      lane.settled = true;
    }
  }

  bool all_known() const {
    return std::all_of(lanes_.begin(), lanes_.end(), [&](const Lane& lane) {
      return !lane.racing || summarize(lane.samples).relative_uncertainty() <= options_.target_uncertainty;
    });
  }

  // The fastest of those still in the race; null where nobody has a sample.
  const Lane* leader() const {
    const Lane* best = nullptr;
    for (const Lane& lane : lanes_) {
      if (!lane.racing || lane.samples.empty()) continue;
      if (best == nullptr || summarize(lane.samples).median < summarize(best->samples).median) best = &lane;
    }
    return best;
  }

  std::vector<Timing> result() const {
    const Lane* reference = leader();
    std::vector<Timing> timings;
    for (const Lane& lane : lanes_) {
      Timing timing{summarize(lane.samples), lane.settled, lane.failure};
      if (reference != nullptr && !lane.racing && !lane.failure) {
        const std::span<const double> all = reference->samples;
        const double drift = summarize(all).median / summarize(all.first(lane.samples.size())).median;
        timing.summary.median *= drift;
        timing.summary.first_quartile *= drift;
        timing.summary.third_quartile *= drift;
      }
      timings.push_back(timing);
    }
    return timings;
  }

  TimingOptions options_;
  Clock clock_;
  FunctionRef<bool()> keep_going_;
  double start_;
  std::vector<Lane> lanes_;
  bool disturbed_ = false;  // in the last sample
  int patience_ = kPatienceAtMost;
};

}  // namespace

std::vector<Timing> time_interleaved(std::span<const Contestant> contestants, const TimingOptions& options, Clock clock,
                                     FunctionRef<bool()> keep_going) {
  return Race(contestants, options, clock, keep_going).run();
}

std::vector<Timing> time_interleaved(std::span<const Contestant> contestants, const TimingOptions& options,
                                     Clock clock) {
  return time_interleaved(contestants, options, clock, [] { return true; });
}

}  // namespace convoy::selection
