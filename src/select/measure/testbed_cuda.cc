// Candidates on a GPU. Everything is enqueued on one stream of the testbed's own, so its calls are in order; a sample's
// executions are enqueued together with what comes between them, so that the device, not the host, sets their pace.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "base/clock.h"
#include "base/spent.h"
#include "device/cuda/device.h"
#include "device/cuda/measuring_lock.h"
#include "device/cuda/observe.h"
#include "device/cuda/stream.h"
#include "engines/cuda/reference/verification.h"
#include "select/measure/device_data.h"
#include "select/measure/host_time.h"
#include "select/measure/testbed.h"

namespace convoy::selection {
namespace {

constexpr int kBatch = 5;                       // executions of a sample, whose median it is..
constexpr double kLongExecutionSeconds = 1e-3;  // ..but for those above, which are one
constexpr int kObservedEvery = 8;               // samples between two looks at the clock

// Of executions in a row (CacheState::rotating).
constexpr double kRowSeconds = 5e-4;  // roughly how long one is, within the limit that follows
constexpr double kMostInRow = 16;
constexpr int kMostAhead = 8;  // executions in front of the timed ones

// What the host needs to be ahead.
constexpr double kEnqueueSeconds = 10e-6;  // to enqueue an execution
constexpr double kFastestFill = 4e12;      // bytes a second that a device sweeps at most
constexpr double kMostSweeps = 64;
constexpr int kMostPatience = 16;
constexpr double kWorthWaiting = 0.9;  // of the time before, with a longer head start
constexpr int kMostOracleThreads = 16;
// Of what an oracle on the CPU may compute. The host looks at each output that the oracle computed, for every
// candidate: with a quarter of a million of them that took longer than timing a candidate.
constexpr std::int64_t kDeviceTerms = 20;
constexpr std::int64_t kTermsAnOutput = 4000;

struct EventPair {
  cuda::Event begin, end;
};

class CudaTestbed final : public Testbed {
 public:
  static Result<std::unique_ptr<Testbed>> make(const ConvProblem& problem, const PlanRequest& request,
                                               CacheState caches, std::int64_t oracle_terms, std::uint64_t seed) {
    const Device& device = device_of(request);
    CONVOY_CHECK(cuda::make_current(request.cuda->ordinal));
    CONVOY_TRY(std::unique_ptr<Queue> queue, device.make_queue(1));
    auto bed = std::make_unique<CudaTestbed>(problem, request, caches, oracle_terms, device, std::move(queue));
    if (const auto prepared = bed->prepare(seed); !prepared.ok()) return prepared.error().within(print(problem));
    return std::unique_ptr<Testbed>(std::move(bed));
  }

  CudaTestbed(const ConvProblem& problem, const PlanRequest& request, CacheState caches, std::int64_t oracle_terms,
              const Device& device, std::unique_ptr<Queue> queue)
      : Testbed(problem, device, std::move(queue), oracle_terms,
                std::clamp(request.cpu.logical_cpus, 1, kMostOracleThreads)),
        gpu_(*request.cuda),
        caches_(caches),
        oracle_terms_(oracle_terms) {}

  Result<void> poison(std::size_t workspace_bytes) override {
    const cuda::MeasuringLock lock(gpu_.ordinal);
    return Testbed::poison(workspace_bytes);
  }

  Result<double> run(const ConvPlan& plan) override {
    const cuda::MeasuringLock lock(gpu_.ordinal);
    CONVOY_CHECK(workspace_.reserve(plan.workspace_bytes()));
    CONVOY_CHECK(enqueue(plan, events_.front()));
    CONVOY_CHECK(queue_->finish());
    return cuda::Event::seconds(events_.front().begin, events_.front().end);
  }

  Result<double> timed_run(const ConvPlan& plan) override {
    const cuda::MeasuringLock lock(gpu_.ordinal);
    return sample(plan, kLongExecutionSeconds);  // one execution
  }

  // By the oracle on the device, or where nothing compiles it the host's.
  Result<Verification> compare(Arithmetic arithmetic) override {
    const cuda::MeasuringLock lock(gpu_.ordinal);
    CONVOY_TRY(const cuda::DeviceExpectation* expected, expectation());
    if (expected == nullptr) return Testbed::compare(arithmetic);
    return expected->compare(out_.data(), arithmetic, false, stream());
  }

