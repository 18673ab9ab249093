// Checks of candidates in children, so that a crash is a result too: for convoy verify and convoy repro.
#pragma once

#include <string>

#include "cli/program.h"
#include "cli/worker.h"
#include "select/tune/check.h"

namespace convoy::cli {

// What a check found, as it crosses from the child: the fields of CheckOutcome, its names as text.
Json check_json(const selection::CheckOutcome& outcome);
// The same in the parent; the fault of a job that did not finish is "crash".
Json read_check(const JobOutcome& outcome);

// A number of such a result for people; "-" where there is none.
std::string number_or_dash(const Json& result, const char* field);

}  // namespace convoy::cli
