#include "select/tune/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "engines/reference/reference.h"
#include "select/choose/candidates.h"
#include "select/choose/notes.h"
#include "select/measure/compare.h"
#include "select/measure/problem_data.h"
#include "select/measure/testbed.h"

namespace convoy::selection {
namespace {

constexpr std::array<std::string_view, 7> kFaultNames = {
    "none", "refused", "no_plan", "execution", "wrong_result", "other_bits", "other_bits_by_threads"};

// Besides the setup's own: few, even and odd, so that work is split in other places.
constexpr std::array<int, 3> kThreadCounts = {1, 2, 3};

bool same_bits(const HostTensor& a, const HostTensor& b) {
  return std::memcmp(a.data.get(), b.data.get(), static_cast<std::size_t>(a.desc.bytes())) == 0;
}

Result<HostTensor> copied(const HostTensor& tensor) {
  CONVOY_TRY(HostTensor copy, HostTensor::allocate(tensor.desc));
  std::memcpy(copy.data.get(), tensor.data.get(), static_cast<std::size_t>(tensor.desc.bytes()));
  return copy;
}

// "element 17 of the storage is 0.25 and was 0.5, 3 of 1024 differ"
std::string difference(const HostTensor& first, const HostTensor& second) {
  const std::size_t size = size_of(first.desc.type);
  std::int64_t differing = 0, where = 0;
  for (std::int64_t i = first.desc.storage_elements() - 1; i >= 0; --i) {
    if (std::memcmp(first.data.get() + i * size, second.data.get() + i * size, size) == 0) continue;
    ++differing;
    where = i;
  }
  return fmt::format("element {} of the storage is {:.9g} and was {:.9g}, {} of {} differ", where,
                     load_as_double(second.desc.type, second.data.get(), where),
                     load_as_double(first.desc.type, first.data.get(), where), differing,
                     first.desc.storage_elements());
}

}  // namespace

std::string_view name_of(CheckFault fault) { return kFaultNames[static_cast<std::size_t>(fault)]; }

std::string_view name_of(BitTest result) {
  constexpr std::array<std::string_view, 4> kNames = {"not claimed", "not run", "same bits", "other bits"};
  return kNames[static_cast<std::size_t>(result)];
}

class CandidateChecker::State {
 public:
  State(CheckSetup setup, std::span<const Engine* const> engines) : setup_(std::move(setup)), engines_(engines) {}

  Result<void> prepare() {
    CONVOY_CHECK(validate(setup_.problem));
    PlanRequest request = made_for(setup_.request.threads);
    HostTensor weights;
    if (setup_.constant_weights && request.packs_weights(setup_.problem)) {
      CONVOY_TRY(weights, random_weights(setup_.problem, setup_.seed));
      request.constant_weights = weights.data.get();
    }
    const std::int64_t terms = (request.kind() == DeviceKind::cuda ? 10 : 1) * VerifyOptions{}.full_terms;
    CONVOY_TRY(testbed_, make_testbed(setup_.problem, request, CacheState::warm, terms, setup_.seed));
    return trust();
  }

  // The candidate that others are to be compared with has to be right itself.
  Result<void> trust() {
    if (!setup_.trusted) return {};
    const Candidate candidate = *std::exchange(setup_.trusted, std::nullopt);
    const CheckOutcome outcome = check(candidate);
    if (outcome.fault == CheckFault::none) return {};
    return Error{ErrorCode::wrong_result,
                 fmt::format("{}, which others are compared with: {}", print(candidate), outcome.failure)};
  }

  CheckOutcome check(const Candidate& candidate) {
    CheckOutcome outcome;
    outcome.candidate = candidate;
    const PlanRequest request = made_for(setup_.request.threads);
    const auto engine = std::find_if(engines_.begin(), engines_.end(),
                                     [&](const Engine* e) { return e->info().name == candidate.engine; });
    Claims claims;
    if (engine != engines_.end() && !refuse(**engine, setup_.problem, request)) {
      const auto notes = (*engine)->notes(setup_.problem, candidate.knobs, request);
      claims.arithmetic = arithmetic_of(notes);
      claims.deterministic = (*engine)->info().deterministic && !has_note(notes, note::nondeterministic);
      claims.thread_invariant = (*engine)->info().thread_invariant;
    }
    outcome.deterministic = claims.deterministic ? BitTest::not_run : BitTest::not_claimed;
    outcome.thread_invariant = claims.thread_invariant ? BitTest::not_run : BitTest::not_claimed;
    if (auto tried = try_all(claims, outcome); !tried.ok()) {
      fail(outcome, CheckFault::execution, tried.error().message);
    }
    return outcome;
  }

  const CheckSetup& setup() const { return setup_; }

 private:
  using PlanPointer = std::unique_ptr<ConvPlan>;

  // Of a candidate: a provider's notes may depend on the problem and the knobs.
  struct Claims {
    Arithmetic arithmetic = Arithmetic::direct;
    bool deterministic = false;
    bool thread_invariant = false;
  };

  static void fail(CheckOutcome& outcome, CheckFault fault, std::string sentence) {
    outcome.fault = fault;
    outcome.failure = std::move(sentence);
  }

  static CheckFault fault_of(const Error& planning) {
    return planning.code == ErrorCode::unsupported ? CheckFault::refused : CheckFault::no_plan;
  }

