// What the views of a program's report have in common: the sentences.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "report/layouts.h"
#include "report/program_report.h"
#include "report/terminal.h"

namespace convoy::report {

// "cudnn.eng10{..}" of a candidate with knobs.
std::string without_knobs(const std::string& candidate);

std::string time_text(const std::optional<double>& seconds, bool rough = false);  // "12.3 us", "~12.3 us"; "-"
std::string gain_text(double seconds, double of);                                 // "+12.0%", "-3.1%"; "" where none

// What is special about one algorithm of a convolution: that it ran, was asked for, is the best, why it is not.
std::string remark_on(const Convolution& convolution, std::size_t index);
// Of the convolution in the summary.
std::string remark_on(const Convolution& convolution);
Style style_of(const Convolution& convolution, std::size_t index);

// Program, processes, cuDNN, device ..: names and values.
std::vector<std::pair<std::string, std::string>> facts_of(const ProgramReport& report);
// "13.4 ms of 1,234 timed calls (98.0% of all); ..", and what has no time.
std::vector<std::string> totals_of(const ProgramReport& report);
// Rules, filters, benchmark mode, what is not seen, failures.
std::vector<std::string> remarks_of(const ProgramReport& report);
std::vector<std::string> layout_sentences(const LayoutComparison& layouts, const ProgramReport& report);
// "NORM_FORWARD: 4 calls: no convolution"
std::vector<std::string> passed_through(const ProgramReport& report);

}  // namespace convoy::report
