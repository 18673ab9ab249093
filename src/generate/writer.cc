#include "generate/writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace convoy::generate {

Kernel Writer::write() {
  const ValueType type = value_type(computation_.type);
  for (std::size_t i = 0; i < computation_.folds.size(); ++i) {
    const Fold& fold = computation_.folds[i];
    Expression start;
    start.constants = {fold.start};
    start.result = {Term::constant, 0};
    starts_.emplace_back(start, fmt::format("{}_start{}", name_, i), type);
    joins_.emplace_back(fold.join, fmt::format("{}_join{}", name_, i), type);
    folded_.emplace_back(fold.value, fmt::format("{}_value{}", name_, i), type);
    if (!fold.then.empty()) then_[i] = Body(fold.then[0], fmt::format("{}_then{}", name_, i), type);
  }
  for (std::size_t i = 0; i < space_.values.size(); ++i) {
    coordinates_.emplace_back(space_.values[i], fmt::format("{}_coordinate{}", name_, i), type);
  }
  for (std::size_t i = 0; i < computation_.stores.size(); ++i) {
    results_.emplace_back(computation_.stores[i].value, fmt::format("{}_result{}", name_, i), type);
  }

  text_ = std::string(Kernel::kInclude) + tables_text(space_, name_);
  for (std::size_t i = 0; i < computation_.loads.size(); ++i) {
    const std::vector<double>& numbers = computation_.loads[i].numbers;
    if (numbers.empty()) continue;
    text_ += fmt::format("__device__ const {} {}_numbers{}[] = {{", type.name, name_, i);
    for (const double number : numbers) text_ += fmt::format("{:#},", number);
    text_ += "};\n";
  }
  for (const auto* bodies : {&starts_, &joins_, &folded_, &results_, &coordinates_}) {
    for (const Body& body : *bodies) text_ += body.definition;
  }
  for (const auto& [i, body] : then_) text_ += body.definition;
  head();
  if (schedule_.columns >= 0) {
    product();
  } else if (schedule_.across >= 0) {
    transpose();
  } else if (computation_.folds.empty()) {
    map();
  } else {
    rows();
  }
  text_ += "}\n";
  kernel_.name = name_;
  kernel_.text = std::move(text_);
  return std::move(kernel_);
}

void Writer::head() {
  kernel_.grid = static_cast<unsigned>(schedule_.blocks);
  kernel_.block = static_cast<unsigned>(schedule_.rows * schedule_.lanes);
  std::string parameters;
  std::set<int> inputs, outputs;
  std::map<int, std::string> input_type, output_type;
  for (std::size_t i = 0; i < space_.loads.size(); ++i) {
    const int input = computation_.loads[i].input;
    if (input >= 0) input_type[input] = element_name(space_.loads[i].type);
    for (const Guarded& each : space_.loads[i].guarded) {
      const Coordinate& at = each.coordinate;
      if (at.input >= 0) input_type[at.input] = element_name(at.input_type);
    }
  }
  for (std::size_t i = 0; i < space_.stores.size(); ++i) {
    output_type[computation_.stores[i].output] = element_name(space_.stores[i].type);
  }
  for (const auto& [input, type] : input_type) {
    parameters += fmt::format("{}const {}* x{}", parameters.empty() ? "" : ", ", type, input);
    kernel_.inputs.push_back(input);
  }
  for (const auto& [output, type] : output_type) {
    parameters += fmt::format("{}{}* y{}", parameters.empty() ? "" : ", ", type, output);
    kernel_.outputs.push_back(output);
  }
  parameters += ", unsigned long long count";
  kernel_.count = static_cast<std::uint64_t>(schedule_.kept);
  text_ += fmt::format(
      "extern \"C\" {}__global__ void __launch_bounds__({}) {}({}) {{\n"
      "  typedef {} C;\n  typedef {} U;\n  typedef {} I;\n",
      schedule_.shares > 1 ? fmt::format("__cluster_dims__({}, 1, 1) ", schedule_.shares) : "", kernel_.block, name_,
      parameters, value_type(computation_.type).name, space_.wide ? "unsigned long long" : "unsigned",
      space_.wide ? "long long" : "int");
}

// v<load>[width] = the load's elements.
void Writer::load(int index, const std::string& indent) {
  const int count = width(index);
  text_ += fmt::format("{}C v{}[{}];\n", indent, index, count);
  text_ += load_into(fmt::format("v{}", index), index, count, indent);
}

