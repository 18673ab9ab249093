// What a recorded program asked of cuDNN and did not get: shown, and kept in a folder with a script for each
// convolution.
#pragma once

#include <string>

#include "cli/program.h"
#include "report/record.h"

namespace convoy::cli {

// To standard error, the most important ones; all of them to FOLDER/diagnosis.txt, and to FOLDER a PyTorch script for
// each failing convolution that PyTorch has. Without a failure nothing is written, and that is said. `who`: "convoy
// exec".
Result<void> say_diagnosis(const Program& program, const report::Record& record, const std::string& folder,
                           const std::string& who);

}  // namespace convoy::cli
