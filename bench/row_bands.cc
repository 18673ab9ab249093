// Blocks of MobileNetV2 layer by layer, and by bands of rows whose intermediate tensors stay in a cache: what fusing a
// depthwise convolution with the 1x1 behind it, or with the one before it, too, could gain at most.
//
//     g++ -std=c++20 -O2 -Iinclude bench/row_bands.cc -Lbuild/lib -lconvoy -Wl,-rpath,build/lib -o build/row_bands &&
//     taskset -c 0 build/row_bands [f32|bf16]
//
// One thread, nhwc, each layer and each part of one on the fastest of its eight best predicted candidates. A band is
// made of plans for parts of the layers: the depthwise one's have padding above, none, or below; of the 1x1's output
// the rows that the next band reads again are kept. Least times of 15 samples, in microseconds.
#include <convoy/all.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

using namespace convoy;

namespace {

const auto team = make_cpu_team(1);

std::shared_ptr<char> memory(std::size_t bytes) {
  const std::size_t size = bytes / 4096 * 4096 + 8192;
  auto* const made = static_cast<char*>(std::aligned_alloc(4096, size));
  std::memset(made, 0, size);
  return {made, std::free};
}

template <class Run>
double microseconds(Run run) {
  using Clock = std::chrono::steady_clock;
  constexpr int kRuns = 4;
  double least = 1e9;
  for (int sample = -1; sample < 15; ++sample) {  // the first one only warms up
    const auto start = Clock::now();
    for (int i = 0; i < kRuns; ++i) run();
    const std::chrono::duration<double, std::micro> took = Clock::now() - start;
    if (sample >= 0) least = std::min(least, took.count() / kRuns);
  }
  return least;
}

struct Step {
  std::unique_ptr<ConvPlan> plan;
  std::shared_ptr<char> workspace;
  double alone = 1e9;

