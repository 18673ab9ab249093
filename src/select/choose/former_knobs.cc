#include "select/choose/former_knobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace convoy::selection {
namespace {

// The number of its only knob, where it is `name`.
std::optional<std::int64_t> only_number(const Candidate& candidate, std::string_view name) {
  if (candidate.knobs.size() != 1 || candidate.knobs[0].name != name) return std::nullopt;
  const std::int64_t* const number = candidate.knobs[0].value.number();
  return number != nullptr && *number >= 0 ? std::optional(*number) : std::nullopt;
}

// 10 * a + b
KnobValues tile(std::int64_t tile, const char* a, const char* b) {
  KnobValues values = {{a, tile / 10}, {b, tile % 10}};
  std::sort(values.begin(), values.end(), [](const KnobValue& x, const KnobValue& y) { return x.name < y.name; });
  return values;
}

// kernel * 100,000,000 + rows * 10,000 + columns * 100 + vector; a kernel's names for the three, null: it had none.
std::optional<KnobValues> depthwise(std::int64_t tile) {
  struct Kernel {
    const char* word;
    std::array<const char*, 3> names;
  };
  constexpr std::array<Kernel, 8> kernels = {{{"general", {}},
                                              {"patch", {"rows", "columns", "channels"}},
                                              {"rolling", {"rows", "columns", nullptr}},
                                              {"planes", {"rows", "columns", nullptr}},
                                              {"mma", {"rows", "columns", "channels"}},
                                              {"plane_bands", {"rows", "channels", "images"}},
                                              {"pixel_bands", {"rows", "warp_channels", "channels"}},
                                              {"signal", {"tiles", "positions", "channels"}}}};
  const std::int64_t index = tile / 100'000'000;
  if (index >= static_cast<std::int64_t>(kernels.size()) || (index == 0) != (tile == 0)) return std::nullopt;
  const Kernel& kernel = kernels[static_cast<std::size_t>(index)];
  std::array<std::int64_t, 3> numbers = {tile / 10'000 % 10'000, tile / 100 % 100, tile % 100};
  KnobValues values = {KnobValue{"kernel", kernel.word}};
  if (index == 6) {  // its columns were units of a step * 10 + channels of a warp
    values.push_back({"unroll", std::max<std::int64_t>(1, numbers[1] / 10)});
    numbers[1] %= 10;
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (kernel.names[i] != nullptr) values.push_back({kernel.names[i], numbers[i]});
  }
  std::sort(values.begin(), values.end(), [](const KnobValue& a, const KnobValue& b) { return a.name < b.name; });
  return values;
}

// What cpu.gemm took for channels last.
bool channels_last(const ConvProblem& problem) {
  return problem.x.is_packed(Layout::nhwc) && problem.y.is_packed(Layout::nhwc);
}

}  // namespace

bool has_former_knobs(const Candidate& candidate) {
  return (candidate.engine == "cpu.gemm" && only_number(candidate, "tile").has_value()) ||
         with_named_knobs(candidate, nullptr).has_value();
}

std::optional<Candidate> with_named_knobs(const Candidate& candidate, const ConvProblem* problem) {
  const std::string& engine = candidate.engine;
  std::optional<KnobValues> knobs;
  if (engine.starts_with("onednn.")) {
    const auto layout = only_number(candidate, "layout");
    if (layout && *layout <= 1) knobs = KnobValues{KnobValue{"layout", *layout == 1 ? "preferred" : "given"}};
  } else if (const auto number = only_number(candidate, "tile")) {
    if (engine == "cpu.direct" || (engine == "cpu.gemm" && problem != nullptr && channels_last(*problem))) {
      knobs = tile(*number, "positions", "channel_vectors");
    } else if (engine == "cpu.gemm" && problem != nullptr) {
      knobs = tile(*number, "channels", "position_vectors");
    } else if (engine == "cuda.depthwise") {
      knobs = depthwise(*number);
    }
  }
  return knobs ? std::optional(Candidate{engine, *std::move(knobs)}) : std::nullopt;
}

Candidate named_today(Candidate candidate, const ConvProblem* problem, std::string_view where,
                      std::vector<std::string>& remarks) {
  auto named = with_named_knobs(candidate, problem);
  if (!named) return candidate;
  std::string remark = fmt::format("{}: {} is written {} now", where, print(candidate), print(*named));
  if (std::find(remarks.begin(), remarks.end(), remark) == remarks.end()) remarks.push_back(std::move(remark));
  return *std::move(named);
}

}  // namespace convoy::selection
