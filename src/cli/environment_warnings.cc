#include "cli/environment_warnings.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/environment.h"
#include "core/nearest.h"
#include "device/onednn_api.h"

namespace convoy::cli {
namespace {

constexpr std::string_view kPrefix = "CONVOY_";

// Those that are near none are somebody else's. Compared without the prefix, which all have in common.
void add_misspelt(std::vector<std::string>& warnings) {
  std::vector<std::string> known;
  for (const EnvironmentVariable& variable : environment_variables()) {
    if (variable.name.starts_with(kPrefix)) known.emplace_back(variable.name.substr(kPrefix.size()));
  }
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    if (!name.starts_with(kPrefix)) continue;
    const std::string_view behind = name.substr(kPrefix.size());
    if (std::ranges::find(known, behind) != known.end()) continue;
    const std::vector<std::string> near = nearest_names(behind, known);
    if (near.empty()) continue;
    warnings.push_back(fmt::format("{} is no variable of Convoy's; did you mean {}{}?", name, kPrefix, near.front()));
  }
}

}  // namespace

std::vector<std::string> environment_warnings() {
  std::vector<std::string> warnings;
  const std::string_view onednn = describe(Variable::onednn).name;
  for (std::string& fault : environment_faults()) {
    if (!fault.starts_with(onednn)) warnings.push_back(std::move(fault));
  }
  if (environment(Variable::onednn)) {
    for (const LibraryAttempt& each : onednn::library().others) {
      warnings.push_back(
          fmt::format("{}={}: {}; the oneDNN that comes with Convoy is used", each.from, each.file, each.why_not));
    }
  }
  add_misspelt(warnings);
  return warnings;
}

}  // namespace convoy::cli
