#include "cli/seen.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

namespace convoy::cli {

Seen seen_in(const std::string& folder) {
  Seen seen;
  std::vector<std::string> loaded;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string pid = entry.path().filename().string();
    std::ifstream file(entry.path());
    std::string torch, hook;
    for (std::string word; std::getline(file, word, '\t');) {
      std::string what, program;
      std::getline(file, what, word == "loaded" ? '\t' : '\n');
      if (word == "called") seen.versions.insert(std::atoi(what.c_str()));
      if (word == "channels-last") seen.channels_last += std::atoi(what.c_str());
      if (word == "torch") torch = what;
      if (word == "hook") hook = what;  // the last one counts
      if (word != "loaded") continue;
      std::getline(file, program);
      loaded.push_back(fmt::format("process {} ({}) loaded {}", pid, program, what));
    }
    if (torch.empty() ? !hook.empty() && hook != "on" : hook != "on") {
      seen.unhooked.push_back(fmt::format(
          "process {} ({}): {}", pid, torch.empty() ? "python" : torch,
          hook.empty()
              ? "its Python is older than 3.9, was started with -S, or with -I or -E and has no Convoy installed"
              : hook));
    }
  }
  std::sort(seen.unhooked.begin(), seen.unhooked.end());
  if (!seen.versions.empty()) return seen;
  if (loaded.empty()) {
    seen.why_not =
        "none of its processes had a libcudnn in it when it ended. Not counted are processes that a signal ended, and "
        "those that LD_PRELOAD does not reach: another user's (setuid), in a container, started without the "
        "environment, or linked statically";
    return seen;
  }
  std::sort(loaded.begin(), loaded.end());
  constexpr std::size_t kShown = 5;
  for (std::size_t i = 0; i < std::min(loaded.size(), kShown); ++i) seen.why_not += (i > 0 ? "; " : "") + loaded[i];
  if (loaded.size() > kShown) seen.why_not += fmt::format("; and {} more", loaded.size() - kShown);
  seen.why_not +=
      ", and called none of the functions that Convoy sees (cuDNN's backend API and the older interface's "
      "convolutions). "
      "Convoy does not see calls from a library that was opened with RTLD_DEEPBIND or linked with -Bsymbolic, nor "
      "functions that are looked up by dlvsym, or by dlsym where the process has cuDNN from two folders";
  return seen;
}

}  // namespace convoy::cli
