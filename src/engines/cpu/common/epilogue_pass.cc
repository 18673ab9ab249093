#include "engines/cpu/common/epilogue_pass.h"

#include <algorithm>
#include <string>

#include "core/text.h"
#include "engines/cpu/common/epilogue_pass_kernels.h"
#include "engines/cpu/common/problem.h"

namespace convoy::cpu {
namespace {

const IsaRow<EpiloguePassKernels> kRows[] = {{Isa::avx2, &avx2::epilogue_pass_kernels},
                                             {Isa::avx512, &avx512::epilogue_pass_kernels}};

std::int64_t positions_of(const TensorDesc& desc) {
  std::int64_t count = 1;
  for (std::size_t d = 2; d < desc.dims.size(); ++d) count *= desc.dims[d];
  return count;
}

}  // namespace

std::optional<Refusal> refuse_epilogue_pass(const ConvProblem& problem, const CpuFeatures& cpu) {
  const TensorDesc& out = problem.out();
  if (cpu.isa < Isa::avx2) {
    return Refusal{RefusalCode::instruction_set,
                   "instruction set=" + std::string(name_of(cpu.isa)) + ": the passes need avx2"};
  }
  if (problem.pass == Pass::wgrad) return Refusal{RefusalCode::pass, "pass=wgrad: the passes are for fprop and dgrad"};
  if (out.type != DataType::f32 || problem.compute != DataType::f32) {
    return Refusal{RefusalCode::data_type, "types out=" + std::string(name_of(out.type)) + " compute=" +
                                               std::string(name_of(problem.compute)) + ": the passes are for f32"};
  }
  if (out.layout() == Layout::strided) {
    return Refusal{RefusalCode::layout, "out=" + print(out) + ": the passes need a packed layout"};
  }
  if (problem.beta != 0) {
    return Refusal{RefusalCode::scaling, "beta=" + print_double(problem.beta) + ": the passes take beta=0 only"};
  }
  return std::nullopt;
}

void run_epilogue_pass(const ConvProblem& problem, const ConvArgs& args, Isa isa, ThreadTeam& team) {
  const TensorDesc& desc = problem.out();
  const EpiloguePassKernels& kernels = *best_row<EpiloguePassKernels>(kRows, isa);
  const EpilogueArgs epilogue = make_epilogue(problem, args);
  auto* out = static_cast<float*>(args.out);
  const auto* z = epilogue.gamma != 0 ? static_cast<const float*>(args.z) : nullptr;
  const auto at = [z](std::int64_t offset) { return z ? z + offset : z; };
  const std::int64_t channels = desc.dims[1], positions = positions_of(desc);
  if (desc.layout() == Layout::nchw) {
    parallel_ranges(team, desc.dims[0] * channels, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        kernels.positions(out + i * positions, at(i * positions), epilogue, i % channels, positions);
      }
    });
    return;
  }
  // Rows of `width` channels: all of them, or a block, whose padding channels stay as they are.
  const std::int64_t width = desc.channel_block > 1 ? desc.channel_block : channels;
  const std::int64_t slices = (channels + width - 1) / width;
  parallel_ranges(team, desc.dims[0] * slices * positions, [&](std::int64_t begin, std::int64_t end, int) {
    while (begin < end) {
      const std::int64_t rows = std::min(end - begin, positions - begin % positions);
      const std::int64_t channel = begin / positions % slices * width;
      kernels.channels(out + begin * width, at(begin * width), epilogue, channel, std::min(width, channels - channel),
                       rows, width);
      begin += rows;
    }
  });
}

}  // namespace convoy::cpu
