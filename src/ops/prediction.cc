// What operators are predicted to take: a start, and bytes at a rate that the kind of operator and where channels lie
// say. scripts/fit-steps fits the rates.
#include <algorithm>
#include <array>
#include <cmath>

#include "ops/operator_row.h"
#include "ops/problem.h"

namespace convoy::ops {
namespace {

constexpr double kStart = 0.3e-6;        // seconds
constexpr double kOneThread = 64 << 10;  // bytes: fewer are done by one thread, since waking the others takes longer
constexpr double kMemory = 10e9;         // bytes a second, of what the last cache doesn't hold, whatever the threads

// Gigabytes a second of one thread: with channels apart (nchw), side by side (nhwc), in blocks. `short_*`: rows of
// fewer than 64 positions, fewer than 32 channels side by side; 0: the same.
struct Rates {
  double apart = 0, side_by_side = 0, blocks = 0;
  double short_apart = 0, short_side_by_side = 0;
};

// By the type of the first activation: 4 bytes and more, 2 bytes, 1 byte. A 0 is not measured: that of the wider type.
//
// With caches as a network leaves them. Times 0.7 what a Zen 5 takes: moves, windows, reductions, resizes,
// normalizations, what spreads, halves among elements (step-costs-zen5-2026-11-27.json in bench/results, which has how
// wrong this is); transposes, functions, normalizations of halves, QuantizeLinear, DequantizeLinear
// (operator-shares-zen5-2026-11-27.json). As an AMD EPYC with AVX2 takes, which has 0.7 of that Zen 5's rate for f32
// elements (step-costs-2026-11-23.json): these, library functions, normalizations with channels side by side,
// quantized arithmetic and products. Recurrent layers as an Intel Xeon.
struct Kind {
  std::string_view name;  // as in scripts/fit-steps
  Rates words, halves = {}, bytes = {};
};

// In the order of Rate.
constexpr std::array kRates{
    Kind{"moves", {120, 83, 117, 0, 50}, {130, 95, 118}, {160, 104, 110, 0, 26}},
    Kind{"transposes", {35, 35, 35}},
    Kind{"elements", {55, 48, 57}, {23, 25, 30}},
    Kind{"functions", {35, 35, 35}, {17, 17, 17}},
    // Bytes written, once for each element of the window.
    Kind{"windows", {30, 90, 74}, {2.3, 58, 40}, {1.5, 95, 38}},
    Kind{"reductions", {56, 90, 80, 12}, {18, 61, 46, 3.2}},
    Kind{"resizes", {30, 64, 67}, {19, 89, 53}, {10, 92, 51}},  // nearest
    Kind{"normalizations", {43, 10, 10}, {27}},
    Kind{"channel_normalizations", {6.7, 6.7, 6.7}},
    Kind{"quantization", {50, 50, 50}, {}, {25, 25, 25}},
    Kind{"quantized_arithmetic", {11, 11, 11}},
    Kind{"lookups", {6.5, 6.5, 6.5}},
    Kind{"products", {50, 50, 50}},
    Kind{"recurrent", {80, 80, 80}},  // weights read, all for each step, or for a few sequences' steps at once
    Kind{"others", {8, 8, 8}},
};
static_assert(kRates.size() == static_cast<std::size_t>(Rate::others) + 1);
constexpr const Kind& kind_at(Rate rate) { return kRates[static_cast<std::size_t>(rate)]; }
// Elements with activations of other dims.
constexpr Kind kSpreads{"spreads", {87, 90, 77, 0, 70}, {49, 46, 36, 0, 55}};
constexpr Kind kInterpolates{"interpolates", {12, 29, 26}, {5, 15, 14}};  // resizes that are not nearest

bool is_activation(const Operand& operand) { return operand.present && !operand.constant && operand.desc.rank() >= 3; }

std::int64_t positions_of(const TensorDesc& desc) {
  std::int64_t positions = 1;
  for (int i = 2; i < desc.rank(); ++i) positions *= desc.dims[i];
  return positions;
}

Rate rate_of(const OpProblem& problem) {
  const OperatorRow* const row = find_row(problem.node.domain, problem.node.op);
  return row == nullptr ? Rate::others : row->rate;
}

const Kind& kind_of(const OpProblem& problem) {
  const Rate rate = rate_of(problem);
  const bool spreads = rate == Rate::elements && !problem.outputs.empty() &&
                       std::ranges::any_of(problem.inputs, [&](const Operand& input) {
                         return is_activation(input) && input.desc.dims != problem.outputs[0].dims;
                       });
  // From one layout to the other, a Transpose has nothing to do but copy.
  const bool copies = rate == Rate::transposes && problem.inputs.size() == 1 && problem.outputs.size() == 1 &&
                      problem.inputs[0].desc.layout() != problem.outputs[0].layout();
  if (rate == Rate::resizes) {
    const auto mode = problem.node.text("mode", "nearest");
    if (mode.ok() && *mode != "nearest") return kInterpolates;
  }
  return spreads ? kSpreads : kind_at(copies ? Rate::moves : rate);
}

// Bytes a second.
double bytes_a_second(const Kind& kind, const OpProblem& problem) {
  constexpr double kGiga = 1e9;
  const auto first = std::ranges::find_if(problem.inputs, is_activation);
  if (first == problem.inputs.end()) return kind.words.apart * kGiga;
  const TensorDesc& desc = first->desc;
  const std::size_t size = size_of(desc.type);
  const auto rate = [&](double Rates::*where) {
    if (size == 1 && kind.bytes.*where > 0) return kind.bytes.*where * kGiga;
    return (size <= 2 && kind.halves.*where > 0 ? kind.halves : kind.words).*where * kGiga;
  };
  const auto rate_of_rows = [&](bool are_short, double Rates::*where, double Rates::*where_short) {
    return are_short && rate(where_short) > 0 ? rate(where_short) : rate(where);
  };
  if (desc.channel_block > 1) return rate(&Rates::blocks);
  if (desc.is_packed(Layout::nchw)) return rate_of_rows(positions_of(desc) < 64, &Rates::apart, &Rates::short_apart);
  std::int64_t channels = desc.dims[1];
  for (const Operand& input : problem.inputs) {
    if (is_activation(input)) channels = std::min(channels, input.desc.dims[1]);
  }
  for (const TensorDesc& output : problem.outputs) {
    if (output.rank() >= 3) channels = std::min(channels, output.dims[1]);
  }
  return rate_of_rows(channels < 32, &Rates::side_by_side, &Rates::short_side_by_side);
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

double work_of(const OpProblem& problem) {
  if (rate_of(problem) == Rate::recurrent) return weights_read(problem);
  if (rate_of(problem) != Rate::windows || problem.outputs.empty()) return bytes_moved(problem);
  double work = static_cast<double>(problem.outputs[0].bytes());
  const auto window = problem.node.integers("kernel_shape", {});
  for (const std::int64_t size : window.ok() ? *window : std::vector<std::int64_t>()) {
    work *= static_cast<double>(size);
  }
  return work;
}

}  // namespace

std::string_view name_of(Rate rate) { return kind_at(rate).name; }

double predict_seconds(const OpProblem& problem, const PlanRequest& request) {
  const Kind& kind = kind_of(problem);
  const double bytes = bytes_moved(problem);
  const int threads = bytes < kOneThread ? 1 : std::max(1, request.threads);
  const double memory = bytes > static_cast<double>(request.cpu.l3_bytes) ? bytes / kMemory : 0;
  return kStart + std::max(work_of(problem) / (bytes_a_second(kind, problem) * threads), memory);
}

}  // namespace convoy::ops
