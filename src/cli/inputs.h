// The inputs of a network from files: which file goes where, which sizes the free dims get, how files become tensors.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/picture_flags.h"
#include "cli/program.h"
#include "io/nifti.h"
#include "io/volume_input.h"

namespace convoy::cli {

struct InputFlags {
  std::vector<std::string> inputs;  // NAME=FILE, or FILE for a model with one input; also folders and patterns
  std::vector<std::string> files;   // the same, without a flag in front
  std::vector<std::string> dims;    // DIM=VALUE; DIM is a dim's symbolic name or INPUT:AXIS
  bool random = false;              // fill what no file is given for
  int batch = 0;                    // 0: not given
  PictureFlags picture;
  std::string volume_axes = "xyz";
  std::string normalize = "minmax";
};
void add_input_flags(Parser app, InputFlags& flags);
void add_dim_flag(Parser app, InputFlags& flags);

struct PreparedInput {
  HostTensor tensor;
  std::string source;                            // file name, or "random"
  std::vector<std::string> remarks;              // what was done to it that a person may want to know
  std::optional<io::NiftiHeader> volume_header;  // of an input that was a volume
  std::optional<io::Picture> picture;            // of one that was a picture, at the input's size, in colour
};

// What the network gives one answer to: a file for each of its inputs.
struct Sample {
  std::string name;                   // the file that tells it from the others; "random" without any
  std::vector<PreparedInput> inputs;  // one per network input
};

// The files given for a network's inputs, read one sample at a time. An input with one file has it in every sample.
class InputReader {
 public:
  // Errors name the input, the file and the sizes; missing inputs are listed all at once. Nothing is read yet.
  static Result<InputReader> open(const Network& network, const InputFlags& flags);

  std::size_t samples() const { return samples_; }
  // Items of a run: --batch, else what the model or --dim fixes; 0: whatever the samples have.
  std::int64_t batch() const { return batch_; }
  const std::vector<std::string>& remarks() const { return remarks_; }

  // The tensors of a sample: with a batch of their own (a file that holds several items) or of 1.
  Result<Sample> read(std::size_t index) const;

 private:
  Result<void> apply_batch();
  Result<PreparedInput> read_file(const std::string& path, std::size_t input) const;
  Result<void> fit_tensor(PreparedInput& input, std::size_t index) const;

  const Network* network_ = nullptr;
  const InputFlags* flags_ = nullptr;
  PictureSettings picture_;
  io::VolumeOptions volume_;
  std::vector<Dims> dims_;  // of every input with --dim and --batch applied, -1 where free
  std::map<std::size_t, std::vector<std::string>> files_;  // of each input that has some
  std::size_t samples_ = 1;
  std::int64_t batch_ = 0;
  std::vector<std::string> remarks_;
};

// Whether a network input's first dim is a batch: of two dims, of four or more, and of three where it is free.
bool has_batch(const NetworkValue& input);

// Concrete descriptions with no data at hand: --dim first, then what the model proposes, 1 for a free batch (first)
// dim; other free dims are an error.
Result<std::vector<TensorDesc>> input_descriptions(const Network& network, const InputFlags& flags);

// Reproducible random values for a description.
Result<HostTensor> random_tensor(const TensorDesc& desc, std::uint64_t seed);

// "data f32 Nx3x224x224"
std::string describe(const NetworkValue& value);

}  // namespace convoy::cli
