// From the public problem to what kernels read. Not for per-ISA units (it brings in the standard library).
#pragma once

#include <span>

#include "convoy/engine.h"
#include "engines/cpu/common/epilogue_args.h"
#include "engines/cpu/common/geometry.h"

namespace convoy::cpu {

// Precondition: validate(problem) passed.
ConvGeometry flat_geometry(const ConvProblem& problem);

// Where a channel begins, from the tensor's first element.
inline std::int64_t channel_offset(const ActivationView& view, std::int64_t channel) {
  return channel / view.block * view.channel + channel % view.block;
}

// The epilogue of a floating-point problem; args.bias is of Real, float or double.
template <class Real = float>
EpilogueArgsOf<Real> make_epilogue(const ConvProblem& problem, const ConvArgs& args);

// How an engine finds its kernels: one row an instruction set, in any order.
//   const IsaRow<KernelTable> kRows[] = {{Isa::avx2, &avx2::kernels}, {Isa::avx512, &avx512::kernels}};
//   const KernelTable* kernels = best_row<KernelTable>(kRows, request.cpu.isa);
template <class Kernels>
struct IsaRow {
  Isa isa;
  const Kernels* kernels;
};

// The row of the highest instruction set that is not above `isa`; null when there is none.
template <class Kernels>
const Kernels* best_row(std::span<const IsaRow<Kernels>> rows, Isa isa) {
  const IsaRow<Kernels>* best = nullptr;
  for (const IsaRow<Kernels>& row : rows) {
    if (row.isa <= isa && (best == nullptr || best->isa < row.isa)) best = &row;
  }
  return best ? best->kernels : nullptr;
}

// Seconds for one execution from an engine's count of cycles (one thread, everything in cache) and the bytes moved, by
// constants fitted as predict.cc says.
double predict_seconds(const ConvProblem& problem, double cycles, int lanes);

// What engines of one type declare.
inline constexpr TypeCombination kAllF32{DataType::f32, DataType::f32, DataType::f32, DataType::f32};
inline constexpr TypeCombination kAllF64{DataType::f64, DataType::f64, DataType::f64, DataType::f64};

// What own engines declare alike; passes, types, layouts and epilogues are each one's.
EngineInfo own_engine(std::string name, int revision, std::string summary);

}  // namespace convoy::cpu
