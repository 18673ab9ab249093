#include "network/run/control_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "network/graph/pass.h"
#include "network/run/dynamic_program.h"

namespace convoy::network {
namespace {

Error bad(const Node& node, const std::string& text) {
  return {ErrorCode::invalid_argument, describe(node) + ": " + text};
}

Result<std::int64_t> scalar_of(const Node& node, const HostTensor& tensor, DataType type, const char* what) {
  if (tensor.desc.type != type || tensor.desc.elements() != 1) {
    return bad(node, fmt::format("the {} is {} [{}], it must be a single {}", what, name_of(tensor.desc.type),
                                 to_string(tensor.desc.dims), name_of(type)));
  }
  return type == DataType::s64 ? *tensor.as<std::int64_t>() : std::int64_t{*tensor.as<std::uint8_t>() != 0};
}

// A body with the constants that it is given.
Graph with_constants(const Graph& body, std::span<const HostTensor* const> given) {
  Graph graph = body;
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i] == nullptr) continue;
    Value& value = graph.values[graph.inputs[i]];
    value.known = true;
    value.desc = given[i]->desc;
    value.constant = *given[i];
  }
  return graph;
}

class IfStep final : public DynamicStep {
 public:
  IfStep(const Node& node, std::vector<std::unique_ptr<DynamicProgram>> branches)
      : node_(node), branches_(std::move(branches)) {}

  Result<std::vector<HostTensor>> run(std::span<const HostTensor* const> inputs,
                                      const DynamicContext& context) override {
    CONVOY_TRY(const std::int64_t condition, scalar_of(node_, *inputs[0], DataType::boolean, "condition"));
    auto done = branches_[condition != 0 ? 0 : 1]->run(inputs.subspan(1), context);
    return done.ok() ? std::move(done) : done.error().within(node_.desc.name);
  }

  std::string implementation() const override {
    return fmt::format("if: {} nodes, else {}, planned at run time", branches_[0]->node_count(),
                       branches_[1]->node_count());
  }

 private:
  const Node node_;
  std::vector<std::unique_ptr<DynamicProgram>> branches_;
};

std::size_t carried_by(const Node& loop) { return loop.inputs.size() - 2 - static_cast<std::size_t>(loop.captured); }

// Of what a Loop hands from trip to trip: the Concat that only appends to it, in a body that then gives what is
// appended. Null: others. Trips that each copy all that there is would take the square of their number.
std::vector<std::optional<Node>> take_appending(Graph& body, std::size_t carried) {
  std::vector<std::optional<Node>> found(carried);
  const auto producers = body.producers();
  const auto readers = body.readers();
  for (std::size_t c = 0; c < carried; ++c) {
    const int before = body.inputs[2 + c];
    int& after = body.outputs[1 + c];
    if (producers[after] == kAbsent || std::ranges::count(body.outputs, after) != 1 || !readers[after].empty())
      continue;
    Node& node = body.nodes[producers[after]];
    if (node.desc.op != "Concat" || !node.desc.domain.empty() || node.inputs.size() != 2) continue;
    if (node.inputs[0] != before || readers[before].size() != 1 || body.is_output(before)) continue;
    found[c] = node;
    after = node.inputs[1];
    node.erased = true;
  }
  body.sweep();
  return found;
}

class LoopStep final : public DynamicStep {
 public:
  // `appending`: what take_appending found.
  LoopStep(const Node& node, std::unique_ptr<DynamicProgram> body, std::vector<std::optional<Node>> appending,
           const PrepareSettings& settings)
      : node_(node),
        carried_(carried_by(node)),
        body_(std::move(body)),
        appending_(std::move(appending)),
        settings_(settings) {}