  void run(const char* x, char* y, const char* z = nullptr) const {
    static const auto constants = memory(1 << 20);
    const ConvArgs args{.x = x, .out = y, .bias = reinterpret_cast<const float*>(constants.get()), .z = z};
    if (!plan->execute(args, {*team, workspace.get(), plan->workspace_bytes()}).ok()) std::abort();
  }
};

Step fastest(const std::string& text) {
  static const auto w = memory(4 << 20), x = memory(16 << 20), y = memory(16 << 20);
  const auto problem = parse_problem(text);
  if (!problem.ok()) std::abort();
  const PlanRequest request{.threads = 1, .constant_weights = w.get()};
  Step best;
  int tried = 0;
  for (const Candidate& candidate : rank_by_heuristic(*problem, all_engines(), {}, request)) {
    if (++tried > 8) break;
    auto plan = make_plan(*problem, candidate, all_engines(), request);
    if (!plan.ok()) continue;
    Step step;
    step.workspace = memory((*plan)->workspace_bytes());
    step.plan = std::move(*plan);
    step.alone = microseconds([&] { step.run(x.get(), y.get(), y.get()); });
    if (step.alone < best.alone) best = std::move(step);
  }
  return best;
}

struct Block {
  int in, size, middle, stride, out;  // in 0: without the 1x1 before
};

std::string pointwise(const std::string& type, int in, int rows, int width, int out, bool adds, bool clips) {
  const auto tensor = [&](int channels) {
    return type + ",1x" + std::to_string(channels) + "x" + std::to_string(rows) + "x" + std::to_string(width) + ",nhwc";
  };
  return "fprop:x=" + tensor(in) + ":w=" + type + "," + std::to_string(out) + "x" + std::to_string(in) +
         "x1x1,nchw:y=" + tensor(out) + ":bias=1" + (adds ? ":gamma=1" : "") + (clips ? ":act=clip,0,6" : "");
}

std::string depthwise(const std::string& type, const Block& b, int rows_in, int rows_out, bool top, bool bottom) {
  const auto tensor = [&](int rows, int width) {
    return type + ",1x" + std::to_string(b.middle) + "x" + std::to_string(rows) + "x" + std::to_string(width) + ",nhwc";
  };
  const std::string right = b.stride == 1 ? "1" : "0", stride = std::to_string(b.stride);
  return "fprop:x=" + tensor(rows_in, b.size) + ":w=" + type + "," + std::to_string(b.middle) +
         "x1x3x3,nchw:y=" + tensor(rows_out, b.size / b.stride) + ":pad=" + (top ? "1" : "0") + "x1/" +
         (bottom ? "1" : "0") + "x" + right + ":stride=" + stride + "x" + stride +
         ":groups=" + std::to_string(b.middle) + ":bias=1:act=clip,0,6";
}

void compare(const std::string& type, const Block& b) {
  static const auto x = memory(16 << 20), before = memory(16 << 20), middle = memory(16 << 20), y = memory(16 << 20);
  static const auto kept = memory(4 << 20), band = memory(4 << 20);
  const std::size_t element = type == "f32" ? 4 : 2;
  const int size = b.size / b.stride;
  const bool adds = b.in == b.out && b.stride == 1, padded = b.stride == 1;  // below and on the right
  const auto row = [&](int width, int channels) { return static_cast<std::size_t>(width * channels) * element; };
  const std::size_t x_row = row(b.size, b.in), before_row = row(b.size, b.middle), y_row = row(size, b.out);

  Step expand;
  if (b.in > 0) expand = fastest(pointwise(type, b.in, b.size, b.size, b.middle, false, true));
  const Step spatial = fastest(depthwise(type, b, b.size, size, true, padded));
  const Step project = fastest(pointwise(type, b.middle, size, size, b.out, adds, false));
  const auto two = [&] {
    spatial.run(before.get(), middle.get());
    project.run(middle.get(), y.get(), x.get());
  };
  const double two_layers = microseconds(two), three_layers = microseconds([&] {
                                                 if (b.in > 0) expand.run(x.get(), before.get());
                                                 two();
                                               });
  std::printf("%d -> %d -> %d, %dx%d, stride %d: two layers %.1f, three %.1f\n", b.in, b.middle, b.out, b.size, b.size,
              b.stride, two_layers, three_layers);
  for (const int rows : {2, 4, 7, 8, 14, 16, 28}) {
    if (size % rows != 0 || size == rows) continue;
    const int bands = size / rows, reads = (rows - 1) * b.stride + 3, again = 3 - b.stride;
    const Step top = fastest(depthwise(type, b, reads - 1, rows, true, false));
    const Step inner = fastest(depthwise(type, b, reads, rows, false, false));
    Step bottom;
    if (padded) bottom = fastest(depthwise(type, b, reads - 1, rows, false, true));
    const Step part = fastest(pointwise(type, b.middle, rows, size, b.out, adds, false));
    const auto spatial_of = [&](int i) -> const Step& {
      return i == 0 ? top : padded && i == bands - 1 ? bottom : inner;
    };
    const double two_by_bands = microseconds([&] {
      for (int i = 0; i < bands; ++i) {
        const int first = std::max(0, i * rows * b.stride - 1);
        spatial_of(i).run(before.get() + static_cast<std::size_t>(first) * before_row, band.get());
        part.run(band.get(), y.get() + static_cast<std::size_t>(i * rows) * y_row,
                 x.get() + static_cast<std::size_t>(i * rows) * y_row);
      }
    });
    std::printf("  bands of %2d rows: two %.2f of layer by layer", rows, two_by_bands / two_layers);
    if (b.in > 0) {
      const int made = rows * b.stride;
      const Step expand_part = fastest(pointwise(type, b.in, made, b.size, b.middle, false, true));
      const double three_by_bands = microseconds([&] {
        for (int i = 0; i < bands; ++i) {
          const std::size_t old = static_cast<std::size_t>(again) * before_row;
          expand_part.run(x.get() + static_cast<std::size_t>(i * made) * x_row, kept.get() + old);
          spatial_of(i).run(kept.get(), band.get());
          part.run(band.get(), y.get() + static_cast<std::size_t>(i * rows) * y_row,
                   x.get() + static_cast<std::size_t>(i * rows) * y_row);
          std::memcpy(kept.get(), kept.get() + static_cast<std::size_t>(made) * before_row, old);
        }
      });
      std::printf(", three %.2f", three_by_bands / three_layers);
    }
    std::printf("\n");
  }
}

}  // namespace

int main(int count, char** arguments) {
  const std::string type = count > 1 ? arguments[1] : "f32";
  for (const Block& block :
       {Block{0, 112, 32, 1, 16}, Block{16, 112, 96, 2, 24}, Block{24, 56, 144, 1, 24}, Block{24, 56, 144, 2, 32},
        Block{32, 28, 192, 1, 32}, Block{32, 28, 192, 2, 64}, Block{64, 14, 384, 1, 64}, Block{96, 14, 576, 1, 96}}) {
    compare(type, block);
  }
}
