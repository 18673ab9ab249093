// Candidates as Convoy wrote them before configurations had named values: "cpu.direct{tile=142}" is
// cpu.direct{channel_vectors=2,positions=14} now. They are in rules, databases, exports and other people's programs;
// this is where they are understood, and it never changes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/convolution.h"
#include "convoy/engine.h"

namespace convoy::selection {

// Whether it is written like that.
bool has_former_knobs(const Candidate& candidate);

// The same as it is written today; nothing where it is written like that already. A tile of cpu.gemm's depends on the
// problem's layouts: without a problem there is nothing for it.
std::optional<Candidate> with_named_knobs(const Candidate& candidate, const ConvProblem* problem);

// The same as it is written today. Where it was not, `remarks` gets a sentence that has both, for whoever keeps the
// file: "line 3: cpu.direct{tile=142} is written cpu.direct{channel_vectors=2,positions=14} now". One is said once.
Candidate named_today(Candidate candidate, const ConvProblem* problem, std::string_view where,
                      std::vector<std::string>& remarks);

}  // namespace convoy::selection
