// Keys of the plan cache: complete, hashed without printing, compared without copying.
#pragma once

#include "convoy/plan_cache.h"

namespace convoy::selection {

// Of the problem's fields but its tensors' alignments, which `alignments` replaces.
std::uint64_t hash_of(const ConvProblem& problem, const Alignments& alignments);
bool equal(const ConvProblem& a, const Alignments& a_alignments, const ConvProblem& b, const Alignments& b_alignments);

std::uint64_t hash_of(const SelectionOptions& options);
std::uint64_t hash_of(const PlanRequest& request);

// A query that owns what it needs.
struct PlanKey {
  explicit PlanKey(const PlanQuery& query);
  bool matches(const PlanQuery& query) const;
  PlanQuery query() const { return {problem, settings, alignments, weights, node_name}; }
  std::size_t bytes() const;

  ConvProblem problem;  // its alignments are `alignments`
  PlanSettings settings;
  Alignments alignments;
  ConstantWeights weights;
  std::string node_name;  // empty where no rule speaks of nodes
};

std::uint64_t hash_of(const PlanQuery& query);

}  // namespace convoy::selection
