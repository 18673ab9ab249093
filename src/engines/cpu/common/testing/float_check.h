// For unit tests: one problem through one engine of f32 or f64 on every instruction set of this machine, with 1 and 3
// threads, with weights constant and given at execution, knob by knob; out and workspace are NaN at first; compared
// with the oracle.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "convoy/host_tensor.h"
#include "engines/reference/reference.h"

namespace convoy::cpu {

// Uniform in [-1, 1), of f64 with as many bits as a product of two f32 has; zeros in the padding of a blocked tensor.
inline HostTensor uniform_tensor(const TensorDesc& desc, std::uint32_t seed) {
  HostTensor plain = *HostTensor::allocate(TensorDesc::packed(desc.type, desc.dims));
  for (std::int64_t i = 0; i < plain.desc.elements(); ++i) {
    seed = seed * 1664525u + 1013904223u;
    const double value = static_cast<double>(seed >> 8) * 0x1p-23 - 1;
    store_from_double(desc.type, plain.data.get(), i, desc.type == DataType::f64 ? value * (1 + 0x1p-30) : value);
  }
  return *converted(plain, desc);
}

// A problem of f32 in f64.
inline std::string in_f64(std::string text) {
  for (std::size_t at = 0; (at = text.find("=f32", at)) != std::string::npos;) text.replace(at, 4, "=f64");
  return text;
}

inline std::vector<CpuFeatures> f32_processors() {
  std::vector<CpuFeatures> all;
  for (Isa isa : {Isa::avx2, Isa::avx512}) {
    if (cpu_features().isa >= isa) all.push_back(capped(cpu_features(), isa));
  }
  return all;
}

inline std::vector<KnobValues> all_of(const Configurations& configurations) {
  if (!configurations.listed.empty()) return configurations.listed;
  std::vector<KnobValues> all = {{}};
  for (const Knob& knob : configurations.knobs) {
    std::vector<KnobValues> next;
    for (const KnobValues& values : all) {
      for (const KnobSetting& value : knob.values) {
        next.push_back(values);
        next.back().push_back({knob.name, value});
      }
    }
    all = std::move(next);
  }
  return all;
}

inline void expect_right(const Engine& engine, const std::string& text) {
  SCOPED_TRACE(text);
  auto parsed = parse_problem(text);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const ConvProblem& problem = *parsed;
  const std::int64_t channels = problem.out().dims[1];
  const HostTensor x = uniform_tensor(problem.x, 1);
  const HostTensor w = uniform_tensor(problem.w, 2);
  const HostTensor y = uniform_tensor(problem.y, 3);
  const HostTensor z = uniform_tensor(problem.out(), 4);
  const HostTensor bias = uniform_tensor(TensorDesc::packed(problem.bias_type(), {channels}), 5);
  const HostTensor slopes = uniform_tensor(TensorDesc::packed(DataType::f32, {channels}), 6);
  const HostTensor prior = uniform_tensor(problem.out(), 7);
  ConvArgs args{.x = x.data.get(),
                .w = w.data.get(),
                .y = y.data.get(),
                .out = prior.data.get(),
                .bias = bias.data.get(),
                .z = z.data.get(),
                .slopes = slopes.as<float>()};
  const auto one = make_cpu_team(1);
  const Expectation expected(problem, args, {}, *one);

  for (const CpuFeatures& cpu : f32_processors()) {
    const auto refusal = refuse(engine, problem, {1, cpu});
    ASSERT_FALSE(refusal.has_value()) << refusal->reason;
    for (const KnobValues& knobs : all_of(engine.configurations(problem, {1, cpu}))) {
      for (int threads : {1, 3}) {
        for (bool constant : {true, false}) {
          SCOPED_TRACE(std::string(name_of(cpu.isa)) + ", " + print(Candidate{engine.info().name, knobs}) +
                       ", threads " + std::to_string(threads) + (constant ? ", constant weights" : ""));
          EXPECT_GT(engine.predict_seconds(problem, knobs, {threads, cpu}), 0);
          auto plan = engine.plan(problem, knobs, {threads, cpu, constant ? w.data.get() : nullptr});
          ASSERT_TRUE(plan.ok()) << plan.error().message;
          HostTensor out = *HostTensor::allocate(problem.out());
          if (problem.beta != 0) {
            std::memcpy(out.data.get(), prior.data.get(), static_cast<std::size_t>(out.desc.bytes()));
          } else {
            std::memset(out.data.get(), 0xff, static_cast<std::size_t>(out.desc.bytes()));
          }
          const std::size_t bytes = (*plan)->workspace_bytes();
          const auto workspace = allocate_aligned(std::max<std::size_t>(bytes, 64));
          std::memset(workspace.get(), 0xff, std::max<std::size_t>(bytes, 64));
          const auto team = make_cpu_team(threads);
          ConvArgs run = args;
          run.out = out.data.get();
          if (constant) run.w = nullptr;
          if (problem.epilogue.gamma == 0) run.z = nullptr;
          if (!problem.epilogue.bias) run.bias = nullptr;
          const auto done = (*plan)->execute(run, {*team, workspace.get(), bytes});
          ASSERT_TRUE(done.ok()) << done.error().message;
          const Verification verified = expected.compare(out.data.get(), arithmetic_of(engine.info().notes));
          EXPECT_TRUE(verified.ok()) << "element " << to_string(verified.worst) << " is " << verified.actual << ", not "
                                     << verified.expected << " (" << verified.max_error << " tolerances)";
        }
      }
    }
  }
}

inline void expect_refused(const Engine& engine, const std::string& text, RefusalCode code, const std::string& part) {
  SCOPED_TRACE(text);
  auto parsed = parse_problem(text);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  for (const CpuFeatures& cpu : f32_processors()) {
    const auto refusal = refuse(engine, *parsed, {1, cpu});
    ASSERT_TRUE(refusal.has_value());
    EXPECT_EQ(name_of(refusal->code), name_of(code));
    EXPECT_NE(refusal->reason.find(part), std::string::npos) << refusal->reason;
  }
}

}  // namespace convoy::cpu
