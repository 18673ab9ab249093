#include "engines/cudnn/known.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/integer_sums.h"
#include "core/notes.h"
#include "core/padding.h"
#include "engines/cudnn/graph.h"
#include "engines/cudnn/limits.h"
#include "engines/cudnn/names.h"

namespace convoy::cudnn {
namespace {

bool sixteen_bits(const ConvProblem& p) { return p.out().type == DataType::f16 || p.out().type == DataType::bf16; }

enum class When {
  sixteen_bits,
  sixteen_bits_and_beta,
  sixteen_bits_and_odd_filters,
  sixteen_bits_and_large_window,
  fp8
};
struct Rounds {
  Pass pass;
  std::int64_t engine;
  When when;
};
constexpr int kSeenIn = 919;  // version / 100
constexpr std::array kSaysTheSame = {926, 928};
constexpr std::int64_t kCopiedBytes = std::int64_t{1} << 31;
// Of graphs without an epilogue: others have other engines.
constexpr std::array<Rounds, 9> kRoundPartialSums = {{
    {Pass::fprop, 2, When::fp8},
    {Pass::fprop, 4, When::fp8},
    {Pass::dgrad, 2, When::sixteen_bits},
    {Pass::wgrad, 9, When::sixteen_bits_and_beta},
    {Pass::wgrad, 65, When::sixteen_bits_and_beta},
    {Pass::wgrad, 47, When::sixteen_bits},
    {Pass::wgrad, 61, When::sixteen_bits},
    {Pass::wgrad, 62, When::sixteen_bits_and_odd_filters},
    {Pass::fprop, 6, When::sixteen_bits_and_large_window},  // Winograd, with more than its 3x3
}};

// An older version has other engines; a newer one has had new ones at the end, and knobs of more values.
bool is_known(int version) { return version / 100 >= kSeenIn; }

bool large_window(const ConvProblem& p) { return *std::max_element(p.w.dims.begin() + 2, p.w.dims.end()) > 3; }

bool applies(When when, const ConvProblem& p) {
  if (when == When::fp8) return is_fp8(p.x.type);
  if (!sixteen_bits(p) || is_fp8(p.x.type)) return false;
  if (when == When::sixteen_bits_and_beta) return p.beta != 0;
  if (when == When::sixteen_bits_and_odd_filters) return p.out_channels() % 8 != 0;
  if (when == When::sixteen_bits_and_large_window) return large_window(p);
  return true;
}

}  // namespace

std::string not_verified(int version) {
  const int minor = version / 100;
  if (minor == kSeenIn) return "";
  const std::string name = "cuDNN " + version_text(version);
  if (!is_known(version)) {
    return name +
           ": not verified. Wrong results, and notes that cuDNN leaves out, are known of 9.19's engines; this "
           "version's "
           "are taken at their word";
  }
  const bool compared = std::find(kSaysTheSame.begin(), kSaysTheSame.end(), minor) != kSaysTheSame.end();
  return fmt::format(
      "{}: not verified on a GPU. Its engines are taken to give the wrong results, and to leave out the notes, that "
      "those "
      "of 9.19 do: {}",
      name, compared ? "they say the same of themselves" : "whether they are the same engines was not looked at");
}

std::optional<Refusal> known_wrong(const ConvProblem& p, std::int64_t engine, int version,
                                   const std::vector<std::string>& notes, const std::vector<Knob>& knobs) {
  const auto noted = [&](const std::string& note) {
    return std::find(notes.begin(), notes.end(), note) != notes.end();
  };
  if (p.y.type == DataType::s32 && !noted(name_of(CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION))) {
    return Refusal{RefusalCode::data_type, "types y=s32: this engine of cuDNN writes floats: wrong results"};
  }
  // An epilogue is computed in f32, and cuDNN does not say what of a sum is.
  if (auto refusal = refuse_sums_in_f32(p, "cuDNN")) return refusal;
  // By exponentials, which overflow: 0 of 44, NaN above (H100, f32).
  if (is_known(version) && engine == 0 && p.epilogue.activation.kind == ActivationKind::tanh) {
    return Refusal{RefusalCode::epilogue,
                   "act=tanh: this engine gives wrong results for values of 44 and more (seen in cuDNN 9.19)"};
  }
  const std::int64_t filters_per_group = p.out_channels() / p.groups;
  if (is_known(version) && is_plain(p) && p.pass == Pass::wgrad && engine == 69 && p.w.dims[1] == 1 &&
      filters_per_group > 1) {
    return Refusal{
        RefusalCode::channels,
        fmt::format("channels of a group: 1, filters {}: this engine gives wrong results in wgrad (seen in cuDNN 9.19)",
                    filters_per_group)};
  }
  // They make a channels-last copy in their workspace and read it in pieces of 128 bytes, to the end of the last one:
  // NaN where nobody wrote one.
  const bool fprop = p.pass == Pass::fprop && (engine == 71 || engine == 72);
  if (is_known(version) && is_plain(p) && (fprop || (p.pass == Pass::wgrad && engine == 70))) {
    const TensorDesc& copied = fprop ? p.x : p.y;
    const std::int64_t bytes_spanned = copied.storage_elements() * static_cast<std::int64_t>(size_of(copied.type));
    if (copied.strides[1] != 1 && copied.storage_elements() > copied.elements() && bytes_spanned > kCopiedBytes) {
      return Refusal{RefusalCode::size, fmt::format("{}: {} bytes from first to last, with gaps, not channels-last: "
                                                    "this engine copies it wrongly (seen in cuDNN 9.19)",
                                                    fprop ? "x" : "y", bytes_spanned)};
    }
    if (engine != 71 && copied.strides[1] != 1 && copied.bytes() % 128 != 0) {
      return Refusal{RefusalCode::size, fmt::format("{}: {} bytes, no multiple of 128, not channels-last: this engine "
                                                    "reads beyond its copy (seen in cuDNN 9.19)",
                                                    fprop ? "x" : "y", copied.bytes())};
    }
  }
  if (p.pre_padding == p.post_padding || p.pass == Pass::fprop) return std::nullopt;
  const bool fft = noted(name_of(CUDNN_NUMERICAL_NOTE_FFT));
  const std::string texture = knob_name(CUDNN_KNOB_TYPE_USE_TEX);
  const bool oldest = std::any_of(knobs.begin(), knobs.end(), [&](const Knob& knob) { return knob.name == texture; });
  if (!fft && !oldest) return std::nullopt;
  return Refusal{
      RefusalCode::padding,
      fmt::format("pad={}/{}: cuDNN's {} engines take both sides as equal in {}: wrong "
                  "results",
                  to_string(p.pre_padding), to_string(p.post_padding), fft ? "FFT" : "oldest GEMM", name_of(p.pass))};
}

std::vector<std::string> missing_notes(const ConvProblem& p, std::int64_t engine, int version,
                                       const std::vector<std::string>& notes) {
  if (!is_known(version) || !is_plain(p)) return {};
  // Compiled beforehand, for any beta: conv is rounded before beta*out is added.
  const std::string_view compiled = note::runtime_compilation;
  if (p.pass == Pass::fprop && sixteen_bits(p) && p.beta != 0 &&
      std::find(notes.begin(), notes.end(), compiled) == notes.end()) {
    return {std::string(note::reduced_precision_reduction)};
  }
  // It cuts f32 off to tf32 where others round: sums of a few products err by up to twice what tf32 allows.
  if (p.pass == Pass::wgrad && engine == 68 && p.x.type == DataType::f32) {
    return {std::string(note::down_convert_inputs)};
  }
  // By its errors an FFT, which it says of every other window.
  if (p.pass == Pass::dgrad && engine == 5 && (p.w.dims.size() == 3 || p.w.dims[2] == 1)) {
    return {std::string(note::fft)};
  }
  const bool rounds = std::any_of(kRoundPartialSums.begin(), kRoundPartialSums.end(), [&](const Rounds& each) {
    return each.pass == p.pass && each.engine == engine && applies(each.when, p);
  });
  if (!rounds) return {};
  return {std::string(note::reduced_precision_reduction)};
}

std::vector<std::string> special_value_notes(const ConvProblem& p, std::optional<std::int64_t> engine,
                                             const std::vector<std::string>& notes) {
  std::vector<std::string> found;
  // On tensor cores with several groups side by side, whose channels meet weights of 0. On an H100 an infinity in one
  // of two groups of f16 made NaN of the other, of up to 32 channels each.
  constexpr std::int64_t kMixGroups[] = {10, 22, 23, 62, 67};
  const bool mixes = engine && p.pass == Pass::fprop && p.groups > 1 && p.compute != DataType::s32 &&
                     std::ranges::find(kMixGroups, *engine) != std::end(kMixGroups);
  if (mixes || std::any_of(notes.begin(), notes.end(), [](const std::string& each) {
        return each == note::fft || each.starts_with(note::winograd);
      })) {
    found.emplace_back(note::spreads_special_values);
  }
  // On an H200 all but depthwise kernels did, in f32, f16 and bf16.
  if (p.compute != DataType::s32 && reads_padding(p)) found.emplace_back(note::multiplies_padding);
  return found;
}

std::vector<std::string> missing_legacy_notes(const ConvProblem& p, int algorithm) {
  if (!sixteen_bits(p)) return {};
  const bool atomic = p.pass != Pass::fprop && algorithm == 0;
  const bool split = p.pass == Pass::wgrad && algorithm == 1 && p.groups > 1;
  const bool scaled = p.pass == Pass::fprop && p.beta != 0;
  const bool dgrad = p.pass == Pass::dgrad && algorithm == 1 && (p.out().type == DataType::f16 || p.w.dims[1] == 1);
  const bool winograd = p.pass == Pass::fprop && algorithm == 7 && large_window(p);
  if (!atomic && !split && !scaled && !dgrad && !winograd) return {};
  return {std::string(note::reduced_precision_reduction)};
}

}  // namespace convoy::cudnn
