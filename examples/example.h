// What every example does besides its subject: stop on an error, make data, run a candidate once.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "convoy/host_tensor.h"
#include "convoy/selection.h"

namespace example {

[[noreturn]] inline void stop(const char* message) {
  std::fprintf(stderr, "%s\n", message);
  std::exit(1);
}

template <class T>
T or_stop(convoy::Result<T> result) {
  if (!result) stop(result.error().message.c_str());
  return std::move(*result);
}
inline void or_stop(convoy::Result<void> result) {
  if (!result) stop(result.error().message.c_str());
}

// Small integers, so that f32 sums are exact, and results whole: -3 .. 3 by default.
inline convoy::HostTensor ramp(const convoy::TensorDesc& desc, int modulus = 7, int first = -3) {
  convoy::HostTensor tensor = or_stop(convoy::HostTensor::zeros(desc));
  for (std::int64_t i = 0; i < desc.storage_elements(); ++i) {
    convoy::store_from_double(desc.type, tensor.data.get(), i, static_cast<double>(i % modulus + first));
  }
  return tensor;
}

// Plans `candidate` and executes it once on two threads.
inline void run(const convoy::ConvProblem& problem, const convoy::Candidate& candidate, const convoy::ConvArgs& args) {
  const convoy::PlanRequest request{.threads = 2};
  const auto plan = or_stop(convoy::make_plan(problem, candidate, convoy::all_engines(), request));
  const auto team = convoy::make_cpu_team(request.threads);
  const auto workspace = convoy::allocate_aligned(plan->workspace_bytes());
  or_stop(plan->execute(args, {*team, workspace.get(), plan->workspace_bytes()}));
}

// The heuristic's choice.
inline convoy::Candidate choose(const convoy::ConvProblem& problem) {
  const convoy::PlanRequest request{.threads = 2};
  return or_stop(convoy::select(problem, convoy::all_engines(), {}, request)).candidate;
}

// For whole results of engines that a heuristic chose: Winograd, where it is the one, rounds fractions in between.
constexpr double kLessThanOne = 0.25;

// Stops when two tensors (row-major by logical index) differ by more than `tolerance`.
inline void agree(const convoy::HostTensor& a, const convoy::HostTensor& b, double tolerance, const char* what) {
  for (std::int64_t i = 0; i < a.desc.elements(); ++i) {
    if (!(std::fabs(a.at(i) - b.at(i)) <= tolerance)) {
      std::fprintf(stderr, "%s: element %lld is %g, not %g\n", what, static_cast<long long>(i), a.at(i), b.at(i));
      std::exit(1);
    }
  }
  std::printf("%s: all %lld elements agree\n", what, static_cast<long long>(a.desc.elements()));
}

}  // namespace example
