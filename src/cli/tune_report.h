// What convoy tune says of its choices.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/tune_network.h"

namespace convoy::cli {

// What is known of the chosen candidate; null where it was not measured.
const Measurement* chosen(const Tuned& tuned);

// Sets what each would run on without tuning: the heuristic's choice, by neither memory nor rules.
void find_untuned(const Program& program, const SelectionOptions& options, const PlanRequest& request,
                  std::span<Tuned> all);

// The choices as a rules file: the same choices are the same text.
std::string plan_text(const std::vector<Tuned>& tuned);
// Comments for the head of that file: of what model, where, when and by which version.
std::string plan_heading(const std::string& target, const PlanRequest& request);

// The table; and the warnings, as remarks.
Json say_results(const Program& program, const std::vector<Tuned>& all);

// How many convolutions run on another candidate than the heuristic's, and what that is worth.
void say_network(const Program& program, const TunedNetwork& network);

// What plans took, and which is kept.
Json say_plans(const Program& program, const PlanChoice& plans);

}  // namespace convoy::cli
