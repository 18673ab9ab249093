// Every structure is taken apart by structured bindings, which have to name all of its members: a new field doesn't
// compile until it is hashed here.
#include "select/cache/plan_key.h"

#include "core/hash.h"
#include "select/choose/rules.h"

namespace convoy {
namespace selection {
namespace {

void add(Hash& hash, const SelectionFilter& filter) {
  const auto& [config, engines, notes, deterministic_only, runtime_compilation, tf32, reduced_accumulation,
               down_convert_inputs, workspace_limit] = filter;
  hash.add(config, std::string_view(engines), std::string_view(notes), deterministic_only, runtime_compilation, tf32,
           reduced_accumulation, down_convert_inputs, workspace_limit.has_value(), workspace_limit.value_or(0));
}

void add(Hash& hash, const SelectionRule& rule) {
  const auto& [pattern, candidate] = rule;
  const auto& [engine, knobs] = candidate;
  hash.add(std::string_view(pattern), std::string_view(engine), knobs.size());
  for (const auto& [name, value] : knobs) {
    const std::int64_t* const number = value.number();
    hash.add(std::string_view(name), number != nullptr);
    number != nullptr ? hash.add(*number) : hash.add(std::string_view(*value.word()));
  }
}

bool speaks_of_nodes(const SelectionRule& rule) {
  const auto pattern = RulePattern::parse(rule.pattern);
  return pattern.ok() && pattern->speaks_of_nodes();
}

ConvProblem with_alignments(ConvProblem problem, const Alignments& alignments) {
  problem.x.alignment = alignments.x;
  problem.w.alignment = alignments.w;
  problem.y.alignment = alignments.y;
  return problem;
}

std::size_t bytes_of(const TensorDesc& desc) {
  return (desc.dims.capacity() + desc.strides.capacity()) * sizeof(std::int64_t);
}

}  // namespace

std::uint64_t hash_of(const ConvProblem& problem, const Alignments& alignments) {
  return convoy::hash_of(problem, alignments.x, alignments.w, alignments.y);
}

bool equal(const ConvProblem& a, const Alignments& a_alignments, const ConvProblem& b, const Alignments& b_alignments) {
  return a_alignments == b_alignments && equal_but_for_alignment(a, b);
}

std::uint64_t hash_of(const SelectionOptions& options) {
  const auto& [mode, filter, rules, strict_rules, objective, budget_seconds, likely_only, all_knobs, caches, in_network,
               store, stop] = options;
  const auto& [time, workspace, energy] = objective;
  Hash hash;
  hash.add(mode, strict_rules, budget_seconds, likely_only, all_knobs, caches, in_network, time, workspace, energy);
  hash.add(static_cast<const void*>(store), static_cast<const void*>(stop), rules.size());
  add(hash, filter);
  for (const SelectionRule& rule : rules) add(hash, rule);
  return hash.value();
}

std::uint64_t hash_of(const PlanRequest& request) {
  const auto& [threads, cpu, constant_weights, cuda, target_sms, device] = request;
  const auto& [isa, vnni, vbmi, bf16, fp16, amx_tile, amx_bf16, amx_int8, brand, logical_cpus, l1d, l2, l3] = cpu;
  Hash hash;
  hash.add(threads, constant_weights, isa, vnni, vbmi, bf16, fp16, amx_tile, amx_bf16, amx_int8,
           std::string_view(brand), logical_cpus, l1d, l2, l3, target_sms, static_cast<const void*>(device),
           cuda.has_value());
  if (cuda) {
    const auto& [ordinal, name, architecture, sm_count, memory, cuda_l2, shared_block, shared_sm, registers, threads_sm,
                 driver_version, driver] = *cuda;
    hash.add(ordinal, std::string_view(name), architecture, sm_count, memory, cuda_l2, shared_block, shared_sm,
             registers, threads_sm, driver_version, std::string_view(driver));
  }
  return hash.value();
}

std::uint64_t hash_of(const PlanQuery& query) {
  Hash hash;
  hash.add(hash_of(query.problem, query.alignments), query.settings.hash(), query.weights.data, query.weights.version);
  if (query.settings.rules_speak_of_nodes()) hash.add(query.node_name);
  return hash.value();
}

PlanKey::PlanKey(const PlanQuery& query)
    : problem(with_alignments(query.problem, query.alignments)),
      settings(query.settings),
      alignments(query.alignments),
      weights(query.weights),
      node_name(query.settings.rules_speak_of_nodes() ? query.node_name : std::string_view()) {}

bool PlanKey::matches(const PlanQuery& query) const {
  return weights == query.weights && equal(query.problem, query.alignments, problem, alignments) &&
         settings == query.settings && (!settings.rules_speak_of_nodes() || node_name == query.node_name);
}

std::size_t PlanKey::bytes() const {
  std::size_t bytes = sizeof(PlanKey) + node_name.capacity();
  for (const TensorDesc* desc : {&problem.x, &problem.w, &problem.y}) bytes += bytes_of(*desc);
  for (const Dims* dims : {&problem.pre_padding, &problem.post_padding, &problem.stride, &problem.dilation}) {
    bytes += dims->capacity() * sizeof(std::int64_t);
  }
  return bytes;
}

}  // namespace selection

PlanSettings::PlanSettings(std::vector<const Engine*> engines, SelectionOptions options, PlanRequest request) {
  auto contents = std::make_shared<Contents>();
  contents->engines = std::move(engines);
  contents->options = std::move(options);
  contents->request = std::move(request);
  contents->request.constant_weights = nullptr;
  Hash hash;
  hash.add(selection::hash_of(contents->options), selection::hash_of(contents->request));
  for (const Engine* engine : contents->engines) hash.add(static_cast<const void*>(engine));
  contents->hash = hash.value();
  for (const SelectionRule& rule : contents->options.rules) {
    contents->rules_speak_of_nodes = contents->rules_speak_of_nodes || selection::speaks_of_nodes(rule);
  }
  contents_ = std::move(contents);
}

bool operator==(const PlanSettings& a, const PlanSettings& b) {
  if (a.contents_ == b.contents_) return true;
  return a.hash() == b.hash() && a.engines() == b.engines() && a.options() == b.options() && a.request() == b.request();
}

std::int64_t alignment_class(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer) | 64;
  return static_cast<std::int64_t>(address & (~address + 1));
}

Alignments alignments_of(const ConvProblem& problem) {
  return {problem.x.alignment, problem.w.alignment, problem.y.alignment};
}

Alignments alignments_of(Pass pass, const ConvArgs& args) {
  const void* const x = pass == Pass::dgrad ? args.out : args.x;
  const void* const w = pass == Pass::wgrad ? args.out : args.w;
  const void* const y = pass == Pass::fprop ? args.out : args.y;
  Alignments alignments{alignment_class(x), alignment_class(w), alignment_class(y)};
  std::int64_t& out = pass == Pass::fprop ? alignments.y : pass == Pass::dgrad ? alignments.x : alignments.w;
  out = std::min(out, alignment_class(args.z));
  alignments.x = std::min(alignments.x, alignment_class(args.gate));
  return alignments;
}

}  // namespace convoy
