// The cuDNN that the program itself uses.
#pragma once

#include <string>

#include "device/cuda/cudnn.h"

namespace convoy::interposer {

// The functions of the program's cuDNN, found on first use: a library of that name that is loaded already, else the one
// that the loader finds. A function that it lacks is null. `version` is 0 where there is no cuDNN at all.
const cuda::CudnnApi& real();

// The file of it, libcudnn.so.9 in the folder of its functions; empty where there is none.
std::string real_file();

// The file of a cuDNN that is in the process, libcudnn.so.9 or a part of it; empty: there is none. Looks for none.
std::string loaded_file();

// One that the table does not have; null: cuDNN lacks it.
void* real_function(const char* name);

}  // namespace convoy::interposer