  Result<void> keep_output() override {
    const cuda::MeasuringLock lock(gpu_.ordinal);
    return Testbed::keep_output();
  }

  // On the device; the host, which a large output takes a while to reach, only says where and what is wrong.
  Result<OutputDifference> compare_with_kept(Arithmetic arithmetic) override {
    const cuda::MeasuringLock lock(gpu_.ordinal);
    CONVOY_TRY(const cuda::DeviceExpectation* expected, expectation());
    if (expected != nullptr) {
      const Spent spent("verifying: whole outputs");
      CONVOY_TRY(const auto whole, cuda::whole_difference(problem_, kept_.data(), out_.data(), gpu_, stream()));
      const auto by_channel = expected->tolerances(arithmetic);
      const double least = *std::min_element(by_channel.begin(), by_channel.end());
      const double error = whole.difference == 0 ? 0 : whole.difference / (2 * least);
      if (error <= 1) return OutputDifference{.max_error = error};
    }
    return Testbed::compare_with_kept(arithmetic);
  }

  std::vector<Timing> time(std::span<Runner* const> runners, const TimingOptions& options,
                           FunctionRef<bool()> keep_going) override {
    const cuda::MeasuringLock lock(gpu_.ordinal);
    bool lost = false;
    std::vector<Contestant> contestants;
    std::vector<std::vector<double>> clocks(runners.size());
    int samples = 0;
    for (std::size_t i = 0; i < runners.size(); ++i) {
      contestants.push_back({.sample = [&, i] {
        const Runner& runner = *runners[i];
        auto seconds = sample(*runner.plan, runner.measurement.median_seconds,
                              samples++ % kObservedEvery == 0 ? &clocks[i] : nullptr);
        lost = !seconds.ok() && seconds.error().code == ErrorCode::device_failed;
        return seconds;
      }});
    }
    auto timings = time_interleaved(
        contestants, options, [] { return monotonic_seconds(); }, [&] { return !lost && keep_going(); });
    for (std::size_t i = 0; i < runners.size(); ++i) {
      if (!clocks[i].empty()) runners[i]->measurement.clock_mhz = summarize(clocks[i]).median;
    }
    return timings;
  }

  Result<std::int64_t> run_for(const ConvPlan& plan, double seconds) override {
    const cuda::MeasuringLock lock(gpu_.ordinal);
    CONVOY_CHECK(workspace_.reserve(plan.workspace_bytes()));
    std::int64_t runs = 0;
    const double start = monotonic_seconds();
    do {  // the next ones are enqueued while these run
      for (int i = 0; i < kBatch; ++i, ++runs) CONVOY_CHECK(execute(plan));
      CONVOY_CHECK(events_.back().end.record(stream()));
      for (int i = 0; i < kBatch; ++i, ++runs) CONVOY_CHECK(execute(plan));
      CONVOY_CHECK(events_.back().end.synchronize());
    } while (monotonic_seconds() - start < seconds);
    CONVOY_CHECK(queue_->finish());
    return runs;
  }

 private:
  CUstream stream() const { return static_cast<CUstream>(static_cast<const CudaQueue&>(*queue_).stream()); }

  Result<void> prepare(std::uint64_t seed) {
    const cuda::MeasuringLock lock(gpu_.ordinal);
    seed_ = seed;
    CONVOY_TRY(data_, DeviceData::make(problem_, seed, device_, *queue_));
    CONVOY_CHECK(allocate_output());
    for (int i = 0; i < kBatch; ++i) {
      CONVOY_TRY(cuda::Event begin, cuda::Event::create(gpu_.ordinal));
      CONVOY_TRY(cuda::Event end, cuda::Event::create(gpu_.ordinal));
      events_.push_back({std::move(begin), std::move(end)});
    }
    // Also what gives the host its head start, so there is one where caches stay warm.
    CONVOY_TRY(sweep_, device_.allocate(static_cast<std::size_t>(2 * gpu_.l2_bytes), "the L2 sweep"));
    if (caches_ == CacheState::cold) {
      for (const Buffer* activation : activations()) {
        CONVOY_TRY(Produced produced, Produced::make(*activation, gpu_.l2_bytes, device_, *queue_));
        produced_.push_back(std::move(produced));
      }
    }
    if (caches_ == CacheState::rotating) {
      CONVOY_TRY(rotation_, Rotation::make(problem_, args(out_.data()), gpu_.l2_bytes, device_, *queue_));
    }
    return queue_->finish();
  }

