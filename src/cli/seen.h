// What `convoy exec` saw of its program's cuDNN and torch, from the files that the processes left
// (src/interposer/seen.h).
#pragma once

#include <set>
#include <string>
#include <vector>

namespace convoy::cli {

struct Seen {
  std::set<int> versions;             // of the cuDNNs that were called: 91900
  std::string why_not;                // nothing was: which process had which cuDNN, and what can't be seen
  int channels_last = 0;              // weights that --channels-last laid so
  std::vector<std::string> unhooked;  // Python processes with torch whose own convolutions are not seen, and why
};

Seen seen_in(const std::string& folder);

}  // namespace convoy::cli
