// cuDNN's last words on a thread. Reading them takes them away from the program, so what is read here is kept for it.
#pragma once

#include <cudnn.h>

#include <cstddef>
#include <string>

#include "engines/cudnn/descriptor.h"

namespace convoy::interposer {

// Of the call that failed on this thread a moment ago, in one line: "CUDNN_STATUS_BAD_PARAM (2000), nbDims !=
// nbStrides".
cudnn::Failure failure_of(cudnnStatus_t status);
// All that cuDNN said of it, as it said it. After failure_of(), on the same thread.
std::string all_words();

// The program asks itself.
void give_words(char* text, std::size_t size);

}  // namespace convoy::interposer
