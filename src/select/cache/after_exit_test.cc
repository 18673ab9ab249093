// Convolutions in main, in an atexit handler, and in the destructor of an object that is older than anything of
// Convoy's (so that whatever Convoy destroyed at exit would be gone by then). oneDNN's own objects are destroyed in
// between: its plans work in handlers registered after they were first used, and later return an error. Prints what
// CTest looks for.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "convoy/plan_cache.h"

namespace {

// Two threads and another shape each time, so that something new is selected, planned, cached and run.
bool convolves(int channels) {
  const auto problem = convoy::parse_problem("fprop:x=f32,1x" + std::to_string(channels) + "x8x8,nhwc:w=f32,16x" +
                                             std::to_string(channels) + "x1x1,nchw");
  if (!problem.ok()) return false;
  const std::vector<float> x(static_cast<std::size_t>(channels) * 64, 1.0f),
      w(static_cast<std::size_t>(channels) * 16, 0.5f);
  std::vector<float> y(16 * 64);
  convoy::PlanRequest request;
  request.threads = 2;
  request.cpu = convoy::cpu_features();
  const convoy::PlanSettings settings(convoy::all_engines(), {}, request);
  for (int run = 0; run < 2; ++run) {
    const convoy::ConvArgs args{.x = x.data(), .w = w.data(), .out = y.data()};
    if (!convoy::shared_plan_cache().run(*problem, settings, args).ok()) return false;
  }
  for (const float value : y) {
    if (value != 0.5f * static_cast<float>(channels)) return false;
  }
  return true;
}

// A plan of every implementation of oneDNN's that takes the problem.
class Provided {
 public:
  void make() {
    const auto problem = convoy::parse_problem(
        "fprop:x=f32,1x16x8x8,nhwc,align=4:w=f32,16x16x1x1,nchw,align=4:y=f32,1x16x8x8,nhwc,align=4");
    if (!problem.ok()) return;
    convoy::PlanRequest request{.threads = 2, .cpu = convoy::cpu_features()};
    for (const convoy::Engine* engine : convoy::all_engines()) {
      if (!engine->info().name.starts_with("onednn.") || refuse(*engine, *problem, request)) continue;
      auto plan = convoy::make_plan(*problem, {engine->info().name, {}}, convoy::all_engines(), request);
      if (plan.ok()) plans_.push_back(std::move(*plan));
    }
  }

  // Whether there are plans and all of them are right, or all of them return errors.
  const char* run() const {
    std::size_t right = 0, refused = 0;
    for (const auto& plan : plans_) {
      const std::vector<float> x(1024, 1.0f), w(256, 0.5f);
      std::vector<float> y(1024);
      const convoy::ConvArgs args{.x = x.data(), .w = w.data(), .out = y.data()};
      const auto done = convoy::ExecutionContext::of_this_thread().execute(*plan, 2, args);
      if (!done.ok()) {
        refused += done.error().code == convoy::ErrorCode::unsupported;
      } else {
        right += std::all_of(y.begin(), y.end(), [](float value) { return value == 8.0f; });
      }
    }
    return plans_.empty() ? "none" : right == plans_.size() ? "right" : refused == plans_.size() ? "refused" : "wrong";
  }

 private:
  std::vector<std::unique_ptr<convoy::ConvPlan>> plans_;
};
Provided& provided() {
  static Provided& provided = *new Provided;
  return provided;
}

void report(const char* when, int channels) {
  std::printf("%s: %s, oneDNN's plans %s\n", when, convolves(channels) ? "right" : "wrong", provided().run());
  std::fflush(stdout);
}

struct LastToGo {
  ~LastToGo() { report("static destructor", 24); }
} last_to_go;

}  // namespace

int main() {
  std::atexit([] { report("older atexit handler", 16); });
  provided().make();
  report("main", 8);
  std::atexit([] { report("newer atexit handler", 40); });
}