  Result<std::vector<HostTensor>> run(std::span<const HostTensor* const> inputs,
                                      const DynamicContext& context) override {
    std::int64_t trips = std::numeric_limits<std::int64_t>::max();
    if (inputs[0] != nullptr) {
      CONVOY_TRY(trips, scalar_of(node_, *inputs[0], DataType::s64, "trip count"));
    }
    CONVOY_TRY(HostTensor trip, single(0, DataType::s64));
    CONVOY_TRY(HostTensor condition, single(1, DataType::boolean));
    bool goes_on = true;
    if (inputs[1] != nullptr) {
      CONVOY_TRY(goes_on, scalar_of(node_, *inputs[1], DataType::boolean, "condition"));
      *condition.as<std::uint8_t>() = goes_on;
    }
    std::vector<HostTensor> carried;
    for (std::size_t i = 0; i < carried_; ++i) carried.push_back(*inputs[2 + i]);
    std::vector<std::vector<HostTensor>> scanned(node_.outputs.size() - carried_), appended(carried_);
    std::vector<const HostTensor*> given(inputs.begin(), inputs.end());
    for (std::int64_t i = 0; i < trips && goes_on; ++i) {
      CONVOY_TRY(trip, single(i, DataType::s64));  // a body may hand on the one before
      given[0] = &trip;
      given[1] = &condition;
      for (std::size_t c = 0; c < carried_; ++c) given[2 + c] = &carried[c];
      auto made = body_->run(given, context);
      if (!made.ok()) return made.error().within(fmt::format("{}, trip {}", node_.desc.name, i));
      condition = std::move((*made)[0]);
      CONVOY_TRY(goes_on, scalar_of(node_, condition, DataType::boolean, "condition"));
      for (std::size_t c = 0; c < carried_; ++c) {
        HostTensor& handed_on = (*made)[1 + c];
        if (appending_[c]) {
          appended[c].push_back(std::move(handed_on));
        } else {
          carried[c] = std::move(handed_on);
        }
      }
      for (std::size_t k = 0; k < scanned.size(); ++k) scanned[k].push_back(std::move((*made)[1 + carried_ + k]));
    }
    for (std::size_t c = 0; c < carried_; ++c) {
      if (appended[c].empty()) continue;
      CONVOY_TRY(carried[c], joined_up(*appending_[c], carried[c], appended[c], context));
      appended[c].clear();
    }
    std::vector<HostTensor> outputs = std::move(carried);
    for (std::size_t k = 0; k < scanned.size(); ++k) {
      CONVOY_TRY(HostTensor rows, scanned[k].empty() ? without_trips(inputs, k) : in_rows(scanned[k], context));
      outputs.push_back(std::move(rows));
      scanned[k].clear();
    }
    return outputs;
  }

  std::string implementation() const override {
    return fmt::format("loop: {} nodes, planned at run time", body_->node_count());
  }

 private:
  // As the body declares its first two inputs, ONNX's own being scalars.
  Result<HostTensor> single(std::int64_t value, DataType type) const {
    const NetworkValue& declared = node_.bodies[0]->input_info[type == DataType::s64 ? 0 : 1];
    const Dims dims(declared.known_rank ? declared.dims.size() : 0, 1);
    CONVOY_TRY(HostTensor tensor, HostTensor::allocate(TensorDesc::packed(type, dims)));
    if (type == DataType::s64) {
      *tensor.as<std::int64_t>() = value;
    } else {
      *tensor.as<std::uint8_t>() = value != 0;
    }
    return tensor;
  }

