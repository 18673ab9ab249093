#include "capi/network_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "capi/caller_team.h"
#include "capi/options.h"
#include "convoy/network_tuning.h"
#include "core/shared_bytes.h"

namespace convoy::capi {
namespace {

// What a network is prepared for where the caller says nothing.
Result<TensorDesc> proposed(const NetworkValue& input) {
  const Dims& dims = input.proposed_dims.empty() ? input.dims : input.proposed_dims;
  if (!input.known_rank) {
    return invalid(fmt::format("shapes is null, and input '{}' has no sizes in the model", input.name));
  }
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] >= 0) continue;
    return invalid(fmt::format("shapes is null, and dims[{}] of input '{}' is free", i, input.name));
  }
  return TensorDesc::packed(input.type, dims);
}

bool restricts_engines(const convoy_options& given) {
  return given.engines != nullptr || given.rules != nullptr || given.fallback != 0 || given.deterministic_only != 0 ||
         given.workspace_limit >= 0;
}

// What plans are to be small in, and their limits.
Result<void> read_goals(const convoy_options& given, std::string_view how, NetworkOptions& made) {
  MemoryGoal& goal = made.memory;
  const auto objective = parse_network_objective(given.objective != nullptr ? given.objective : "time");
  if (!objective.ok()) return invalid(objective.error().message);
  made.selection.objective = objective->objective;
  goal.least = objective->least_memory;
  goal.weight = objective->memory;
  const auto read_limit = [](std::string_view name, std::int64_t bytes) -> Result<std::optional<std::int64_t>> {
    if (bytes < -1) return invalid(fmt::format("{}={} is neither a number of bytes nor -1", name, bytes));
    return bytes >= 0 ? std::optional(bytes) : std::nullopt;
  };
  CONVOY_TRY(goal.activation_limit, read_limit("activation_limit", given.activation_limit));
  CONVOY_TRY(goal.weight_limit, read_limit("weight_limit", given.weight_limit));
  const std::string_view field = goal.activation_limit ? "activation_limit"
                                 : goal.weight_limit   ? "weight_limit"
                                                       : "objective";
  const bool asked = goal.asked() || made.selection.objective.energy > 0;
  if (asked && given.plan != nullptr) return invalid(fmt::format("{}: plan says the layouts already", field));
  if (asked && how != "global") {
    return invalid(fmt::format("{} is for how='global': '{}' goes by time, and by no limit", field, how));
  }
  return {};
}

}  // namespace

std::vector<std::vector<const char*>> dim_names(const std::vector<NetworkValue>& values) {
  std::vector<std::vector<const char*>> all;
  for (const NetworkValue& value : values) {
    auto& names = all.emplace_back();
    for (const std::string& name : value.dim_names) names.push_back(name.c_str());
    names.resize(value.dims.size(), "");
  }
  return all;
}

Result<void> describe(const std::vector<NetworkValue>& values, const std::vector<std::vector<const char*>>& dim_names,
                      std::size_t index, const char* what, convoy_value* value) {
  CONVOY_CHECK(present(value, "value"));
  CONVOY_CHECK(in_range(index, values.size(), what));
  const NetworkValue& from = values[index];
  convoy_value filled = CONVOY_VALUE_INIT;
  filled.name = from.name.c_str();
  filled.type = name_of(from.type).data();
  filled.rank = from.known_rank ? static_cast<std::int32_t>(from.dims.size()) : -1;
  filled.dims = from.dims.data();
  filled.dim_names = dim_names[index].data();
  filled.proposed_dims = from.proposed_dims.empty() ? from.dims.data() : from.proposed_dims.data();
  return write_struct(value, filled, "convoy_value");
}

Result<std::vector<TensorDesc>> read_shapes(const Network& network, const convoy_shape* shapes, std::size_t count) {
  const std::vector<NetworkValue>& inputs = network.inputs();
  if (shapes != nullptr && count != inputs.size()) {
    return invalid(fmt::format("shape_count={}, the network has {} inputs", count, inputs.size()));
  }
  std::vector<TensorDesc> descs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (shapes == nullptr) {
      CONVOY_TRY(TensorDesc desc, proposed(inputs[i]));
      descs.push_back(std::move(desc));
      continue;
    }
    constexpr std::int32_t kMostDims = 64;
    if (shapes[i].rank < 0 || shapes[i].rank > kMostDims) {
      return invalid(fmt::format("shapes[{}].rank={} is not in 0..{}", i, shapes[i].rank, kMostDims));
    }
    if (shapes[i].dims == nullptr && shapes[i].rank > 0) return invalid(fmt::format("shapes[{}].dims is null", i));
    Dims dims(shapes[i].dims, shapes[i].dims + shapes[i].rank);
    descs.push_back(TensorDesc::packed(inputs[i].type, std::move(dims)));
  }
  return descs;
}

