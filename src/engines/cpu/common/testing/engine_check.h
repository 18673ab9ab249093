// For the unit tests of CPU engines: runs one problem on an engine as a hostile caller would, compares with the oracle.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "convoy/engine.h"
#include "convoy/host_tensor.h"
#include "engines/cpu/common/problem.h"
#include "engines/reference/reference.h"

namespace convoy::cpu {

struct EngineCheck {
  Isa isa = Isa::avx512;
  int threads = 1;
  bool constant_weights = true;
  bool integers = false;  // small integers: the answer must be exact
  KnobValues knobs;
};

inline ConvProblem problem_of(const std::string& text) {
  auto problem = parse_problem(text);
  EXPECT_TRUE(problem.ok()) << text << ": " << (problem.ok() ? "" : problem.error().message);
  return problem.ok() ? *problem : ConvProblem{};
}

inline void in_f64(ConvProblem& problem) {
  problem.x.type = problem.w.type = problem.y.type = problem.compute = DataType::f64;
}

// Of f32, or of f64 with more bits than f32 has.
inline HostTensor random_tensor(const TensorDesc& desc, std::mt19937& random, bool integers) {
  TensorDesc plain = desc.with_layout(Layout::nchw);
  auto source = HostTensor::allocate(plain);
  EXPECT_TRUE(source.ok());
  std::uniform_real_distribution<float> real(-1, 1);
  std::uniform_int_distribution<int> whole(-3, 3);
  for (std::int64_t i = 0; i < plain.elements(); ++i) {
    double value = integers ? whole(random) : real(random);
    if (!integers && desc.type == DataType::f64) value += 0x1p-24 * real(random);
    store_from_double(desc.type, source->data.get(), i, value);
  }
  auto tensor = converted(*source, desc);
  EXPECT_TRUE(tensor.ok());
  return *tensor;
}

// Returns what out holds, bit by bit; empty after a refusal or a failure (which is reported unless `refusal` takes it).
inline std::vector<float> run_and_compare(const Engine& engine, const ConvProblem& problem, const EngineCheck& how,
                                          unsigned seed, std::string* refusal = nullptr) {
  const std::string label = print(problem) + " isa=" + std::string(name_of(how.isa)) +
                            " threads=" + std::to_string(how.threads) + " seed=" + std::to_string(seed);
  const CpuFeatures cpu = capped(cpu_features(), how.isa);
  if (const auto refused = refuse(engine, problem, {1, cpu})) {
    if (refusal) {
      *refusal = refused->reason;
    } else {
      ADD_FAILURE() << label << " refused: " << refused->reason;
    }
    return {};
  }
  std::mt19937 random(seed);
  const HostTensor x = random_tensor(problem.x, random, how.integers);
  const HostTensor w = random_tensor(problem.w, random, how.integers);
  const HostTensor y = random_tensor(problem.y, random, how.integers);
  const HostTensor z = random_tensor(problem.out(), random, how.integers);
  const HostTensor before = random_tensor(problem.out(), random, how.integers);
  const std::int64_t channels = problem.out().dims[1];
  const HostTensor bias = random_tensor(TensorDesc::packed(problem.bias_type(), {channels}), random, how.integers);
  const HostTensor slopes = random_tensor(TensorDesc::packed(DataType::f32, {channels}), random, how.integers);

  auto out = HostTensor::allocate(problem.out());
  if (!out.ok()) {
    ADD_FAILURE() << label << out.error().message;
    return {};
  }
  const auto out_bytes = static_cast<std::size_t>(problem.out().bytes());
  std::memset(out->data.get(), 0xff, out_bytes);  // NaN
  if (problem.beta != 0) std::memcpy(out->data.get(), before.data.get(), out_bytes);

  ConvArgs args;
  args.x = x.data.get();
  args.w = w.data.get();
  args.y = y.data.get();
  args.out = out->data.get();
  args.bias = bias.data.get();
  args.z = problem.epilogue.gamma != 0 ? z.data.get() : nullptr;
  args.slopes = slopes.as<float>();

  PlanRequest request;
  request.threads = how.threads;
  request.cpu = cpu;
  request.constant_weights = how.constant_weights ? w.data.get() : nullptr;
  auto plan = engine.plan(problem, how.knobs, request);
  if (!plan.ok()) {
    ADD_FAILURE() << label << ": " << plan.error().message;
    return {};
  }
  const std::size_t bytes = (*plan)->workspace_bytes();
  const auto workspace = allocate_aligned(bytes + 64);
  std::memset(workspace.get(), 0xff, bytes + 64);  // NaN in every float
  const auto team = make_cpu_team(how.threads);
  ConvArgs execution = args;
  if (how.constant_weights) execution.w = nullptr;
  const auto done = (*plan)->execute(execution, {*team, workspace.get(), bytes});
  if (!done.ok()) {
    ADD_FAILURE() << label << ": " << done.error().message;
    return {};
  }
  for (std::size_t i = bytes; i < bytes + 64; ++i) {
    EXPECT_EQ(workspace.get()[i], std::byte{0xff}) << label << ": wrote past the workspace";
  }
  VerifyOptions options;
  options.exact = how.integers;
  args.out = before.data.get();
  const Verification result = verify_with_reference(problem, args, out->data.get(), options, *team);
  EXPECT_TRUE(result.ok()) << label << " candidate=" << print((*plan)->candidate()) << "\n  error " << result.max_error
                           << " at " << to_string(result.worst) << ": " << result.actual << " for " << result.expected;
  return std::vector<float>(out->as<float>(), out->as<float>() + out_bytes / sizeof(float));
}

// Tests with an instruction set that this processor has.
class OnIsas : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (cpu_features().isa < GetParam()) GTEST_SKIP() << "this processor has no " << name_of(GetParam());
  }
};

