#include "select/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "engines/reference/reference.h"
#include "select/measure/compare.h"
#include "select/measure/problem_data.h"
#include "select/notes.h"
#include "select/testbed.h"

namespace convoy::selection {
namespace {

constexpr std::array<std::string_view, 7> kFaultNames = {
    "none", "refused", "no_plan", "execution", "wrong_result", "other_bits", "other_bits_by_threads"};

// Besides the setup's own: few, even and odd, so that work is split in other places.
constexpr std::array<int, 3> kThreadCounts = {1, 2, 3};

std::size_t bytes_of(const TensorDesc& desc) { return static_cast<std::size_t>(desc.bytes()); }

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

Result<CheckFault> parse_check_fault(std::string_view name) {
  const auto found = std::find(kFaultNames.begin(), kFaultNames.end(), name);
  if (found == kFaultNames.end()) {
    return Error{ErrorCode::invalid_argument, fmt::format("'{}' is none of {}", name, fmt::join(kFaultNames, ", "))};
  }
  return static_cast<CheckFault>(found - kFaultNames.begin());
}

std::string_view name_of(BitTest result) {
  constexpr std::array<std::string_view, 4> kNames = {"not claimed", "not run", "same bits", "other bits"};
  return kNames[static_cast<std::size_t>(result)];
}

class CandidateChecker::State {
 public:
  State(CheckSetup setup, std::span<const Engine* const> engines) : setup_(std::move(setup)), engines_(engines) {}

