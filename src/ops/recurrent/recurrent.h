// LSTM, GRU and RNN: what the operators have read of a node (recurrent.cc), and the plan that computes it
// (recurrent_plan.cc).
#pragma once

#include <array>

#include "ops/operator.h"

namespace convoy::ops {

enum class Cell : std::uint8_t { rnn, gru, lstm };

// An activation of ONNX's recurrent layers; `a` and `b` are its alpha and beta.
struct CellActivation {
  enum Kind : std::uint8_t {
    relu,
    tanh,
    sigmoid,
    affine,
    leaky_relu,
    thresholded_relu,
    scaled_tanh,
    hard_sigmoid,
    elu,
    softsign,
    softplus,
  };
  Kind kind = tanh;
  double a = 0, b = 0;
};

struct Recurrence {
  Cell cell = Cell::rnn;
  std::int64_t steps = 0, batch = 0, inputs = 0, hidden = 0;
  int directions = 1;
  bool first_reversed = false;       // direction 0 runs from each sequence's end; direction 1 always does
  bool batch_first = false;          // layout=1
  bool input_forget = false;         // LSTM: f = 1 - i
  bool linear_before_reset = false;  // GRU: r multiplies what R has been applied to
  double clip = 0;                   // of what the gates' activations get; 0: none
  std::array<std::array<CellActivation, 3>, 2> activations;  // by direction: f, g, h

  // Gates in the order of W's rows: LSTM i, o, f, c; GRU z, r, h.
  int gates() const { return cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : 1; }
};

// The inputs of all three operators, and the outputs; the last two inputs and the last output are LSTM's.
enum RecurrentInput { kX, kW, kR, kB, kSequenceLens, kInitialH, kInitialC, kP };
enum RecurrentOutput { kY, kYH, kYC };

// For f32 and f64.
Result<std::unique_ptr<OpPlan>> plan_recurrence(const NodeDesc& node, const Recurrence& recurrence,
                                                std::span<const Input> inputs, const PlanRequest& request);

// An error where a length is below 0 or above the steps.
Result<void> check_sequence_lens(const std::string& op, std::span<const std::int32_t> lens, std::int64_t steps);

}  // namespace convoy::ops