// Each problem with 1 and 3 threads, as it is, with an epilogue, and in f64 with another.
inline void check_paths(const Engine& engine, Isa isa, std::initializer_list<const char*> problems) {
  for (const char* text : problems) {
    for (int threads : {1, 3}) {
      EngineCheck how;
      how.isa = isa;
      how.threads = threads;
      run_and_compare(engine, problem_of(text), how, 7);
      ConvProblem full = problem_of(text);
      full.epilogue = {.bias = true, .gamma = 0.5, .activation = {ActivationKind::relu, 0, 0}};
      run_and_compare(engine, full, how, 8);
      in_f64(full);
      full.epilogue.activation = {ActivationKind::prelu, 0, 0};
      run_and_compare(engine, full, how, 9);
    }
  }
}

// All configurations of a problem, with 1 and 3 threads, give the same bits.
inline void check_same_bits(const Engine& engine, Isa isa, const char* text) {
  const ConvProblem problem = problem_of(text);
  const auto tiles = engine.configurations(problem, {1, capped(cpu_features(), isa)}).listed;
  ASSERT_GT(tiles.size(), 3u);
  std::vector<float> first;
  for (const KnobValues& tile : tiles) {
    for (int threads : {1, 3}) {
      EngineCheck how;
      how.isa = isa;
      how.threads = threads;
      how.knobs = tile;
      const std::vector<float> out = run_and_compare(engine, problem, how, 11);
      ASSERT_FALSE(out.empty());
      if (first.empty()) first = out;
      ASSERT_EQ(std::memcmp(first.data(), out.data(), out.size() * sizeof(float)), 0)
          << print(Candidate{"", tile}) << " " << threads;
    }
  }
}