  Result<void> prepare() {
    CONVOY_CHECK(validate(setup_.problem));
    if (setup_.cuda) {
      team_ = make_cpu_team(std::clamp(setup_.cpu.logical_cpus, 1, 16));
      CONVOY_TRY(testbed_,
                 make_testbed(setup_.problem, request(1), CacheState::warm, VerifyOptions{}.full_terms, setup_.seed));
      return trust();
    }
    team_ = make_cpu_team(setup_.threads);
    CONVOY_TRY(data_, ProblemData::make(setup_.problem, setup_.seed));
    ConvArgs args = data_.args(nullptr);
    args.out = prior().data.get();
    expectation_ = std::make_unique<Expectation>(setup_.problem, args, VerifyOptions{}, *team_);
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
    const auto engine = std::find_if(engines_.begin(), engines_.end(),
                                     [&](const Engine* e) { return e->info().name == candidate.engine; });
    Claims claims;
    if (engine != engines_.end() && !refuse(**engine, setup_.problem, request(setup_.threads))) {
      const auto notes = (*engine)->notes(setup_.problem, candidate.knobs, request(setup_.threads));
      claims.arithmetic = arithmetic_of(notes);
      claims.deterministic = (*engine)->info().deterministic && !has_note(notes, note::nondeterministic);
      claims.thread_invariant = (*engine)->info().thread_invariant;
    }
    try_all(claims, outcome);
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

  void try_all(const Claims& claims, CheckOutcome& outcome) {
    outcome.deterministic = claims.deterministic ? BitTest::not_run : BitTest::not_claimed;
    outcome.thread_invariant = claims.thread_invariant ? BitTest::not_run : BitTest::not_claimed;
    std::array<PlanPointer, 2> plans;
    for (int i = 0; i < std::min(setup_.repeats, 2); ++i) {
      auto plan = make_plan(setup_.problem, outcome.candidate, engines_, request(setup_.threads));
      if (!plan.ok()) return fail(outcome, fault_of(plan.error()), plan.error().message);
      plans[i] = std::move(*plan);
    }
    outcome.candidate = plans[0]->candidate();
    HostTensor first;
    for (int i = 0; i < setup_.repeats; ++i) {
      auto out = execute(*plans[i % 2], *team_);
      if (!out.ok()) return fail(outcome, CheckFault::execution, out.error().message);
      if (i == 0 || !claims.deterministic) {
        if (!verify(claims.arithmetic, *out, outcome)) return;
        full_ = outcome.full;
      }
      if (i == 0) first = std::move(*out);
      if (i == 0 || !claims.deterministic) continue;
      if (std::memcmp(first.data.get(), out->data.get(), bytes_of(first.desc)) != 0) {
        outcome.deterministic = BitTest::different;
        return fail(outcome, CheckFault::other_bits,
                    fmt::format("execution {} of {}: {}", i + 1, setup_.repeats, difference(first, *out)));
      }
      outcome.deterministic = BitTest::same;
    }
    if (claims.thread_invariant && !setup_.cuda) try_thread_counts(first, outcome);
    if (outcome.fault == CheckFault::none && !full_ && !setup_.trusted) {
      setup_.trusted = outcome.candidate;
      trusted_ = std::move(first);
      trusted_arithmetic_ = claims.arithmetic;
    }
  }

  void try_thread_counts(const HostTensor& first, CheckOutcome& outcome) {
    outcome.thread_counts.push_back(setup_.threads);
    for (const int threads : kThreadCounts) {
      if (threads == setup_.threads) continue;
      auto plan = make_plan(setup_.problem, outcome.candidate, engines_, request(threads));
      if (!plan.ok()) {
        return fail(outcome, fault_of(plan.error()), fmt::format("for {} threads: {}", threads, plan.error().message));
      }
      const auto team = make_cpu_team(threads);
      auto out = execute(**plan, *team);
      if (!out.ok()) {
        return fail(outcome, CheckFault::execution, fmt::format("on {} threads: {}", threads, out.error().message));
      }
      outcome.thread_counts.push_back(threads);
      if (std::memcmp(first.data.get(), out->data.get(), bytes_of(first.desc)) != 0) {
        outcome.thread_invariant = BitTest::different;
        return fail(outcome, CheckFault::other_bits_by_threads,
                    fmt::format("{} threads after {}: {}", threads, setup_.threads, difference(first, *out)));
      }
      outcome.thread_invariant = BitTest::same;
    }
  }

  PlanRequest request(int threads) const {
    PlanRequest request;
    request.threads = threads;
    request.cpu = setup_.cpu;
    request.cuda = setup_.cuda;
    request.target_sms = setup_.target_sms;
    if (setup_.cuda) return request;
    const bool constant = setup_.constant_weights && setup_.problem.pass != Pass::wgrad;
    request.constant_weights = constant ? data_.w.data.get() : nullptr;
    return request;
  }

  // On poisoned memory: what is not written shows.
  Result<HostTensor> execute(const ConvPlan& plan, ThreadTeam& team) const {
    CONVOY_TRY(HostTensor out, HostTensor::allocate(setup_.problem.out()));
    if (testbed_ != nullptr) {
      CONVOY_CHECK(testbed_->soil(plan.workspace_bytes()));
      CONVOY_CHECK(testbed_->run(plan));
      CONVOY_TRY(const HostTensor* there, testbed_->output());
      std::memcpy(out.data.get(), there->data.get(), bytes_of(out.desc));
      return out;
    }
    if (setup_.problem.beta != 0) {
      std::memcpy(out.data.get(), prior().data.get(), bytes_of(out.desc));
    } else {
      std::memset(out.data.get(), 0xff, bytes_of(out.desc));
    }
    const std::size_t size = plan.workspace_bytes();
    const auto workspace = allocate_aligned(size);
    if (size > 0 && !workspace) {
      return Error{ErrorCode::out_of_memory, fmt::format("{} bytes of workspace can't be had", size)};
    }
    if (size > 0) std::memset(workspace.get(), 0xff, size);
    CONVOY_CHECK(plan.execute(data_.args(out.data.get()), {team, workspace.get(), size}));
    return out;
  }

  const HostTensor& prior() const {
    const Pass pass = setup_.problem.pass;
    return pass == Pass::fprop ? data_.y : pass == Pass::dgrad ? data_.x : data_.w;
  }

  // `out` is what the last execution left.
  bool verify(Arithmetic arithmetic, const HostTensor& out, CheckOutcome& outcome) const {
    const auto compared = testbed_ != nullptr ? testbed_->compare(arithmetic)
                                              : Result<Verification>(expectation_->compare(out.data.get(), arithmetic));
    if (!compared.ok()) {
      fail(outcome, CheckFault::execution, compared.error().message);
      return false;
    }
    const Verification& oracle = *compared;
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
      return false;
    }
    if (oracle.full || !trusted_.data) return true;
    const Arithmetic looser = std::max(arithmetic, trusted_arithmetic_);
    const auto tolerances = testbed_ != nullptr ? testbed_->tolerances(looser) : expectation_->tolerances(looser);
    const Comparison whole = compare_whole(trusted_, out, tolerances, *team_);
    if (whole.max_error <= 1) return true;
    outcome.max_error = std::max(outcome.max_error, whole.max_error);
    fail(outcome, CheckFault::wrong_result,
         fmt::format("element {} of the storage is {:.9g}, {}, which passed the oracle, says {:.9g}", whole.worst,
                     whole.actual, print(*setup_.trusted), whole.expected));
    return false;
  }

  CheckSetup setup_;
  std::span<const Engine* const> engines_;
  std::unique_ptr<ThreadTeam> team_;
  ProblemData data_;
  std::unique_ptr<Expectation> expectation_;
  std::unique_ptr<Testbed> testbed_;  // on a GPU, in place of data and expectation
  bool full_ = false;                 // the oracle checks every element
  HostTensor trusted_;
  Arithmetic trusted_arithmetic_ = Arithmetic::direct;
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
