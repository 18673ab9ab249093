// Modules of the fake driver: libraries of this processor, whose path is the image (generate/testing/fake_nvrtc.cc).
#pragma once

#include <cuda.h>

#include <functional>

// What a launch of the function does, with the values that its parameters have now; nothing where it is of no module.
std::function<CUresult()> fake_launch(CUfunction function, const CUlaunchConfig& config, void** parameters);