Result<NetworkOptions> read_network_options(const convoy_options* options, Use use,
                                            std::unique_ptr<TuningDatabase>& database) {
  CONVOY_TRY(const convoy_options given, whole(options));
  CONVOY_TRY(const Chooser chooser, read_options(&given));
  const bool on_gpu = chooser.place.request.kind() == DeviceKind::cuda;
  if (on_gpu && given.target_sms != 0) {
    return Error{ErrorCode::unsupported,
                 fmt::format("target_sms={}: networks use all of a GPU's multiprocessors", given.target_sms)};
  }
  if (!on_gpu && (given.no_graph != 0 || given.synchronous != 0 || given.device_memory_limit != -1)) {
    const std::string_view field = given.no_graph != 0      ? "no_graph"
                                   : given.synchronous != 0 ? "synchronous"
                                                            : "device_memory_limit";
    return invalid(fmt::format("{} is for networks on a GPU: device is cpu", field));
  }
  // Of the processor, for what runs there with copies.
  const int threads = given.threads == 0 ? cpu_features().logical_cpus : given.threads;
  NetworkOptions made{.threads = threads,
                      .cpu = chooser.place.request.cpu,
                      .selection = chooser.options,
                      .math = chooser.math,
                      .team = caller_team(given, threads),
                      .team_serves_several = true,
                      .cuda = chooser.place.request.cuda,
                      .graphs = given.no_graph == 0,
                      .synchronous = given.synchronous != 0};
  if (given.device_memory_limit < -1) {
    return invalid(
        fmt::format("device_memory_limit={} is neither a number of bytes nor -1", given.device_memory_limit));
  }
  if (given.device_memory_limit >= 0) made.device_memory_limit = given.device_memory_limit;
  const std::string_view how = given.how != nullptr ? given.how : "tuned";
  const bool measures = use == Use::tune || made.selection.budget_seconds > 0;
  if (how != "tuned") made.how = how;
  if (how == "tuned" && !restricts_engines(given) && (use == Use::tune || !measures)) {
    made.kept_plans = kept_plans_folder(chooser.database);
  }
  CONVOY_CHECK(read_goals(given, how, made));
  if (given.plan != nullptr) {
    auto plan = parse_plan(given.plan);
    if (!plan.ok()) return plan.error().within("plan");
    made.plan = std::move(*plan);
  }
  made.lenient_plan = given.lenient_plan != 0;
  if (given.precision != nullptr && std::string_view(given.precision) == "tf32") {
    made.math = std::max(made.math, MathMode::tf32);
  } else if (given.precision != nullptr) {
    const auto type = parse_data_type(given.precision);
    const bool known = type.ok() && (*type == DataType::f32 || *type == DataType::bf16 || *type == DataType::f16);
    if (!known) return invalid(fmt::format("precision='{}' is not one of f32, tf32, bf16, f16", given.precision));
    made.precision = *type;
  }
  if (given.batch_parts != nullptr) {
    const auto parts = parse_batch_parts(given.batch_parts);
    if (!parts.ok()) return invalid("batch_parts: " + parts.error().message);
    made.parts = *parts;
  }
  if (use == Use::tune) {
    if (how != "tuned") return invalid(fmt::format("how='{}': tuning finds how", how));
    if (given.plan != nullptr) return invalid("plan: tuning makes one");
    if (chooser.database.empty()) return invalid("database is null: what is measured is kept there");
  }
  made.selection.mode = measures ? SelectionMode::measured : SelectionMode::heuristic;
  if (chooser.database.empty()) return made;
  using Access = TuningDatabase::Access;
  auto opened = TuningDatabase::open(chooser.database, measures ? Access::write : Access::read);
  // A file that is not there yet knows nothing.
  if (!opened.ok() && (measures || opened.error().code != ErrorCode::not_found)) return opened.error();
  if (opened.ok()) database = std::move(*opened);
  made.selection.store = database.get();
  return made;
}

Result<std::vector<HostTensor>> read_inputs(std::span<const TensorDesc> descs, const void* const* inputs,
                                            std::size_t count) {
  if (count != descs.size()) {
    return invalid(fmt::format("input_count={}, the network has {} inputs", count, descs.size()));
  }
  std::vector<HostTensor> tensors;
  tensors.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    CONVOY_CHECK(present(inputs, "inputs"));
    if (inputs[i] == nullptr && descs[i].elements() > 0)
      return present(nullptr, fmt::format("inputs[{}]", i).c_str()).error();
    // Only read; of an empty one not even that.
    alignas(64) static std::byte nothing[64];
    void* data = inputs[i] != nullptr ? const_cast<void*>(inputs[i]) : nothing;
    tensors.push_back({descs[i], borrowed(data)});
  }
  return tensors;
}

}  // namespace convoy::capi
