// SM carveout: a convolution asked for half of the SMs, and one that takes all, each alone and beside a kernel that
// holds the other half. Prints one JSON object of median seconds; exit code 4 without a GPU.
//
//   gpu_carveout                       a bf16 3x3; the fastest of cuDNN's engines, as measured here
//   gpu_carveout PROBLEM ALL PART      the candidates that somebody else chose, "cudnn.eng4{k2=1}", for all SMs and for
//                                      half of them; "-": none
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "convoy/selection.h"
#include "device/cuda/device.h"
#include "device/cuda/measuring_lock.h"
#include "device/cuda/memory.h"
#include "device/cuda/module.h"
#include "device/cuda/stream.h"
#include "engines/table.h"

namespace convoy {
namespace {

constexpr const char* kProblem = "fprop:x=bf16,64x256x28x28,nhwc:w=bf16,256x256x3x3,nhwc:pad=1x1";
constexpr int kRounds = 21;
constexpr int kSpinShared = 180 * 1024;  // so that nothing else of substance fits beside it

// Multiplies and adds for a while: no memory traffic that a convolution would feel.
constexpr std::string_view kSpin = R"(
.version 7.0
.target sm_80
.address_size 64
.visible .entry spin(.param .u64 out, .param .u32 loops) {
  .reg .u32 %r<3>; .reg .f32 %f; .reg .pred %p; .reg .u64 %a;
  ld.param.u64 %a, [out];
  ld.param.u32 %r1, [loops];
  mov.u32 %r2, 0;
  mov.f32 %f, 0f3F000000;
again:
  fma.rn.f32 %f, %f, %f, %f;
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p, %r2, %r1;
  @%p bra again;
  st.global.f32 [%a], %f;
  ret;
})";

struct Times {
  double convolution = 0, spin = 0;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class Bench {
 public:
  // `all` and `part`: candidates; empty: measured here, "-": none.
  Result<void> run(const std::string& problem, const std::string& all, const std::string& part) {
    CONVOY_TRY(device_, cuda::describe(0));
    CONVOY_CHECK(cuda::make_current(0));
    CONVOY_TRY(problem_, parse_problem(problem));
    CONVOY_CHECK(validate(problem_));
    for (const TensorDesc* desc : {&problem_.x, &problem_.w, &problem_.y}) {
      CONVOY_TRY(cuda::DeviceMemory memory,
                 cuda::DeviceMemory::allocate(0, static_cast<std::size_t>(desc->bytes()), "a tensor"));
      CONVOY_CHECK(cuda::fill_bytes(memory.data(), 0x3c, memory.bytes(), nullptr));
      tensors_.push_back(std::move(memory));
    }
    const std::string image = std::string(kSpin) + '\0';
    CONVOY_TRY(const cuda::Module module, cuda::Module::load(0, image, "spin"));
    CONVOY_TRY(spin_, module.kernel("spin", kSpinShared));
    CONVOY_CHECK(cuda::synchronize(nullptr, "the tensors"));
    const int half = device_.sm_count / 2;
    std::string cases;
    for (const auto& [sms, candidate] : {std::pair(0, all), std::pair(half, part)}) {
      if (candidate == "-") continue;
      CONVOY_TRY(const std::string text, measure(sms, half, candidate));
      cases += (cases.empty() ? "" : ", ") + text;
    }
    fmt::print(
        "{{\"device\": \"{}\", \"sm_count\": {}, \"beside_blocks\": {}, \"problem\": \"{}\", \"cases\": [{}]}}\n",
        device_.name, device_.sm_count, half, print(problem_), cases);
    return {};
  }

 private:
  Result<std::unique_ptr<ConvPlan>> planned(const std::string& candidate, const PlanRequest& request) const {
    const auto& engines = engines_on(DeviceKind::cuda);
    if (!candidate.empty()) {
      CONVOY_TRY(const Candidate given, parse_candidate(candidate));
      return make_plan(problem_, given, engines, request);
    }
    SelectionOptions options;
    options.filter.engines = "cudnn.eng*";
    options.mode = SelectionMode::measured;
    options.budget_seconds = 15;
    CONVOY_TRY(const Selection chosen, select(problem_, engines, options, request));
    return make_plan(problem_, chosen.candidate, engines, request);
  }

  Result<std::string> measure(int sms, int blocks, const std::string& candidate) {
    PlanRequest request{1, cpu_features()};
    request.cuda = device_;
    request.target_sms = sms;
    CONVOY_TRY(const auto plan, planned(candidate, request));
    CONVOY_TRY(workspace_, cuda::DeviceMemory::allocate(0, plan->workspace_bytes(), "the workspace"));
    const cuda::MeasuringLock lock(0);
    CONVOY_TRY(const Times alone, times(plan.get(), 0));
    CONVOY_TRY(const Times beside, times(plan.get(), blocks));
    CONVOY_TRY(const Times spin, times(nullptr, blocks));
    return fmt::format(
        "{{\"target_sms\": {}, \"candidate\": \"{}\", \"alone\": {}, \"beside\": {}, "
        "\"kernel_alone\": {}, \"kernel_beside\": {}}}",
        sms, print(plan->candidate()), alone.convolution, beside.convolution, spin.spin, beside.spin);
  }

  // The other kernel starts first; the convolution waits for it to have been enqueued, not to end.
  Result<Times> times(const ConvPlan* plan, int blocks) {
    CONVOY_TRY(const cuda::Stream one, cuda::Stream::create(0));
    CONVOY_TRY(const cuda::Stream other, cuda::Stream::create(0));
    std::vector<cuda::Event> events;
    for (int i = 0; i < 4; ++i) {
      CONVOY_TRY(cuda::Event event, cuda::Event::create(0));
      events.push_back(std::move(event));
    }
    CudaQueue queue(one.get());
    void* out = tensors_[problem_.pass == Pass::fprop ? 2 : problem_.pass == Pass::dgrad ? 0 : 1].data();
    const ConvArgs args{.x = tensors_[0].data(), .w = tensors_[1].data(), .y = tensors_[2].data(), .out = out};
    std::vector<double> convolution, spin;
    for (int round = 0; round < kRounds; ++round) {
      unsigned loops = 200000;
      void* arguments[] = {&out, &loops};
      CONVOY_CHECK(events[0].record(other.get()));
      if (blocks > 0) {
        CONVOY_CHECK(
            cuda::launch(spin_, {{static_cast<unsigned>(blocks)}, {128}, kSpinShared, {}}, arguments, other.get()));
      }
      CONVOY_CHECK(events[1].record(other.get()));
      CONVOY_CHECK(events[0].wait_in(one.get()));
      CONVOY_CHECK(events[2].record(one.get()));
      if (plan != nullptr) {
        CONVOY_CHECK(plan->execute(args, {queue, workspace_.data(), workspace_.bytes()}));
      }
      CONVOY_CHECK(events[3].record(one.get()));
      CONVOY_CHECK(one.synchronize());
      CONVOY_CHECK(other.synchronize());
      CONVOY_TRY(const double a, cuda::Event::seconds(events[2], events[3]));
      CONVOY_TRY(const double b, cuda::Event::seconds(events[0], events[1]));
      convolution.push_back(a);
      spin.push_back(b);
    }
    return Times{median(convolution), median(spin)};
  }

  CudaDevice device_;
  ConvProblem problem_;
  std::vector<cuda::DeviceMemory> tensors_;
  cuda::DeviceMemory workspace_;
  cuda::Kernel spin_;
};

}  // namespace
}  // namespace convoy

int main(int argc, char** argv) {
  const bool given = argc == 4;
  if (argc != 1 && !given) {
    std::fprintf(stderr, "usage: gpu_carveout [PROBLEM ALL PART]\n");
    return 2;
  }
  const auto done = convoy::Bench().run(given ? argv[1] : convoy::kProblem, given ? argv[2] : "", given ? argv[3] : "");
  if (done.ok()) return 0;
  std::fprintf(stderr, "%s\n", done.error().message.c_str());
  return done.error().code == convoy::ErrorCode::unsupported ? 4 : 1;
}
