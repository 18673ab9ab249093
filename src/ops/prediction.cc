// What operators are predicted to take: a start, and bytes at a rate that the kind of operator and where channels lie
// say. scripts/fit-steps fits the rates; its kinds are these.
#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "ops/problem.h"

namespace convoy::ops {
namespace {

constexpr double kStart = 0.3e-6;        // seconds
constexpr double kOneThread = 64 << 10;  // bytes: fewer are done by one thread, since waking the others takes longer
constexpr double kMemory = 10e9;         // bytes a second, of what the last cache doesn't hold, whatever the threads

// Bytes a second of one thread: with channels apart (nchw), side by side (nhwc), in blocks. `short_*`: rows of fewer
// than 64 positions, fewer than 32 channels side by side; 0: the same. Measured one by one, verified, caches as a
// network leaves them, on the AMD EPYC (AVX2) of bench/results/step-costs-2026-11-23.json, which has how wrong this is:
// of 371 measurements of one thread half are within a factor 1.2, nine tenths within 1.9, and single ones (rows of 2
// elements) off by 40. Rates of 1 to 5 measurements: multiplies. Not measured: others.
// Newer than that record, and to be fitted: functions with vectors, resizes, normalizes, recurrent layers, and what is
// quantized. Rounded from samples of ops_bench (256 KiB and 8 MiB, one thread, a shared machine; recurrent layers:
// whole networks of one) on an Intel Xeon (model 207, AVX-512) on 2026-11-25. Each is between f32 and the halves, which
// have about a third of its bytes a second.
struct Kind {
  std::string_view operators;  // " Name Name "
  double apart, side_by_side, blocks;
  double short_apart = 0, short_side_by_side = 0;
};

constexpr std::array kKinds{
    Kind{" Concat Split Slice Reshape Flatten Squeeze Unsqueeze Identity Gather Pad Expand Tile Cast DepthToSpace "
         "SpaceToDepth ",
         66e9, 42e9, 42e9, 0, 10e9},
    Kind{" Transpose ", 17e9, 17e9, 17e9},
    Kind{" Add Sub Mul Div Relu Clip Max Min LeakyRelu PRelu Neg Abs BatchNormalization Where HardSigmoid HardSwish ",
         55e9, 48e9, 57e9},
    Kind{" Exp Sigmoid Tanh Erf Gelu Elu Softmax LogSoftmax Mish Swish ", 15e9, 15e9, 15e9},
    Kind{" Log Pow Sqrt Softplus Selu ", 2e9, 2e9, 2e9},      // by the C library
    Kind{" MaxPool AveragePool LpPool ", 7.1e9, 69e9, 67e9},  // bytes written, once for each element of the window
    Kind{" GlobalAveragePool GlobalMaxPool ReduceMean ReduceSum ReduceMax ", 38e9, 30e9, 20e9, 10.5e9},
    Kind{" Resize Upsample ", 15e9, 22e9, 3.5e9},  // nearest
    Kind{" LayerNormalization InstanceNormalization GroupNormalization ", 15e9, 10e9, 10e9},
    Kind{" LRN MeanVarianceNormalization ", 6.7e9, 6.7e9, 6.7e9},
    Kind{" QuantizeLinear DequantizeLinear ", 15e9, 15e9, 15e9},
    Kind{" QLinearAdd QLinearMul ", 11e9, 11e9, 11e9},
    Kind{" Lookup QLinearLeakyRelu QLinearSigmoid ", 6.5e9, 6.5e9, 6.5e9},
    Kind{" MatMul Gemm ", 50e9, 50e9, 50e9},  // with one row, as at the end of a network, its weights are what it reads
    Kind{" LSTM GRU RNN ", 80e9, 80e9, 80e9},  // weights read, all for each step, or for a few sequences' steps at once
};
// In blocks: one measurement on a busy machine, of a kernel that is newer than the record.
constexpr Kind kSpreads{"", 55e9, 37e9, 27e9, 0, 11.6e9};  // one of kKinds[2] with activations of other dims
constexpr Kind kInterpolates{"", 7e9, 10e9, 4e9};          // resizes that are not nearest
constexpr Kind kOthers{"", 8e9, 8e9, 8e9};
constexpr std::size_t kMoves = 0, kTransposes = 1, kElements = 2, kWindows = 5, kResizes = 7, kRecurrent = 14;
static_assert(kKinds[kWindows].operators.starts_with(" MaxPool ") &&
              kKinds[kResizes].operators.starts_with(" Resize ") && kKinds[kRecurrent].operators.starts_with(" LSTM "));

bool is_activation(const Operand& operand) { return operand.present && !operand.constant && operand.desc.rank() >= 3; }

std::int64_t positions_of(const TensorDesc& desc) {
  std::int64_t positions = 1;
  for (int i = 2; i < desc.rank(); ++i) positions *= desc.dims[i];
  return positions;
}

const Kind& kind_of(const OpProblem& problem) {
  const std::string word = " " + problem.node.op + " ";
  for (std::size_t i = 0; i < kKinds.size(); ++i) {
    if (kKinds[i].operators.find(word) == std::string_view::npos) continue;
    const bool spreads =
        i == kElements && !problem.outputs.empty() && std::ranges::any_of(problem.inputs, [&](const Operand& input) {
          return is_activation(input) && input.desc.dims != problem.outputs[0].dims;
        });
    // From one layout to the other, a Transpose has nothing to do but copy.
    const bool copies = i == kTransposes && problem.inputs.size() == 1 && problem.outputs.size() == 1 &&
                        problem.inputs[0].desc.layout() != problem.outputs[0].layout();
    if (i == kResizes) {
      const auto mode = problem.node.text("mode", "nearest");
      if (mode.ok() && *mode != "nearest") return kInterpolates;
    }
    return spreads ? kSpreads : kKinds[copies ? kMoves : i];
  }
  return kOthers;
}

double rate_of(const Kind& kind, const OpProblem& problem) {
  const auto first = std::ranges::find_if(problem.inputs, is_activation);
  if (first == problem.inputs.end()) return kind.apart;
  const TensorDesc& desc = first->desc;
  if (desc.channel_block > 1) return kind.blocks;
  if (desc.is_packed(Layout::nchw)) {
    return kind.short_apart > 0 && positions_of(desc) < 64 ? kind.short_apart : kind.apart;
  }
  std::int64_t channels = desc.dims[1];
  for (const Operand& input : problem.inputs) {
    if (is_activation(input)) channels = std::min(channels, input.desc.dims[1]);
  }
  for (const TensorDesc& output : problem.outputs) {
    if (output.rank() >= 3) channels = std::min(channels, output.dims[1]);
  }
  return kind.short_side_by_side > 0 && channels < 32 ? kind.short_side_by_side : kind.side_by_side;
}

// R for each step, and W for all of them at once, since those don't wait for one another.
double weights_read(const OpProblem& problem) {
  constexpr double kAtOnce = 4;  // rows that take no longer than one
  const auto& inputs = problem.inputs;
  if (inputs.size() < 3 || inputs[0].desc.rank() != 3) return 0;
  const auto layout = problem.node.integer("layout", 0);
  const bool batch_first = layout.ok() && *layout == 1;
  const auto steps = static_cast<double>(inputs[0].desc.dims[batch_first ? 1 : 0]);
  const auto batch = static_cast<double>(inputs[0].desc.dims[batch_first ? 0 : 1]);
  return static_cast<double>(inputs[1].desc.bytes()) * std::ceil(steps * batch / kAtOnce) +
         static_cast<double>(inputs[2].desc.bytes()) * steps * std::ceil(batch / kAtOnce);
}

double work_of(const Kind& kind, const OpProblem& problem) {
  if (&kind == &kKinds[kRecurrent]) return weights_read(problem);
  if (&kind != &kKinds[kWindows] || problem.outputs.empty()) return bytes_moved(problem);
  double work = static_cast<double>(problem.outputs[0].bytes());
  const auto window = problem.node.integers("kernel_shape", {});
  for (const std::int64_t size : window.ok() ? *window : std::vector<std::int64_t>()) {
    work *= static_cast<double>(size);
  }
  return work;
}

}  // namespace

double predict_seconds(const OpProblem& problem, const PlanRequest& request) {
  const Kind& kind = kind_of(problem);
  const double bytes = bytes_moved(problem);
  const int threads = bytes < kOneThread ? 1 : std::max(1, request.threads);
  const double memory = bytes > static_cast<double>(request.cpu.l3_bytes) ? bytes / kMemory : 0;
  return kStart + std::max(work_of(kind, problem) / (rate_of(kind, problem) * threads), memory);
}

}  // namespace convoy::ops
