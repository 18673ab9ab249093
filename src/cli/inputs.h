// The inputs of a network from files: which file goes where, which sizes the free dims get, how files become tensors.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/program.h"
#include "io/nifti.h"
#include "io/picture_input.h"
#include "io/volume_input.h"

namespace convoy::cli {

struct InputFlags {
  std::vector<std::string> inputs;  // NAME=FILE, or FILE for a model with one input
  std::vector<std::string> dims;    // DIM=VALUE; DIM is a dim's symbolic name or INPUT:AXIS
  bool random = false;              // fill what no file is given for
  std::string resize = "exact";
  std::string layout = "auto";
  bool bgr = false;
  std::vector<double> mean, std;
  double scale = 0;
  std::string volume_axes = "xyz";
  std::string normalize = "minmax";
};
void add_input_flags(CLI::App& app, InputFlags& flags);
void add_dim_flag(CLI::App& app, InputFlags& flags);

struct PreparedInput {
  HostTensor tensor;
  std::string source;                            // file name, or "random"
  std::vector<std::string> remarks;              // what was done to it that a person may want to know
  std::optional<io::NiftiHeader> volume_header;  // of an input that was a volume
};

// One per network input. Errors name the input, the file and the sizes; missing inputs are listed all at once.
Result<std::vector<PreparedInput>> read_inputs(const Network& network, const InputFlags& flags);

// Concrete descriptions with no data at hand: --dim first, then what the model proposes, 1 for a free batch (first)
// dim; other free dims are an error.
Result<std::vector<TensorDesc>> input_descriptions(const Network& network, const InputFlags& flags);

// Reproducible random values for a description.
Result<HostTensor> random_tensor(const TensorDesc& desc, std::uint64_t seed);

// "data f32 Nx3x224x224"
std::string describe(const NetworkValue& value);

}  // namespace convoy::cli
