// A graph that ONNX Runtime hands over, as an ONNX model.
#pragma once

#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ort/calls.h"

namespace convoy::ort {

// Initializers and memory for their values, which may be somebody else's.
struct Weights {
  Weights() = default;
  Weights(Weights&&) = default;  // no copies: pointers go to `names`
  Weights& operator=(Weights&&) = default;

  std::vector<convoy_initializer> initializers;
  std::deque<std::string> names;  // that they point to
  std::shared_ptr<void> memory;   // null: somebody else's

  void add(std::string name, const void* data, std::size_t bytes);
  // The same values in memory of their own, each aligned to 64 bytes. Error: out_of_memory.
  Result<Weights> copied() const;
};

struct GraphModel {
  std::string onnx;                 // without the values of `weights`
  Weights weights;                  // in ONNX Runtime's memory
  std::vector<std::string> inputs;  // that are no constants, in the model's order
  std::vector<std::string> outputs;
  std::vector<TensorInfo> input_infos;  // as they are declared
  bool fixed = true;                    // whether inputs always have these sizes
  std::string plan;                     // of a model that was compiled before
};

// `checked` are the inputs whose declared sizes ONNX Runtime sees to: those of the whole model. Others may differ from
// what is declared: exporters write wrong sizes into bodies, and nobody minds. `unsupported` where it has what no ONNX
// model of tensors has: sequences, bodies that are graphs of their own.
Result<GraphModel> model_of(const Api& api, const OrtGraph* graph, const std::set<std::string>& checked);

Result<std::vector<const OrtValueInfo*>> inputs_of(const Api& api, const OrtNode* node);
Result<std::vector<const OrtValueInfo*>> outputs_of(const Api& api, const OrtNode* node);
// Of an input or output that a node leaves out: "".
Result<std::string> name_of(const Api& api, const OrtValueInfo* value);

}  // namespace convoy::ort
