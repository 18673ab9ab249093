// Environment variables that Convoy doesn't read but that change what the libraries below it do: cuDNN, oneDNN, OpenMP.
// They are passed on untouched, shown by `convoy doctor`, and where they change results they are part of the keys.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace convoy {

enum class ProviderEffect { results, speed, logs };

struct ProviderVariable {
  std::string_view name;  // "ONEDNN_MAX_CPU_ISA"; its older name DNNL_MAX_CPU_ISA has a row of its own
  ProviderEffect effect;
  std::string_view meaning;
};
std::span<const ProviderVariable> provider_variables();
std::string_view name_of(ProviderEffect effect);  // "results", "speed", "logs"

struct SetVariable {
  std::string name, value;
  const ProviderVariable* known = nullptr;  // null: one with a provider's prefix that this table doesn't have
};
// Those that are set in this process, sorted by name.
std::vector<SetVariable> set_provider_variables();

// Those that change results (unknown ones may, so they count), as a key has them: "ONEDNN_MAX_CPU_ISA=AVX2", with
// spaces between; empty where none is set. Read once: the libraries do so too.
const std::string& result_changing_environment();

}  // namespace convoy
