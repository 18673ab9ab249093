// Convolutions in main, in an atexit handler, and in the destructor of an object that is older than anything of
// Convoy's (so that whatever Convoy destroyed at exit would be gone by then). Prints what CTest looks for.
#include <cstdio>
#include <cstdlib>
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

void report(const char* when, int channels) {
  std::printf("%s: %s\n", when, convolves(channels) ? "right" : "wrong");
  std::fflush(stdout);
}

struct LastToGo {
  ~LastToGo() { report("static destructor", 24); }
} last_to_go;

}  // namespace

int main() {
  std::atexit([] { report("atexit handler", 16); });
  report("main", 8);
}
