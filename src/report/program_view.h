// A program's report (program_report.h) as text, JSON and a page of HTML.
#pragma once

#include <set>
#include <string>

#include "report/json.h"
#include "report/layouts.h"
#include "report/page.h"
#include "report/program_report.h"

namespace convoy::report {

// For a terminal or a file. `most`: so many convolutions (0: all); the rest is counted.
std::string text_of(const ProgramReport& report, const LayoutComparison& layouts, const Page& page, int most = 0);

// Every algorithm of the convolutions with these numbers, and of the other passes of the same layers, which are shown
// with them.
std::string layers_text(const ProgramReport& report, const std::set<int>& numbers, const Page& page);

// docs/pytorch.md has the fields.
Json to_json(const ProgramReport& report, const LayoutComparison& layouts);

std::string html_of(const ProgramReport& report, const LayoutComparison& layouts);

// By the ending of `path`: .html, .json, else text of any width.
std::string rendered(const ProgramReport& report, const LayoutComparison& layouts, const std::string& path);

}  // namespace convoy::report