  ConvArgs args(void* out) const override { return data_.args(out); }
  const void* prior() const override { return data_.prior(problem_.pass).data(); }
  Result<ProblemData> host_data() override {
    const auto download = [&](const TensorDesc& desc, const Buffer& from) -> Result<HostTensor> {
      CONVOY_TRY(HostTensor host, HostTensor::allocate(desc));
      CONVOY_CHECK(queue_->copy_out(host.data.get(), from.data(), from.bytes()));
      return host;
    };
    CONVOY_TRY(ProblemData host, ProblemData::make_small(problem_, seed_));
    CONVOY_TRY(host.x, download(problem_.x, data_.x));
    CONVOY_TRY(host.w, download(problem_.w, data_.w));
    CONVOY_TRY(host.y, download(problem_.y, data_.y));
    if (problem_.epilogue.takes_z()) {
      CONVOY_TRY(host.z, download(problem_.out(), data_.z));
    }
    CONVOY_CHECK(queue_->finish());
    return host;
  }

  // What the pass reads and another operator has written, the last one last. Weights have not been touched since the
  // batch before; where they are computed, nothing of them is read.
  std::vector<const Buffer*> activations() const {
    std::vector<const Buffer*> activations;
    if (problem_.pass != Pass::dgrad) activations.push_back(&data_.x);
    if (problem_.pass != Pass::fprop) activations.push_back(&data_.y);
    if (data_.z.bytes() > 0) activations.push_back(&data_.z);
    return activations;
  }

  // The seconds of the call that executes.
  Result<double> enqueue(const ConvPlan& plan, const EventPair& events) {
    CONVOY_CHECK(events.begin.record(stream()));
    const double start = monotonic_seconds();
    CONVOY_CHECK(execute(plan));
    const double host = monotonic_seconds() - start;
    CONVOY_CHECK(events.end.record(stream()));
    return host;
  }

  // So many that the device is busy until the host has enqueued so many executions.
  Result<void> sweep(int executions, int patience) const {
    const double sweep_seconds = static_cast<double>(sweep_.bytes()) / kFastestFill;
    const int sweeps = 1 + static_cast<int>(std::min(executions * kEnqueueSeconds / sweep_seconds, kMostSweeps));
    for (int i = 0; i < patience * sweeps; ++i) {
      CONVOY_CHECK(queue_->fill(sweep_.data(), 0, sweep_.bytes()));
    }
    return {};
  }

  // One sample, in seconds of an execution, which takes roughly `rough`; the clock is looked at meanwhile. Where the
  // host came late, so that the device waited for it, the sample is taken again with a longer head start; but not
  // where a long execution gains nothing by it, as one of hundreds of kernels, which waits for its host in any case.
  Result<double> sample(const ConvPlan& plan, double rough, std::vector<double>* clocks = nullptr) {
    CONVOY_CHECK(workspace_.reserve(plan.workspace_bytes()));
    double least = std::numeric_limits<double>::infinity();
    for (int patience = 1;; patience *= 2) {
      bool late = false;
      CONVOY_TRY(const double seconds, caches_ == CacheState::rotating ? row(plan, rough, patience, clocks, late)
                                                                       : each(plan, rough, patience, clocks, late));
      if (!late) return seconds;
      const bool in_vain = seconds > kLongExecutionSeconds && seconds > kWorthWaiting * least;
      least = std::min(least, seconds);
      if (in_vain || patience == kMostPatience) return least;
    }
  }

