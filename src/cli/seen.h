// What `convoy exec` saw of its program's cuDNN, from the files that the processes left (src/interposer/seen.h).
#pragma once

#include <set>
#include <string>

namespace convoy::cli {

struct Seen {
  std::set<int> versions;  // of the cuDNNs that were called: 91900
  std::string why_not;     // nothing was: which process had which cuDNN, and what can't be seen
};

Seen seen_in(const std::string& folder);

}  // namespace convoy::cli
