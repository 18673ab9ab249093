#include "select/measure/timer.h"

#include <algorithm>
#include <cmath>

namespace convoy::selection {
namespace {

struct Lane {
  const Contestant* contestant = nullptr;
  int repeats = 1;
  bool done = false;
  std::vector<double> samples;
};

double sample(const Lane& lane, Clock clock) {
  if (lane.contestant->prepare) lane.contestant->prepare();
  const double start = clock();
  for (int i = 0; i < lane.repeats; ++i) lane.contestant->body();
  return (clock() - start) / lane.repeats;
}

}  // namespace

std::vector<Summary> time_interleaved(std::span<const Contestant> contestants, const TimingOptions& options,
                                      Clock clock) {
  const double start = clock();
  std::vector<Lane> lanes;
  for (const Contestant& contestant : contestants) {
    Lane lane;
    lane.contestant = &contestant;
    const double warm_up = sample(lane, clock);
    if (!contestant.prepare && warm_up < options.min_sample_seconds) {
      const double wanted = std::ceil(options.min_sample_seconds / std::max(warm_up, 1e-9));
      lane.repeats = static_cast<int>(std::min(wanted, 10000.0));
    }
    lanes.push_back(std::move(lane));
  }

  for (int round = 0; round < options.max_samples; ++round) {
    if (round > 0 && clock() - start >= options.budget_seconds) break;
    bool any = false;
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      Lane& lane = lanes[round % 2 == 0 ? i : lanes.size() - 1 - i];
      if (lane.done) continue;
      any = true;
      lane.samples.push_back(sample(lane, clock));
      lane.done = static_cast<int>(lane.samples.size()) >= options.min_samples &&
                  summarize(lane.samples).relative_uncertainty() <= options.target_uncertainty;
    }
    if (!any) break;
  }

  std::vector<Summary> summaries;
  for (const Lane& lane : lanes) summaries.push_back(summarize(lane.samples));
  return summaries;
}

}  // namespace convoy::selection
