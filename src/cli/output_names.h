// What files of outputs are called: OUTPUT.npy, or SAMPLE.OUTPUT.npy where there are several samples.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "cli/inputs.h"

namespace convoy::cli {

class OutputNames {
 public:
  OutputNames(const Network& network, bool several_samples);

  // The next sample's names without folder and extension, one an output. Samples of the same name are told apart by a
  // number: call it once a sample, in their order.
  std::vector<std::string> next(const Sample& sample);

 private:
  std::vector<std::string> outputs_;
  bool several_;
  std::set<std::string> taken_;
};

}  // namespace convoy::cli
