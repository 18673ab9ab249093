#include "cli/output_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "io/file.h"

namespace convoy::cli {
namespace {

// A file name from a name that may hold anything; empty where nothing of it can be kept.
std::string plain(const std::string& name) {
  std::string text;
  for (const char c : name.substr(0, 100)) {
    const bool kept = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
    text += kept ? c : '_';
  }
  return text;
}

}  // namespace

OutputNames::OutputNames(const Network& network, bool several_samples) : several_(several_samples) {
  for (std::size_t i = 0; i < network.outputs().size(); ++i) {
    std::string stem = plain(network.outputs()[i].name);
    if (stem.empty() || stem[0] == '.') stem = fmt::format("output_{}{}", i, stem);
    if (std::find(outputs_.begin(), outputs_.end(), stem) != outputs_.end()) stem += fmt::format("_{}", i);
    outputs_.push_back(stem);
  }
}

std::vector<std::string> OutputNames::next(const Sample& sample) {
  if (!several_) return outputs_;
  std::string file = std::filesystem::path(sample.name).filename();
  file.resize(file.size() - std::min(file.size(), io::lower_extension(file).size() + 1));
  file = plain(file);
  if (file.empty() || file[0] == '.') file = "input" + file;
  std::string name = file;
  for (int n = 2; !taken_.insert(name).second; ++n) name = fmt::format("{}_{}", file, n);
  std::vector<std::string> names;
  for (const std::string& output : outputs_) names.push_back(name + "." + output);
  return names;
}

}  // namespace convoy::cli
