#include "core/configurations.h"

#include <algorithm>

#include "base/errors.h"
#include "convoy/engine.h"
#include "core/text.h"

namespace convoy {
namespace {

constexpr std::size_t kMostNamed = 12;  // configurations in an error

const KnobSetting* find(const KnobValues& values, std::string_view name) {
  const auto found = std::find_if(values.begin(), values.end(), [&](const KnobValue& v) { return v.name == name; });
  return found == values.end() ? nullptr : &found->value;
}

template <class Values, class Text>
std::string joined(const Values& values, Text text) {
  std::string all;
  for (const auto& value : values) all.append(all.empty() ? "" : ", ").append(text(value));
  return all;
}

// A value that no configuration has.
std::optional<Error> fault_of(const KnobValue& value, const std::vector<Knob>& knobs) {
  const auto knob = std::find_if(knobs.begin(), knobs.end(), [&](const Knob& k) { return k.name == value.name; });
  if (knob == knobs.end()) {
    if (knobs.empty()) return invalid("knob " + quoted(value.name) + ": this engine has no knobs for this problem");
    return invalid("knob " + quoted(value.name) + " is unknown; this engine has " +
                   joined(knobs, [](const Knob& each) { return each.name; }));
  }
  if (std::find(knob->values.begin(), knob->values.end(), value.value) != knob->values.end()) return std::nullopt;
  return invalid("knob " + value.name + "=" + print(value.value) + ": the values for this problem are " +
                 joined(knob->values, [](const KnobSetting& each) { return print(each); }));
}

}  // namespace

Configurations listed_configurations(std::vector<KnobValues> listed, std::vector<Knob> knobs) {
  for (Knob& knob : knobs) {
    for (const KnobValues& values : listed) {
      const KnobSetting* const value = find(values, knob.name);
      if (value == nullptr || std::find(knob.values.begin(), knob.values.end(), *value) != knob.values.end()) continue;
      knob.values.push_back(*value);
    }
  }
  std::erase_if(knobs, [](const Knob& knob) { return knob.values.empty(); });
  return {std::move(knobs), std::move(listed)};
}

KnobValues default_knobs(const Configurations& configurations) {
  if (!configurations.listed.empty()) return configurations.listed.front();
  KnobValues values;
  values.reserve(configurations.knobs.size());
  for (const Knob& knob : configurations.knobs) values.push_back({knob.name, knob.values.front()});
  std::sort(values.begin(), values.end(), [](const KnobValue& a, const KnobValue& b) { return a.name < b.name; });
  return values;
}

std::vector<KnobValues> all_of(const Configurations& configurations) {
  if (!configurations.listed.empty()) return configurations.listed;
  constexpr std::size_t kMost = 4096;
  std::vector<KnobValues> all{default_knobs(configurations)};
  for (const Knob& knob : configurations.knobs) {
    const std::size_t count = all.size() * knob.values.size() <= kMost ? all.size() : 1;
    for (std::size_t v = 1; v < knob.values.size(); ++v) {
      for (std::size_t i = 0; i < count; ++i) {
        KnobValues values = all[i];
        for (KnobValue& value : values) {
          if (value.name == knob.name) value.value = knob.values[v];
        }
        all.push_back(std::move(values));
      }
    }
  }
  return all;
}

Result<KnobValues> completed(const KnobValues& values, const Configurations& configurations) {
  for (const KnobValue& value : values) {
    if (auto fault = fault_of(value, configurations.knobs)) return *std::move(fault);
  }
  if (configurations.listed.empty()) {
    KnobValues all = default_knobs(configurations);
    for (KnobValue& each : all) {
      if (const KnobSetting* const given = find(values, each.name)) each.value = *given;
    }
    return all;
  }
  for (const KnobValues& each : configurations.listed) {
    const bool has_all = std::all_of(values.begin(), values.end(), [&](const KnobValue& value) {
      const KnobSetting* const own = find(each, value.name);
      return own != nullptr && *own == value.value;
    });
    if (has_all) return each;
  }
  std::vector<KnobValues> named = configurations.listed;
  const bool more = named.size() > kMostNamed;
  if (more) named.resize(kMostNamed);
  return invalid("these knob values don't go together; the configurations for this problem are " +
                 joined(named,
                        [](const KnobValues& each) {
                          return print(Candidate{"", each});
                        }) +
                 (more ? ", ..." : ""));
}

std::int64_t knob_or(const KnobValues& values, std::string_view name, std::int64_t fallback) {
  const KnobSetting* const setting = find(values, name);
  return setting != nullptr && setting->number() != nullptr ? *setting->number() : fallback;
}

std::string_view word_or(const KnobValues& values, std::string_view name, std::string_view fallback) {
  const KnobSetting* const setting = find(values, name);
  return setting != nullptr && setting->word() != nullptr ? std::string_view(*setting->word()) : fallback;
}

}  // namespace convoy
