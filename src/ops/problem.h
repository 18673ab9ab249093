// An operator of a network as a problem: what its time depends on, and the string of that.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/operator.h"

namespace convoy::ops {

// An input as a problem knows it.
struct Operand {
  bool present = false;
  TensorDesc desc;
  bool constant = false;              // known when it is planned
  std::shared_ptr<std::byte> values;  // of a constant, as desc lays them out, without gaps; null: any will do
};

// A node without its name, which changes nothing.
struct OpProblem {
  NodeDesc node;
  std::vector<Operand> inputs;
  std::vector<TensorDesc> outputs;
};

// Constants of at most so many elements are part of a problem with their values, which may be sizes, axes or scales
// that decide what is computed (a Pad of 5 dims has 10); larger ones are weights or tables, whose values decide
// nothing.
inline constexpr std::int64_t kMostValues = 16;

// The problem of a node, as it is planned.
OpProblem describe(const NodeDesc& node, std::span<const Input> inputs, std::span<const TensorDesc> outputs);

// The problem string. It loses nothing of a problem that describe() made: parse(print(p)) == p, and print(parse(s)) is
// the same for all ways to write p. Fields are separated by ':' and need no quoting in a shell.
//   op:MaxPool:x=f32,1x64x112x112,nhwc:y=f32,1x64x56x56,nhwc:@kernel_shape=ints,3,3:@strides=ints,2,2
//   inputs      x, x1, x2 ...: TYPE,DIMS,LAYOUT[,align=N] as in a convolution's string, or TYPE,scalar; none (absent);
//               with ",constant", or with ",values=1/1/2/2" in the order of memory
//   outputs     y, y1, y2 ...; may be left out on input: then they are what the operator gives, in x's layout
//   attributes  @NAME=KIND,VALUES; KIND is int, real, text, ints, reals, texts or tensor (TENSOR,values=...)
//   domain=com.microsoft, opset=11 (13 where left out)
// Characters of names and texts that are not letters, digits, '_', '.' or '-' are written %XX.
std::string print(const OpProblem& problem);
bool is_operator_string(std::string_view text);  // begins with "op:"
// Errors name the field: "x1: 'f31' is not one of ...", "@axes: 'a' is not an integer". The operator must be known.
Result<OpProblem> parse_operator(std::string_view text);

// What a node is inferred and planned with. It points into the problem.
std::vector<Input> inputs_of(const OpProblem& problem);

// Asks the operator whether that is a node of it: fills in outputs that are missing, and says which field is wrong
// where those given have other types or dims than it gives.
Result<void> complete(OpProblem& problem);

// Bytes of all inputs and outputs, each once.
double bytes_moved(const OpProblem& problem);

// What it is predicted to take (prediction.cc says how wrong that is).
double predict_seconds(const OpProblem& problem, const PlanRequest& request);

}  // namespace convoy::ops
