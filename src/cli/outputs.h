// What a run says about its outputs: their ranges, the best classes, labels, files.
#pragma once

#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/classes.h"
#include "cli/inputs.h"
#include "cli/label_map.h"
#include "cli/output_form.h"
#include "cli/output_names.h"
#include "cli/output_pictures.h"

namespace convoy::cli {

struct OutputFlags {
  std::string folder;  // empty: nothing is written
  int top = 0;
  std::string labels_file;
  bool argmax = false;
  std::optional<double> threshold;
  std::string layout = "auto";
  std::vector<double> range;        // black, white; empty: by the values
  std::vector<std::string> labels;  // of labels_file, once prepare_outputs has read it
  // Classes, labels or files: an answer, for which one run is enough.
  bool asked() const { return !folder.empty() || top > 0 || !labels_file.empty() || argmax; }
};
void add_output_flags(Parser app, OutputFlags& flags);

// Reads the labels and makes the folder: what can go wrong before a long run goes wrong before it. Labels without
// --top and --argmax mean --top 5.
Result<void> prepare_outputs(OutputFlags& flags);

// The outputs of one sample after another; files are written at once, text when all are there.
class OutputReport {
 public:
  OutputReport(const Program& program, const Network& network, const OutputFlags& flags, const InputFlags& input_flags,
               bool several_samples);

  // Errors: no output is what --top or --argmax need, a file can't be written.
  Result<void> add(const Sample& sample, const std::vector<HostTensor>& outputs);
  void say() const;
  // The outputs of each sample.
  const std::vector<Json>& json() const { return json_; }

 private:
  // The finite values of an output: from `low` to `high`, or low > high where there are none.
  struct Range {
    double low = std::numeric_limits<double>::infinity();
    double high = -std::numeric_limits<double>::infinity();
    std::int64_t not_finite = 0;
  };
  // Of an output over all samples.
  struct Seen {
    DataType type = DataType::f32;
    Dims dims;
    bool same_dims = true;
    Range range;
    std::vector<std::string> files;
  };
  struct Ranked {
    std::string name;
    Ranking ranking;
  };
  struct Labelled {
    std::string name;
    std::string output;
    std::string rule;
    std::vector<std::int64_t> counts;
  };

  static Range look_at(const HostTensor& output, Seen& seen, Json& json);
  Result<void> rank(const Sample& sample, const std::vector<HostTensor>& outputs, const std::vector<OutputForm>& forms,
                    Json& json);
  Result<void> label(const Sample& sample, std::size_t index, const HostTensor& output, const OutputForm& form,
                     const std::string& stem, Json& json);
  Result<void> write_pictures(const OutputPictures& pictures, const std::string& stem, Json& json);
  void say_rankings() const;
  void say_labels() const;

  const Program& program_;
  const Network& network_;
  const OutputFlags& flags_;
  const InputFlags& input_flags_;
  bool several_;
  OutputNames names_;
  std::vector<Seen> seen_;
  std::string ranked_output_;
  std::vector<Ranked> rankings_;
  std::vector<Labelled> labels_;
  std::map<std::string, std::vector<std::string>> pictures_;  // by how they were made
  std::vector<Json> json_;
};

}  // namespace convoy::cli
