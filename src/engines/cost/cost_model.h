// Predictions by fitted models. A model belongs to an engine, a pass, a class of data types, a kind of grouping, for
// engines that have code for several an instruction set, and for the narrow types to how the processor multiplies them:
//
//   seconds of one thread = coefficient * copies + (sum of coefficient * sum term) * exp(sum of coefficient * shape
//   term)
//
// The sum terms are what an execution pays for: the call, the engine's own estimate of its work, bytes read and
// written; their coefficients are not negative, so a prediction never is. Copies are reorders before and after the
// kernel, whose efficiency is not theirs. The shape terms are bounded logarithms of what makes kernels more or less
// efficient: channels, filter, map, stride; being bounded, they can't run away on problems unlike those of the fit.
// Threads share the seconds evenly, as far as an engine divides its work (fitted_engine.h).
//
// scripts/fit-costs fits the coefficients to what `convoy bench --cost-terms` measured, and writes the table of the
// processor that it runs on: fitted_intel.inc (AVX-512 to AMX), fitted_amd.inc (Zen 5, with AVX-512) or fitted_avx2.inc
// (Zen 3). What one lacks is taken from the others.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/cpu.h"
#include "convoy/engine.h"

namespace convoy::cost {

inline constexpr int kSumTerms = 12;  // the first of them the copies
inline constexpr int kShapeTerms = 107;
using Terms = std::array<double, kSumTerms + kShapeTerms>;

// Preconditions: validate(problem) passed. `work_seconds`: what the engine estimates, for one thread. `copied_bytes`:
// of tensors that are reordered before or after, each counted once.
Terms terms(const ConvProblem& problem, double work_seconds, double copied_bytes);

struct Model {
  std::array<float, kSumTerms + kShapeTerms> coefficients;

  double seconds(const Terms& terms) const;  // of one thread
};

enum class Grouping : std::uint8_t { dense, depthwise, grouped };  // depthwise: one input channel a group
Grouping grouping_of(const ConvProblem& problem);

// How products of bf16 are computed: by what there is for f32, by instructions for them; or, of bf16 and of 8-bit
// integers, in AMX's tiles by engines that use those of themselves. Other types' models serve all.
enum class Products : std::uint8_t { emulated, native, tiles };

// Which processors models were fitted on: Intel's or AMD's with AVX-512, or one without.
enum class FittedOn : std::uint8_t { intel, amd, avx2 };

// Whose models choose best here.
FittedOn fitted_on(const CpuFeatures& cpu);

// The type class is that of x: f32, of f64 too, bf16, f16, or u8 for both 8-bit integers. Where none was fitted for
// tiles, the native one. Null where nothing was fitted.
const Model* find_model(std::string_view engine, Pass pass, DataType x, Grouping grouping, Isa isa,
                        Products products = Products::emulated,
                        FittedOn processor = fitted_on(detected_cpu_features()));

// The models of one engine, looked up once. `isa` is that of its kernels; engines with code for one only give it.
class EngineModels {
 public:
  EngineModels(std::string_view engine, Isa isa, Products products = Products::emulated);
  const Model* of(const ConvProblem& problem) const;

 private:
  static std::size_t place(Pass pass, int type, Grouping grouping);
  std::array<const Model*, 3 * 4 * 3> models_ = {};  // passes, type classes, groupings
};

}  // namespace convoy::cost
