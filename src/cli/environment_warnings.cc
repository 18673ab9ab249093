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

// Those that are near none are somebody else's.
void add_misspelt(std::vector<std::string>& warnings) {
  std::vector<std::string> known;
  for (const EnvironmentVariable& variable : environment_variables()) known.emplace_back(variable.name);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    if (!name.starts_with(kPrefix) || std::ranges::find(known, name) != known.end()) continue;
    const std::string meant = did_you_mean(name, known);
    if (!meant.empty()) warnings.push_back(fmt::format("{} is no variable of Convoy's{}", name, meant));
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