  // Error: an execution failed.
  Result<void> try_all(const Claims& claims, CheckOutcome& outcome) {
    std::array<PlanPointer, 2> plans;
    for (int i = 0; i < std::min(setup_.repeats, 2); ++i) {
      auto plan = make_plan(setup_.problem, outcome.candidate, engines_, made_for(setup_.request.threads));
      if (!plan.ok()) {
        fail(outcome, fault_of(plan.error()), plan.error().message);
        return {};
      }
      plans[i] = std::move(*plan);
    }
    outcome.candidate = plans[0]->candidate();
    HostTensor first;
    for (int i = 0; i < setup_.repeats; ++i) {
      const ConvPlan& plan = *plans[i % 2];
      CONVOY_CHECK(testbed_->poison(plan.workspace_bytes()));
      CONVOY_CHECK(testbed_->run(plan));
      if (i == 0 || !claims.deterministic) {
        CONVOY_CHECK(verify(claims.arithmetic, outcome));
        if (outcome.fault != CheckFault::none) return {};
      }
      CONVOY_TRY(const HostTensor* out, testbed_->output());
      if (i == 0) {
        CONVOY_TRY(first, copied(*out));
      } else if (claims.deterministic) {
        if (!same_bits(first, *out)) {
          outcome.deterministic = BitTest::different;
          fail(outcome, CheckFault::other_bits,
               fmt::format("execution {} of {}: {}", i + 1, setup_.repeats, difference(first, *out)));
          return {};
        }
        outcome.deterministic = BitTest::same;
      }
    }
    if (!outcome.full && !setup_.trusted) {
      CONVOY_CHECK(testbed_->keep_output());
      kept_arithmetic_ = claims.arithmetic;
    }
    const bool has_threads = made_for(1).kind() == DeviceKind::cpu;
    if (claims.thread_invariant && has_threads) CONVOY_CHECK(try_thread_counts(first, outcome));
    if (outcome.fault == CheckFault::none && !outcome.full && !setup_.trusted) setup_.trusted = outcome.candidate;
    return {};
  }

  Result<void> try_thread_counts(const HostTensor& first, CheckOutcome& outcome) {
    outcome.thread_counts.push_back(setup_.request.threads);
    for (const int threads : kThreadCounts) {
      if (threads == setup_.request.threads) continue;
      auto plan = make_plan(setup_.problem, outcome.candidate, engines_, made_for(threads));
      if (!plan.ok()) {
        fail(outcome, fault_of(plan.error()), fmt::format("for {} threads: {}", threads, plan.error().message));
        return {};
      }
      const auto team = make_cpu_team(threads);
      CONVOY_CHECK(testbed_->poison((*plan)->workspace_bytes()));
      if (auto ran = testbed_->run_on(*team, **plan); !ran.ok()) {
        return ran.error().within(fmt::format("on {} threads", threads));
      }
      outcome.thread_counts.push_back(threads);
      CONVOY_TRY(const HostTensor* out, testbed_->output());
      if (!same_bits(first, *out)) {
        outcome.thread_invariant = BitTest::different;
        fail(outcome, CheckFault::other_bits_by_threads,
             fmt::format("{} threads after {}: {}", threads, setup_.request.threads, difference(first, *out)));
        return {};
      }
      outcome.thread_invariant = BitTest::same;
    }
    return {};
  }

  PlanRequest made_for(int threads) const {
    PlanRequest request = setup_.request;
    request.threads = threads;
    request.constant_weights = testbed_ ? testbed_->constant_weights() : nullptr;
    return request;
  }

  // What the last execution left. Error: it can't be compared.
  Result<void> verify(Arithmetic arithmetic, CheckOutcome& outcome) {
    CONVOY_TRY(const Verification oracle, testbed_->compare(arithmetic));
    outcome.checked = oracle.checked;
    outcome.full = oracle.full;
    if (oracle.max_error >= outcome.max_error) {
      outcome.max_error = oracle.max_error;
      outcome.max_error_absolute = std::abs(oracle.actual - oracle.expected);
    }
    if (!oracle.ok()) {
      fail(outcome, CheckFault::wrong_result,
           fmt::format("out[{}] is {:.9g}, the oracle says {:.9g} ({:.3g} times the tolerance)",
                       to_string(oracle.worst), oracle.actual, oracle.expected, oracle.max_error));
      return {};
    }
    if (oracle.full || !setup_.trusted) return {};
    CONVOY_TRY(const OutputDifference whole, testbed_->compare_with_kept(std::max(arithmetic, kept_arithmetic_)));
    if (whole.max_error <= 1) return {};
    outcome.max_error = std::max(outcome.max_error, whole.max_error);
    fail(outcome, CheckFault::wrong_result,
         fmt::format("element {} of the storage is {:.9g}, {}, which passed the oracle, says {:.9g}", whole.worst,
                     whole.actual, print(*setup_.trusted), whole.expected));
    return {};
  }

  CheckSetup setup_;
  std::span<const Engine* const> engines_;
  std::unique_ptr<Testbed> testbed_;  // keeps the output of setup_.trusted
  Arithmetic kept_arithmetic_ = Arithmetic::direct;
};

CandidateChecker::CandidateChecker(std::unique_ptr<State> state) : state_(std::move(state)) {}
CandidateChecker::CandidateChecker(CandidateChecker&&) noexcept = default;
CandidateChecker::~CandidateChecker() = default;

Result<CandidateChecker> CandidateChecker::make(const CheckSetup& setup, std::span<const Engine* const> engines) {
  auto state = std::make_unique<State>(setup, engines);
  CONVOY_CHECK(state->prepare());
  return CandidateChecker(std::move(state));
}

CheckOutcome CandidateChecker::check(const Candidate& candidate) { return state_->check(candidate); }
const CheckSetup& CandidateChecker::setup() const { return state_->setup(); }

}  // namespace convoy::selection
