// Random valid convolution problems, steered to what an engine declares.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "convoy/engine.h"
#include "engines/testing/random.h"

namespace convoy::testing {

struct ProblemOptions {
  std::vector<Pass> passes = {Pass::fprop, Pass::dgrad, Pass::wgrad};
  std::vector<TypeCombination> types = {{DataType::f32, DataType::f32, DataType::f32, DataType::f32}};
  std::vector<LayoutPair> layouts;  // of x and y; empty: any, strided ones too
  bool any_weight_strides = true;   // otherwise w is packed nchw
  int min_spatial_dims = 1;
  int max_spatial_dims = 3;
  bool groups = true;
  bool strided = true;
  bool dilated = true;
  bool flipped = true;
  bool alpha_beta = true;
  bool bias = true;
  bool narrow_bias = true;
  bool float_bias = true;
  bool residual = true;
  std::vector<ActivationKind> activations;  // besides identity; empty: all
  bool quantized_residual = true;           // behind the requantization
  bool requantize = true;                   // only integer problems do
  bool zero_points = true;
  bool given_zero_points = true;
  bool gate = false;          // only fprop of floats does
  bool exact = false;         // only epilogues that keep small integers exact
  bool long_sums = false;     // integer problems, mostly to s32, with sums of up to more products than 32 bits hold
  bool any_alignment = true;  // data pointers aligned to their element only, at times
  double odd_sizes = 0.6;     // share of channel counts that fit no vector
  std::int64_t max_channels = 72;
  std::int64_t max_output = 24;  // along one spatial dim
  std::int64_t max_products = 1'000'000;
};

// What an engine's declaration admits.
ProblemOptions options_for(const EngineInfo& info);

// Every result passes validate().
ConvProblem random_problem(Random& random, const ProblemOptions& options);

// What it took to find problems that an engine accepts.
struct Acceptance {
  std::int64_t accepted = 0;
  std::int64_t tried = 0;                        // problems offered to the engine
  std::map<std::string, std::int64_t> refusals;  // by code
};

// A random problem that `engine` accepts on a processor with `features`: where it refuses one, the field that the
// refusal names is drawn again, nearer to what is common, so that engines with narrow limits get theirs too. Null after
// `attempts` offers.
std::optional<ConvProblem> random_problem_for(Random& random, const Engine& engine, const PlanRequest& request,
                                              const ProblemOptions& options, Acceptance& acceptance,
                                              int attempts = 400);

}  // namespace convoy::testing