  Result<HostTensor> in_rows(std::span<const HostTensor> rows, const DynamicContext& context) const {
    const TensorDesc& each = rows.front().desc;
    Dims dims = each.dims;
    dims.insert(dims.begin(), static_cast<std::int64_t>(rows.size()));
    CONVOY_TRY(HostTensor all, context.buffers.allocate(TensorDesc::packed(each.type, std::move(dims))));
    const auto bytes = static_cast<std::size_t>(each.bytes());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (!(rows[i].desc == each)) {
        return bad(node_, fmt::format("what its trips give to be joined is [{}] first and [{}] in trip {}",
                                      to_string(each.dims), to_string(rows[i].desc.dims), i));
      }
      if (bytes > 0) std::memcpy(all.data.get() + i * bytes, rows[i].data.get(), bytes);
    }
    return all;
  }

  Result<HostTensor> joined_up(Node concat, const HostTensor& first, std::span<const HostTensor> rest,
                               const DynamicContext& context) const {
    std::vector<const HostTensor*> parts{&first};
    for (const HostTensor& each : rest) parts.push_back(&each);
    concat.inputs.assign(parts.size(), 0);
    const auto step = make_operator_step(concat, std::vector<const HostTensor*>(parts.size(), nullptr), settings_);
    CONVOY_TRY(std::vector<HostTensor> outputs, step->run(parts, context));
    return std::move(outputs[0]);
  }

  // Scan output k of no trips: no rows of the size that the body declares. As in ONNX Runtime a size that has a name
  // only is 0; what is not declared is what the first trip's would have been, as far as it follows from sizes, else 0.
  // Where not even the rank is known the rows are the only dim, as there.
  Result<HostTensor> without_trips(std::span<const HostTensor* const> inputs, std::size_t k) const {
    Graph graph = *node_.bodies[0];
    for (std::size_t i = 2; i < inputs.size(); ++i) {
      Value& value = graph.values[graph.inputs[i]];
      value.known = true;
      value.desc = inputs[i]->desc;
    }
    CONVOY_TRY(const HostTensor trip, single(0, DataType::s64));
    CONVOY_TRY(const HostTensor condition, single(1, DataType::boolean));
    const HostTensor* const own[] = {&trip, &condition};
    graph = with_constants(graph, own);
    const PassContext context{*settings_.team, settings_.options.cpu};
    CONVOY_CHECK(topological_order(graph, context));
    if (const auto folded = constant_folding(graph, context); !folded.ok())
      return folded.error().within(node_.desc.name);
    const std::size_t output = 1 + carried_ + k;
    const Value& value = graph.values[graph.outputs[output]];
    const NetworkValue& declared = node_.bodies[0]->output_info[output];
    Dims dims = value.known ? value.desc.dims : declared.known_rank ? declared.dims : Dims{};
    for (std::size_t d = 0; d < dims.size(); ++d) {
      const bool named = declared.known_rank && d < declared.dims.size() && !declared.dim_names[d].empty();
      dims[d] = named ? 0 : std::max<std::int64_t>(dims[d], 0);
    }
    dims.insert(dims.begin(), 0);
    return HostTensor::allocate(TensorDesc::packed(value.known ? value.desc.type : declared.type, std::move(dims)));
  }

  const Node node_;
  const std::size_t carried_;
  std::unique_ptr<DynamicProgram> body_;
  const std::vector<std::optional<Node>> appending_;  // by what is carried
  const PrepareSettings settings_;
};

}  // namespace

Result<std::unique_ptr<DynamicStep>> make_control_step(const Node& node, std::span<const HostTensor* const> constants,
                                                       const PrepareSettings& settings) {
  const auto program_of = [&](Graph body) {
    auto program = DynamicProgram::make(std::move(body), settings);
    return program.ok() ? std::move(program) : program.error().within(describe(node));
  };
  if (node.desc.op == "If") {
    std::vector<std::unique_ptr<DynamicProgram>> branches;
    for (const auto& body : node.bodies) {
      CONVOY_TRY(auto program, program_of(with_constants(*body, constants.subspan(1))));
      branches.push_back(std::move(program));
    }
    return std::unique_ptr<DynamicStep>(std::make_unique<IfStep>(node, std::move(branches)));
  }
  // What changes from trip to trip is no constant of the body, nor is whether there is a first trip.
  std::vector<const HostTensor*> given(constants.begin(), constants.end());
  std::fill_n(given.begin(), 2 + carried_by(node), nullptr);
  Graph body = with_constants(*node.bodies[0], given);
  CONVOY_CHECK(identity_removal(body, {*settings.team, settings.options.cpu}));
  auto appending = take_appending(body, carried_by(node));
  CONVOY_TRY(auto program, program_of(std::move(body)));
  return std::unique_ptr<DynamicStep>(
      std::make_unique<LoopStep>(node, std::move(program), std::move(appending), settings));
}

}  // namespace convoy::network
