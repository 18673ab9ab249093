#include "engines/cudnn/names.h"

#include <fmt/format.h>

#include <array>
#include <span>

#include "convoy/engine.h"
#include "core/notes.h"
#include "core/text.h"

namespace convoy::cudnn {
namespace {

// In the order of the header's numbers, which start at 0 and have no gaps.
constexpr std::array<std::string_view, 10> kNumericalNotes = {"TENSOR_CORE",
                                                              "DOWN_CONVERT_INPUTS",
                                                              "REDUCED_PRECISION_REDUCTION",
                                                              "FFT",
                                                              "NONDETERMINISTIC",
                                                              "WINOGRAD",
                                                              "WINOGRAD_TILE_4x4",
                                                              "WINOGRAD_TILE_6x6",
                                                              "WINOGRAD_TILE_13x13",
                                                              "STRICT_NAN_PROP"};
constexpr std::array<std::string_view, 5> kBehaviourNotes = {"RUNTIME_COMPILATION", "REQUIRES_FILTER_INT8x32_REORDER",
                                                             "REQUIRES_BIAS_INT8x32_REORDER",
                                                             "SUPPORTS_CUDA_GRAPH_NATIVE_API", "CUBLASLT_DEPENDENCY"};
// Of 9.28, whose header has two more than that of 9.19.
constexpr std::array<std::string_view, 46> kKnobs = {"SPLIT_K",
                                                     "SWIZZLE",
                                                     "TILE_SIZE",
                                                     "USE_TEX",
                                                     "EDGE",
                                                     "KBLOCK",
                                                     "LDGA",
                                                     "LDGB",
                                                     "CHUNK_K",
                                                     "SPLIT_H",
                                                     "WINO_TILE",
                                                     "MULTIPLY",
                                                     "SPLIT_K_BUF",
                                                     "TILEK",
                                                     "STAGES",
                                                     "REDUCTION_MODE",
                                                     "CTA_SPLIT_K_MODE",
                                                     "SPLIT_K_SLC",
                                                     "IDX_MODE",
                                                     "SLICED",
                                                     "SPLIT_RS",
                                                     "SINGLEBUFFER",
                                                     "LDGC",
                                                     "SPECFILT",
                                                     "KERNEL_CFG",
                                                     "WORKSPACE",
                                                     "TILE_CGA",
                                                     "TILE_CGA_M",
                                                     "TILE_CGA_N",
                                                     "BLOCK_SIZE",
                                                     "OCCUPANCY",
                                                     "ARRAY_SIZE_PER_THREAD",
                                                     "NUM_C_PER_BLOCK",
                                                     "SPLIT_COLS",
                                                     "TILE_ROWS",
                                                     "TILE_COLS",
                                                     "LOAD_SIZE",
                                                     "CTA_COUNT",
                                                     "STREAM_K",
                                                     "SPLIT_P_SLC",
                                                     "TILE_M",
                                                     "TILE_N",
                                                     "WARP_SPEC_CFG",
                                                     "SWAP_AB",
                                                     "INPUT_TMA_ENABLE",
                                                     "OUTPUT_TMA_ENABLE"};

constexpr std::string_view kNewerNote = "NOTE_";
constexpr std::string_view kNewerBehaviour = "BEHAVIOUR_";

std::string name_in(std::span<const std::string_view> names, int number, std::string_view otherwise) {
  if (number >= 0 && number < static_cast<int>(names.size())) return std::string(names[number]);
  return fmt::format("{}{}", otherwise, number);
}

}  // namespace

std::string version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string name_of(cudnnBackendNumericalNote_t note) {
  return name_in(kNumericalNotes, static_cast<int>(note), kNewerNote);
}
std::string name_of(cudnnBackendBehaviorNote_t note) {
  return name_in(kBehaviourNotes, static_cast<int>(note), kNewerBehaviour);
}
std::vector<std::string> note_names() {
  std::vector<std::string> names(kNumericalNotes.begin(), kNumericalNotes.end());
  names.insert(names.end(), kBehaviourNotes.begin(), kBehaviourNotes.end());
  names.emplace_back(note::tf32);
  names.emplace_back(note::spreads_special_values);
  names.emplace_back(note::multiplies_padding);
  for (const std::string_view newer : {kNewerNote, kNewerBehaviour}) names.push_back(std::string(newer) + "*");
  return names;
}

std::string meaning_of(cudnnBackendKnobType_t knob) { return name_in(kKnobs, static_cast<int>(knob), "type "); }

std::string knob_name(cudnnBackendKnobType_t knob) { return fmt::format("k{}", static_cast<int>(knob)); }

std::optional<cudnnBackendKnobType_t> parse_knob_name(std::string_view name) {
  if (name.size() < 2 || name[0] != 'k') return std::nullopt;
  const auto number = parse_integer(name.substr(1));
  if (!number || *number < 0 || *number > 9999) return std::nullopt;
  return static_cast<cudnnBackendKnobType_t>(*number);
}

}  // namespace convoy::cudnn