// Random problems of up to a few thousand products an output, with everything a problem can have.
inline ConvProblem random_problem(std::mt19937& random, const std::vector<LayoutPair>& layouts, bool dgrad) {
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (;;) {
    ConvProblem p;
    p.pass = dgrad && pick(0, 1) ? Pass::dgrad : Pass::fprop;
    const int dims = static_cast<int>(pick(1, 3));
    const bool grouped = pick(0, 3) == 0;
    p.groups = grouped ? pick(1, 6) : 1;
    const std::int64_t c = pick(1, grouped ? 9 : 40), k = pick(1, grouped ? 20 : 70);
    Dims x{pick(1, 2), c * p.groups}, w{k * p.groups, c};
    for (int i = 0; i < dims; ++i) {
      x.push_back(pick(1, dims == 3 ? 7 : dims == 2 ? 18 : 60));
      w.push_back(pick(1, dims == 3 ? 3 : 4));
      p.stride.push_back(pick(0, 1) ? 1 : pick(1, 3));
      p.dilation.push_back(pick(0, 2) ? 1 : pick(1, 3));
      p.pre_padding.push_back(pick(0, 2) ? pick(0, w.back() - 1) : pick(0, 5));
      p.post_padding.push_back(pick(0, 2) ? p.pre_padding.back() : pick(0, 3));
    }
    if (pick(0, 4) == 0) std::fill(w.begin() + 2, w.end(), 1);
    const LayoutPair pair = layouts[pick(0, static_cast<std::int64_t>(layouts.size()) - 1)];
    p.x = TensorDesc::packed(DataType::f32, x, pair.x);
    p.w = TensorDesc::packed(DataType::f32, w, pick(0, 3) ? Layout::nchw : Layout::nhwc);
    Dims y{x[0], w[0]};
    bool fits = true;
    for (int i = 0; i < dims && fits; ++i) {
      const auto size =
          conv_output_size(x[2 + i], w[2 + i], p.pre_padding[i], p.post_padding[i], p.stride[i], p.dilation[i], "y");
      fits = size.ok();
      if (fits) y.push_back(*size);
    }
    if (!fits) continue;
    p.y = TensorDesc::packed(DataType::f32, y, pair.y);
    p.mode = pick(0, 3) ? ConvMode::cross_correlation : ConvMode::convolution;
    p.alpha = pick(0, 3) ? 1 : 0.5;
    p.beta = pick(0, 3) ? 0 : 2;
    p.epilogue.bias = pick(0, 1);
    p.epilogue.gamma = pick(0, 2) ? 0 : 0.5;
    const auto kind = static_cast<ActivationKind>(pick(0, 1) ? pick(0, 2) : pick(0, 13));
    p.epilogue.activation = {kind, has_parameter_a(kind) ? 0.25 : 0, has_parameter_b(kind) ? 0.75 : 0};
    if (validate(p).ok()) return p;
  }
}

// `count` random problems over both instruction sets, 1 and 3 threads, constant and changing weights, floats and exact
// integers, every third one in f64 where the engine takes it; counts those the engine ran.
inline int run_random(const Engine& engine, int count, unsigned first_seed) {
  int ran = 0;
  for (int i = 0; i < count; ++i) {
    std::mt19937 random(first_seed + i);
    ConvProblem problem = random_problem(random, engine.info().layouts, true);
    if (i % 3 == 2 && std::ranges::find(engine.info().types, kAllF64) != engine.info().types.end()) in_f64(problem);
    EngineCheck how;
    how.isa = i % 2 ? Isa::avx2 : Isa::avx512;
    if (cpu_features().isa < how.isa) how.isa = cpu_features().isa;
    how.threads = i % 4 < 2 ? 1 : 3;
    how.constant_weights = i % 3 != 0;
    how.integers = i % 5 == 0;
    if (how.integers) {
      // Halves and quarters of small integers are exact in f32; smooth activations are not.
      problem.epilogue.activation = {i % 2 ? ActivationKind::relu : ActivationKind::identity};
    }
    std::string refusal;
    ran += !run_and_compare(engine, problem, how, first_seed + i, &refusal).empty();
    if (testing::Test::HasFailure()) break;
  }
  return ran;
}

}  // namespace convoy::cpu
