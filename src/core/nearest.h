// "Did you mean ...?": for errors about a name that does not exist.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace convoy {

// Those of `names` that `written` may stand for, the nearest first, at most three: by the letters that were added, left
// out, changed or swapped (at most one in three; upper and lower case are the same), or the last part of a name
// ("gemm" of "cpu.gemm", "resnet18" of "zoo:resnet18").
std::vector<std::string> nearest_names(std::string_view written, std::span<const std::string> names);

// "; did you mean cpu.gemm or onednn.gemm?" Empty where nothing is near.
std::string did_you_mean(std::string_view written, std::span<const std::string> names);

}  // namespace convoy
