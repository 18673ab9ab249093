// A network's outputs beside those of another network, or of another run that wrote them to files.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/batch.h"
#include "cli/output_form.h"
#include "cli/output_names.h"
#include "report/listing.h"

namespace convoy::cli {

// How far one output is from its counterpart, over all samples.
struct OutputDifference {
  double largest = 0;            // |a - b|; infinite where only one of them is a number
  double largest_magnitude = 0;  // of the counterpart's finite values
  std::int64_t at = 0;           // element of the largest difference, in the sample of that name
  std::string sample;
  double dot = 0, squares = 0, other_squares = 0;
  std::int64_t agree = 0, decisions = 0;  // items (of a map: points) with the same largest class, and all of them

  double cosine() const;  // 1 for the same direction; not a number where one of them is 0 everywhere
};

// Adds a pair of outputs of the same dims. `input` says which of them are lists of classes or maps.
void add_difference(OutputDifference& difference, const HostTensor& output, const HostTensor& other,
                    const InputForm& input, const std::string& sample);

class OutputComparison {
 public:
  // `other`: an ONNX file or zoo:NAME, which gets the same inputs; a tensor file (.npy, .pb) for the only output of the
  // only sample, OUTPUT=FILE where there are several outputs; or a folder with files as --output-dir writes them
  // (NAME.npy), or output_0.pb, output_1.pb and so on.
  static Result<std::unique_ptr<OutputComparison>> open(const Program& program, const Network& network,
                                                        const NetworkOptions& options, const std::string& other,
                                                        bool several_samples);
  virtual ~OutputComparison() = default;

  // A batch's outputs, one list a sample. Errors name both sides' sizes where they differ.
  Result<void> add(const Batch& batch, const std::vector<std::vector<HostTensor>>& outputs);
  // Prints it; what is returned is for programs.
  Json say() const;

 protected:
  OutputComparison(const Program& program, const Network& network, std::string other)
      : program_(program), network_(network), name_(std::move(other)) {
    for (const NetworkValue& output : network.outputs()) differences_.push_back({output.name});
  }

  // The other side's outputs of each sample, in the order of this network's; without data where it has none.
  virtual Result<std::vector<std::vector<HostTensor>>> others(const Batch& batch) = 0;

  const Program& program_;
  const Network& network_;
  std::string name_;

 private:
  struct Compared {
    std::string name;
    OutputDifference difference = {};
    std::int64_t samples = 0;
    Dims dims = {};
  };
  static report::Listing<Compared> listing();
  std::vector<Compared> differences_;
};

}  // namespace convoy::cli
