#include "ops/generated/describe.h"

#include <fmt/format.h>

#include "ops/elementwise/elementwise.h"
#include "ops/generated/rules.h"
#include "ops/index_map.h"
#include "ops/operator_row.h"

namespace convoy::ops {
namespace generated {

DataType computed_in(DataType type) { return contains(kHalves, type) ? DataType::f32 : type; }

DataType moved_as(DataType type) {
  switch (size_of(type)) {
    case 1:
      return DataType::u8;
    case 2:
      return DataType::u16;
    case 4:
      return DataType::u32;
    default:
      return DataType::u64;
  }
}

TensorDesc as_type(TensorDesc desc, DataType type) {
  desc.type = type;
  return desc;
}

Computation mapped(DataType type, const std::vector<std::pair<int, TensorDesc>>& operands, const TensorDesc& y,
                   Expression value) {
  Computation made{.type = type, .kept = y.dims, .folded = {}, .loads = {}, .folds = {}, .stores = {}};
  for (const auto& [input, desc] : operands) made.loads.push_back({input, Subscript::broadcast(desc, y.rank())});
  made.stores.push_back({0, Subscript::broadcast(y, y.rank()), std::move(value)});
  return made;
}

Error no_kernel(const Described& d, const std::string& why) {
  return {ErrorCode::unsupported, fmt::format("no kernel for {} on cuda: {}", d.node.op, why)};
}

namespace {

constexpr int kHasClusters = 90, kMostShares = 8;  // 8: of all GPUs that have clusters

constexpr std::span<const NamedRule> (*kFamilies[])() = {elementwise_rules, pooling_rules,     reduction_rules,
                                                         movement_rules,    product_rules,     quantized_rules,
                                                         resize_rules,      grid_sample_rules, top_k_rules};

Rule rule_of(const Described& d) {
  if (dynamic_cast<const ElementwiseOperator*>(&d.op) != nullptr) return element_computation;
  const OperatorRow* const row = find_row(d.node.domain, d.node.op);
  if (row == nullptr) return nullptr;
  for (const auto& family : kFamilies) {
    for (const NamedRule& each : family()) {
      if (each.op == d.node.op && each.domain == row->domain) return each.rule;
    }
  }
  return row->maps == maps::none || !row->domain.empty() ? nullptr : map_computation;
}

}  // namespace
}  // namespace generated

Result<generate::Kernel> describe(const Described& described, const std::string& name, int architecture) {
  const generated::Rule rule = generated::rule_of(described);
  if (rule == nullptr) {
    return Error{ErrorCode::unsupported, fmt::format("no kernel for {} on cuda", described.node.op)};
  }
  CONVOY_TRY(const generate::Computation computation, rule(described));
  auto kernel =
      generate::write_kernel(computation, name, architecture >= generated::kHasClusters ? generated::kMostShares : 1);
  if (!kernel.ok()) return kernel.error().within(described.node.op);
  return kernel;
}

Result<generate::Kernel> describe_conversion(const TensorDesc& from, const TensorDesc& to, const std::string& name) {
  const bool moves = from.type == to.type;
  const DataType moved = generated::moved_as(from.type);
  return generate::write_kernel(generated::mapped(moves ? moved : generated::computed_in(from.type),
                                                  {{0, moves ? generated::as_type(from, moved) : from}},
                                                  moves ? generated::as_type(to, moved) : to, generate::itself()),
                                name);
}

std::vector<std::string> described_operators() {
  std::vector<std::string> names;
  for (const std::string& name : operator_names()) {
    const OperatorRow* const row = find_row("", name);
    if (row == nullptr) continue;
    if (dynamic_cast<const ElementwiseOperator*>(row->implementation) != nullptr || row->maps != maps::none) {
      names.push_back(name);
    }
  }
  for (const auto& family : generated::kFamilies) {
    for (const generated::NamedRule& each : family()) names.emplace_back(each.op);
  }
  return names;
}

}  // namespace convoy::ops
