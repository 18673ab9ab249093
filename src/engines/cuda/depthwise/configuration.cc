// Designs as named configurations.
#include <algorithm>
#include <array>

#include "engines/cuda/depthwise/design.h"

namespace convoy::cuda {
namespace {

constexpr const char* kKernel = "kernel";

struct Field {
  const char* name;
  std::int64_t DepthwiseDesign::*number;
};

struct KernelFields {
  const char* word;
  std::array<Field, 4> fields;  // in the order of their names; null: no more
};

// In the order of DepthwiseKernel.
constexpr std::array<KernelFields, 8> kKernels = {{
    {"general", {}},
    {"patch",
     {{{"channels", &DepthwiseDesign::vector},
       {"columns", &DepthwiseDesign::columns},
       {"rows", &DepthwiseDesign::rows}}}},
    {"rolling", {{{"columns", &DepthwiseDesign::columns}, {"rows", &DepthwiseDesign::rows}}}},
    {"planes", {{{"columns", &DepthwiseDesign::columns}, {"rows", &DepthwiseDesign::rows}}}},
    {"mma",
     {{{"channels", &DepthwiseDesign::vector},
       {"columns", &DepthwiseDesign::columns},
       {"rows", &DepthwiseDesign::rows}}}},
    {"plane_bands",
     {{{"channels", &DepthwiseDesign::columns},
       {"images", &DepthwiseDesign::vector},
       {"rows", &DepthwiseDesign::rows}}}},
    {"pixel_bands",
     {{{"channels", &DepthwiseDesign::vector},
       {"rows", &DepthwiseDesign::rows},
       {"unroll", &DepthwiseDesign::unroll},
       {"warp_channels", &DepthwiseDesign::columns}}}},
    {"signal",
     {{{"channels", &DepthwiseDesign::vector},
       {"positions", &DepthwiseDesign::columns},
       {"tiles", &DepthwiseDesign::rows}}}},
}};
static_assert(kKernels.size() == static_cast<std::size_t>(DepthwiseKernel::signal) + 1);

}  // namespace

KnobValues configuration_of(const DepthwiseDesign& design) {
  const KernelFields& kernel = kKernels[static_cast<std::size_t>(design.kernel)];
  KnobValues values = {KnobValue{kKernel, kernel.word}};
  for (const Field& field : kernel.fields) {
    if (field.name != nullptr) values.push_back({field.name, design.*field.number});
  }
  std::sort(values.begin(), values.end(), [](const KnobValue& a, const KnobValue& b) { return a.name < b.name; });
  return values;
}

DepthwiseDesign design_of(const KnobValues& configuration) {
  DepthwiseDesign design;
  const std::string_view word = word_or(configuration, kKernel, kKernels[0].word);
  for (std::size_t i = 0; i < kKernels.size(); ++i) {
    if (kKernels[i].word != word) continue;
    design.kernel = static_cast<DepthwiseKernel>(i);
    for (const Field& field : kKernels[i].fields) {
      if (field.name != nullptr) design.*field.number = knob_or(configuration, field.name, 1);
    }
  }
  return design;
}

std::vector<DeclaredKnob> depthwise_knobs() {
  std::vector<DeclaredKnob> knobs = {{kKernel, {}}};
  for (const KernelFields& kernel : kKernels) {
    knobs.front().words.emplace_back(kernel.word);
    for (const Field& field : kernel.fields) {
      const bool known =
          field.name == nullptr ||
          std::any_of(knobs.begin(), knobs.end(), [&](const DeclaredKnob& knob) { return knob.name == field.name; });
      if (!known) knobs.push_back({field.name});
    }
  }
  return knobs;
}

Configurations configurations_of(const std::vector<DepthwiseDesign>& designs) {
  std::vector<KnobValues> listed;
  listed.reserve(designs.size());
  for (const DepthwiseDesign& design : designs) listed.push_back(configuration_of(design));
  return listed_configurations(
      std::move(listed),
      {{kKernel, {}, "docs/cuda-kernels.md says which is for what"},
       {"rows", {}, "of a thread's patch, of a block's (mma), of a band"},
       {"columns", {}, "of a thread's patch, of a block's (mma)"},
       {"channels", {}, "of a thread, of a warp (mma), of a block (plane_bands, pixel_bands, signal)"},
       {"images", {}, "of a block"},
       {"warp_channels", {}, "channels of a warp"},
       {"unroll", {}, "units of rows a step"},
       {"tiles", {}, "of a block"},
       {"positions", {}, "of a tile"}});
}

}  // namespace convoy::cuda