std::string Writer::load_into(const std::string& to, int index, int count, const std::string& indent) const {
  const Load& load = computation_.loads[static_cast<std::size_t>(index)];
  const Access& access = space_.loads[static_cast<std::size_t>(index)];
  const PlaceText place = this->place(access);
  std::string inside;
  if (!load.numbers.empty()) {
    inside = fmt::format("load_apart<{}>({}, {}_numbers{} + ({}), static_cast<I>({}));\n", count, to, name_, index,
                         place.offset, count > 1 ? *access.step(schedule_.vector_dim) : 0);
  } else if (load.counts) {
    inside = fmt::format("count_from<{}>({}, static_cast<I>({}), static_cast<I>({}));\n", count, to, place.offset,
                         count > 1 ? *access.step(schedule_.vector_dim) : 0);
  } else if (load.input < 0) {
    inside = fmt::format("fill<{}>({}, static_cast<C>(1));\n", count, to);
  } else if (count > 1 && access.side_by_side(schedule_.vector_dim, count)) {
    inside = fmt::format("load<{}>({}, x{} + ({}));\n", count, to, load.input, place.offset);
  } else if (count > 1) {
    inside = fmt::format("load_apart<{}>({}, x{} + ({}), static_cast<I>({}));\n", count, to, load.input, place.offset,
                         *access.step(schedule_.vector_dim));
  } else {
    inside = fmt::format("{}[0] = value_of<C>(x{}[{}]);\n", to, load.input, place.offset);
  }
  if (place.guard.empty()) return indent + inside;
  std::string outside;
  if (load.otherwise >= 0) {
    outside = load_into(to, load.otherwise, count, indent + "  ");
  } else {
    outside = fmt::format("{}  fill<{}>({}, {});\n", indent, count, to, number_text(load.outside));
  }
  return fmt::format("{0}if ({1}) {{\n{0}  {2}{0}}} else {{\n{3}{0}}}\n", indent, place.guard, inside, outside);
}

// Of a vector's element k: a load's value or a fold's.
std::function<std::string(int)> Writer::value_at() const {
  return [this](int value) {
    const bool each = value < load_count() ? width(value) > 1 : vectors_kept();
    return fmt::format("{}{}[{}]", value < load_count() ? "v" : "s",
                       value < load_count() ? value : value - load_count(), each ? "k" : "0");
  };
}

void Writer::store(std::size_t index, const std::string& indent) {
  const Access& access = space_.stores[index];
  const int output = computation_.stores[index].output;
  const Body& body = results_[index];
  const bool wide = schedule_.vector > 1 && access.depends_on(schedule_.vector_dim);
  const int count = wide ? schedule_.vector : 1;
  const PlaceText place = this->place(access);
  std::string in = indent;
  if (!place.guard.empty()) {
    text_ += fmt::format("{}if ({}) {{\n", indent, place.guard);
    in += "  ";
  } else {
    text_ += indent + "{\n";
    in += "  ";
  }
  text_ += fmt::format("{0}C r[{1}];\n{0}_Pragma(\"unroll\") for (int k = 0; k < {1}; ++k) r[k] = {2};\n", in, count,
                       body.of(value_at()));
  if (!wide || access.side_by_side(schedule_.vector_dim, count)) {
    text_ += fmt::format("{}store<{}>(r, y{} + ({}));\n", in, count, output, place.offset);
  } else {
    text_ += fmt::format(
        "{0}_Pragma(\"unroll\") for (int k = 0; k < {1}; ++k) store<1>(reinterpret_cast<C(&)[1]>(r[k]), y{2} + ({3}) "
        "+ k * static_cast<I>({4}));\n",
        in, count, output, place.offset, *access.step(schedule_.vector_dim));
  }
  text_ += indent + "}\n";
}

// Loads that `bodies` need and that aren't there yet, of those that do or don't read folded positions.
std::vector<int> Writer::needed(const std::vector<const Body*>& bodies, bool folded, std::set<int> done) const {
  std::vector<int> found;
  for (const Body* body : bodies) add_needed(*body, folded, done, found);
  return found;
}

void Writer::add_needed(const Body& body, bool folded, std::set<int>& done, std::vector<int>& found) const {
  for (const int value : body.inputs) {
    if (value >= load_count() || done.contains(value)) continue;
    for (int i = value; i >= 0; i = computation_.loads[static_cast<std::size_t>(i)].otherwise) {
      for (const Guarded& each : space_.loads[static_cast<std::size_t>(i)].guarded) {
        if (each.value >= 0) add_needed(coordinates_[static_cast<std::size_t>(each.value)], folded, done, found);
      }
    }
    if (value_is_folded(value) == folded && done.insert(value).second) found.push_back(value);
  }
}

PlaceText Writer::place(const Access& access) const {
  return place_text(access, name_,
                    [this](int value) { return coordinates_[static_cast<std::size_t>(value)].of(value_at()); });
}

std::vector<const Body*> Writer::bodies_of(std::size_t store) const {
  std::vector<const Body*> bodies{&results_[store]};
  for (const Guarded& each : space_.stores[store].guarded) {
    if (each.value >= 0) bodies.push_back(&coordinates_[static_cast<std::size_t>(each.value)]);
  }
  return bodies;
}

void Writer::map() {
  kernel_.schedule = fmt::format("map{{vector={}}}", schedule_.vector);
  text_ += fmt::format(
      "  const U i = blockIdx.x * static_cast<U>({}) + threadIdx.x;\n  if (i >= static_cast<U>(count)) return;\n",
      kernel_.block);
  text_ += positions_text(space_, 0, kept_, "i", schedule_.vector, "  ");
  std::vector<const Body*> bodies;
  for (std::size_t i = 0; i < results_.size(); ++i) std::ranges::copy(bodies_of(i), std::back_inserter(bodies));
  for (const int value : needed(bodies, false)) load(value, "  ");
  for (std::size_t i = 0; i < results_.size(); ++i) store(i, "  ");
}

}  // namespace convoy::generate
