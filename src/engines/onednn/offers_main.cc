// Says what oneDNN offers for each problem string on standard input: the traits that hold, and the implementations with
// the layout they have by default. For scripts/fit-offers. Under ONEDNN_MAX_CPU_ISA, what a lesser processor is
// offered.
//   110100..<tab>onednn.jit_avx512=0 onednn.gemm=1
#include <fmt/format.h>

#include <iostream>
#include <string>

#include "engines/onednn/implementations.h"
#include "engines/onednn/onednn.h"
#include "engines/onednn/traits.h"

int main() {
  using namespace convoy;
  std::string names;
  for (const onednn::Trait& trait : onednn::traits()) names += (names.empty() ? "" : ",") + std::string(trait.name);
  fmt::print("{}\n", names);
  PlanRequest request;
  request.cpu = cpu_features();
  for (std::string text; std::getline(std::cin, text);) {
    const auto problem = parse_problem(text);
    if (!problem.ok() || !validate(*problem).ok()) {
      fmt::print(stderr, "not a problem: {}\n", text);
      return 2;
    }
    std::string line;
    for (const onednn::Trait& trait : onednn::traits()) line += trait.holds(*problem) ? '1' : '0';
    line += '\t';
    for (const Engine* engine : onednn::engines()) {
      if (engine->info().oracle || refuse(*engine, *problem, request)) continue;
      const KnobValues first = default_knobs(engine->configurations(*problem, request));
      line += fmt::format("{}={} ", engine->info().name, word_or(first, "layout", "") == "preferred" ? 1 : 0);
    }
    fmt::print("{}\n", line);
  }
}