  // The median of single executions.
  Result<double> each(const ConvPlan& plan, double rough, int patience, std::vector<double>* clocks, bool& late) {
    const int executions = rough < kLongExecutionSeconds ? kBatch : 1;
    const bool warm = caches_ == CacheState::warm;
    double host = std::numeric_limits<double>::infinity();
    if (warm) {
      CONVOY_CHECK(sweep(executions, patience));
      CONVOY_CHECK(execute(plan));
    }
    for (int i = 0; i < executions; ++i) {
      const EventPair& events = events_[static_cast<std::size_t>(i)];
      if (!warm) {
        CONVOY_CHECK(sweep(1, patience));
        for (const Produced& produced : produced_) CONVOY_CHECK(produced.produce(*queue_));
      }
      CONVOY_TRY(const double call, enqueue(plan, events));
      host = std::min(host, call);
      if (warm && i + 1 < executions) continue;  // what runs before the last one is the others
      CONVOY_TRY(const bool begun, events.begin.reached());
      late = late || begun;
    }
    observe(clocks);
    CONVOY_CHECK(queue_->finish());
    std::array<double, kBatch> seconds{};
    for (int i = 0; i < executions; ++i) {
      const EventPair& events = events_[static_cast<std::size_t>(i)];
      CONVOY_TRY(seconds[static_cast<std::size_t>(i)], cuda::Event::seconds(events.begin, events.end));
    }
    std::sort(seconds.begin(), seconds.begin() + executions);
    return as_a_program_pays(seconds[static_cast<std::size_t>(executions / 2)], host);
  }

  // The mean of executions in a row, each on the next set of tensors. In front of them are as many as fill the cache,
  // so that what the sweeps left there is gone.
  Result<double> row(const ConvPlan& plan, double rough, int patience, std::vector<double>* clocks, bool& late) {
    const int executions = static_cast<int>(std::clamp(kRowSeconds / std::max(rough, 1e-9), 1.0, kMostInRow));
    const auto filling = 2 * gpu_.l2_bytes / rotation_->bytes_of_one() + 1;
    const int ahead = executions == 1 ? 0 : static_cast<int>(std::min<std::int64_t>({filling, executions, kMostAhead}));
    const EventPair& events = events_.front();
    CONVOY_CHECK(sweep(ahead + executions, patience));
    for (int i = 0; i < ahead; ++i) CONVOY_CHECK(execute(plan, rotation_->next()));
    CONVOY_CHECK(events.begin.record(stream()));
    const double start = monotonic_seconds();
    for (int i = 0; i < executions; ++i) CONVOY_CHECK(execute(plan, rotation_->next()));
    const double host = monotonic_seconds() - start;
    CONVOY_CHECK(events.end.record(stream()));
    CONVOY_TRY(late, events.begin.reached());
    observe(clocks);
    CONVOY_CHECK(queue_->finish());
    CONVOY_TRY(const double seconds, cuda::Event::seconds(events.begin, events.end));
    return as_a_program_pays(seconds / executions, host / executions);
  }

  void observe(std::vector<double>* clocks) const {
    if (clocks == nullptr) return;
    const auto state = cuda::observe(gpu_.ordinal);
    if (state.ok() && state->sm_mhz) clocks->push_back(*state->sm_mhz);
  }

  // The oracle on the device, made when it is first needed; null where nothing compiles it.
  Result<const cuda::DeviceExpectation*> expectation() {
    if (expectation_ || no_expectation_) return expectation_ ? &*expectation_ : nullptr;
    const Spent spent("verifying: the oracle");
    VerifyOptions options = cuda::device_verify_options();
    options.full_terms = std::min(options.full_terms, kDeviceTerms * oracle_terms_);
    options.full_outputs = std::min(options.full_outputs, oracle_terms_ / kTermsAnOutput);
    auto made =
        cuda::DeviceExpectation::make(problem_, args(data_.prior(problem_.pass).data()), options, gpu_, stream());
    if (made.ok()) {
      expectation_ = std::move(*made);
      return &*expectation_;
    }
    const ErrorCode code = made.error().code;
    if (code != ErrorCode::unsupported && code != ErrorCode::not_found) return made.error();
    no_expectation_ = true;
    return static_cast<const cuda::DeviceExpectation*>(nullptr);
  }

  CudaDevice gpu_;
  CacheState caches_;
  std::int64_t oracle_terms_;
  std::uint64_t seed_ = 1;
  std::vector<EventPair> events_;
  DeviceData data_;
  Buffer sweep_;
  std::vector<Produced> produced_;
  std::optional<Rotation> rotation_;
  std::optional<cuda::DeviceExpectation> expectation_;
  bool no_expectation_ = false;
};

}  // namespace

Result<std::unique_ptr<Testbed>> make_cuda_testbed(const ConvProblem& problem, const PlanRequest& request,
                                                   CacheState caches, std::int64_t oracle_terms, std::uint64_t seed) {
  return CudaTestbed::make(problem, request, caches, oracle_terms, seed);
}

}  // namespace convoy::selection
