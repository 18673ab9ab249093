// What a run says about its outputs: the best classes, labels by argmax, files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/inputs.h"

namespace convoy::cli {

struct OutputFlags {
  std::string folder;  // empty: nothing is written
  int top = 0;
  std::string labels_file;
  bool argmax = false;
  std::vector<std::string> labels;  // of labels_file, once prepare_outputs has read it
};
void add_output_flags(CLI::App& app, OutputFlags& flags);

// Reads the labels and makes the folder: what can go wrong before a long run goes wrong before it.
Result<void> prepare_outputs(OutputFlags& flags);

struct RankedClass {
  std::int64_t index = 0;
  double probability = 0;
  std::string label;  // may be empty
};

// The most probable classes of one item of the batch. softmax: the values were not probabilities (all >= 0 with a sum
// of 1) and the softmax of them was taken.
struct Ranking {
  std::vector<RankedClass> classes;
  bool softmax = false;
};
Result<std::vector<Ranking>> rank_classes(const HostTensor& output, int top, const std::vector<std::string>& labels);

// Index of the largest value along axis 1 (ties: the lowest), as s32 without that axis; and how often each occurs.
struct Labels {
  HostTensor tensor;
  std::vector<std::int64_t> counts;
};
Result<Labels> argmax_labels(const HostTensor& output);

// Prints, writes and describes every output.
Result<Json> report_outputs(const Program& program, const Network& network, const std::vector<HostTensor>& outputs,
                            const std::vector<PreparedInput>& inputs, const InputFlags& input_flags,
                            const OutputFlags& flags);

}  // namespace convoy::cli
