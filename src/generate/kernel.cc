#include "generate/kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "generate/schedule.h"
#include "generate/text.h"

namespace convoy::generate {
namespace {

class Writer {
 public:
  Writer(const Computation& computation, const Lowered& space, const Schedule& schedule, std::string name)
      : computation_(computation), space_(space), schedule_(schedule), name_(std::move(name)) {
    kept_ = static_cast<int>(space.kept.size());
  }

  Kernel write() {
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
    for (std::size_t i = 0; i < computation_.stores.size(); ++i) {
      results_.emplace_back(computation_.stores[i].value, fmt::format("{}_result{}", name_, i), type);
    }

    text_ = std::string(Kernel::kInclude) + tables_text(space_, name_);
    for (const auto* bodies : {&starts_, &joins_, &folded_, &results_}) {
      for (const Body& body : *bodies) text_ += body.definition;
    }
    for (const auto& [i, body] : then_) text_ += body.definition;
    head();
    if (schedule_.across >= 0) {
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

 private:
  int load_count() const { return static_cast<int>(space_.loads.size()); }
  bool in_vectors(int dim) const { return schedule_.vector > 1 && dim == schedule_.vector_dim; }
  bool vectors_kept() const { return schedule_.vector > 1 && !schedule_.along_folded; }

  // A load's values along the vector's dim: all of them where it, or one that stands in for it, depends on that.
  int width(int load) const {
    for (int i = load; i >= 0; i = computation_.loads[static_cast<std::size_t>(i)].otherwise) {
      if (schedule_.vector > 1 && space_.loads[static_cast<std::size_t>(i)].depends_on(schedule_.vector_dim)) {
        return schedule_.vector;
      }
    }
    return 1;
  }
  bool load_reads_folded(int load) const {
    for (int i = load; i >= 0; i = computation_.loads[static_cast<std::size_t>(i)].otherwise) {
      if (reads_folded(space_, space_.loads[static_cast<std::size_t>(i)])) return true;
    }
    return false;
  }
  bool value_is_folded(int value) const { return value < load_count() && load_reads_folded(value); }

  void head() {
    kernel_.grid = static_cast<unsigned>(schedule_.blocks);
    kernel_.block = static_cast<unsigned>(schedule_.rows * schedule_.lanes);
    std::string parameters;
    std::set<int> inputs, outputs;
    std::map<int, std::string> input_type, output_type;
    for (std::size_t i = 0; i < space_.loads.size(); ++i) {
      const int input = computation_.loads[i].input;
      if (input >= 0) input_type[input] = element_name(space_.loads[i].type);
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
    text_ += fmt::format(
        "extern \"C\" __global__ void __launch_bounds__({}) {}({}) {{\n"
        "  typedef {} C;\n  typedef {} U;\n  typedef {} I;\n",
        kernel_.block, name_, parameters, value_type(computation_.type).name,
        space_.wide ? "unsigned long long" : "unsigned", space_.wide ? "long long" : "int");
  }

  // v<load>[width] = the load's elements.
  void load(int index, const std::string& indent) {
    const int count = width(index);
    text_ += fmt::format("{}C v{}[{}];\n", indent, index, count);
    text_ += load_into(fmt::format("v{}", index), index, count, indent);
  }

  std::string load_into(const std::string& to, int index, int count, const std::string& indent) const {
    const Load& load = computation_.loads[static_cast<std::size_t>(index)];
    const Access& access = space_.loads[static_cast<std::size_t>(index)];
    const PlaceText place = place_text(access, name_);
    std::string inside;
    if (load.input < 0) {
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
      outside = fmt::format("{}  fill<{}>({}, {});\n", indent, count, to, constant(load.outside));
    }
    return fmt::format("{0}if ({1}) {{\n{0}  {2}{0}}} else {{\n{3}{0}}}\n", indent, place.guard, inside, outside);
  }

  static std::string constant(double value) {
    if (value != value) return "static_cast<C>(0.0 / 0.0)";
    if (value - value != 0) return value < 0 ? "static_cast<C>(-1.0 / 0.0)" : "static_cast<C>(1.0 / 0.0)";
    return fmt::format("static_cast<C>({})", value);
  }

  // Of a vector's element k: a load's value or a fold's.
  std::function<std::string(int)> value_at() const {
    return [this](int value) {
      const bool each = value < load_count() ? width(value) > 1 : vectors_kept();
      return fmt::format("{}{}[{}]", value < load_count() ? "v" : "s",
                         value < load_count() ? value : value - load_count(), each ? "k" : "0");
    };
  }

  void store(std::size_t index, const std::string& indent) {
    const Access& access = space_.stores[index];
    const int output = computation_.stores[index].output;
    const Body& body = results_[index];
    const bool wide = schedule_.vector > 1 && access.depends_on(schedule_.vector_dim);
    const int count = wide ? schedule_.vector : 1;
    const PlaceText place = place_text(access, name_);
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
  std::vector<int> needed(const std::vector<const Body*>& bodies, bool folded, std::set<int> done = {}) const {
    std::vector<int> found;
    for (const Body* body : bodies) {
      for (const int value : body->inputs) {
        if (value < load_count() && value_is_folded(value) == folded && done.insert(value).second) {
          found.push_back(value);
        }
      }
    }
    return found;
  }

  void map() {
    kernel_.schedule = fmt::format("map{{vector={}}}", schedule_.vector);
    text_ += fmt::format(
        "  const U i = blockIdx.x * static_cast<U>({}) + threadIdx.x;\n  if (i >= static_cast<U>({})) return;\n",
        kernel_.block, schedule_.kept);
    text_ += positions_text(space_, 0, kept_, "i", schedule_.vector, "  ");
    std::vector<const Body*> bodies;
    for (const Body& body : results_) bodies.push_back(&body);
    for (const int value : needed(bodies, false)) load(value, "  ");
    for (std::size_t i = 0; i < results_.size(); ++i) store(i, "  ");
  }

  // A block moves a tile of the first load through shared memory, so that both sides are touched in runs.
  void transpose() {
    const Access& from = space_.loads[static_cast<std::size_t>(schedule_.tiled)];
    const std::string type = element_name(from.type);
    const int tile = schedule_.tile, along = kept_ - 1, across = schedule_.across,
              threads = static_cast<int>(kernel_.block);
    kernel_.schedule = fmt::format("transpose{{tile={}}}", tile);
    text_ += fmt::format("  __shared__ {} tile[{}][{}];\n", type, tile,
                         tile + static_cast<int>(4 / size_of(from.type)) + (size_of(from.type) > 4 ? 1 : 0));
    const auto tiles = [&](int dim) { return (space_.size(dim) + tile - 1) / tile; };
    text_ += fmt::format(
        "  const I a0 = static_cast<I>(blockIdx.x % {0}u) * {2}, b0 = static_cast<I>(blockIdx.x / {0}u % {1}u) * {2};\n"
        "  U rest = blockIdx.x / {3}u;\n",
        tiles(along), tiles(across), tile, tiles(along) * tiles(across));
    for (int d = kept_ - 1; d >= 0; --d) {
      if (d == along || d == across) continue;
      text_ +=
          fmt::format("  const I p{0} = static_cast<I>(rest % static_cast<U>({1}));\n  rest /= static_cast<U>({1});\n",
                      d, space_.size(d));
    }
    const auto each = [&](const char* fast, const char* slow, int fast_dim, int slow_dim) {
      text_ += fmt::format(
          "  for (int e = threadIdx.x; e < {0}; e += {1}) {{\n    const int {2} = e % {3}, {4} = e / {3};\n"
          "    const I p{5} = {2}0 + {2}, p{6} = {4}0 + {4};\n"
          "    if (p{5} >= static_cast<I>({7}) || p{6} >= static_cast<I>({8})) continue;\n",
          tile * tile, threads, fast, tile, slow, fast_dim, slow_dim, space_.size(fast_dim), space_.size(slow_dim));
    };
    each("b", "a", across, along);
    text_ += fmt::format("    tile[a][b] = x{}[{}];\n  }}\n  __syncthreads();\n",
                         computation_.loads[static_cast<std::size_t>(schedule_.tiled)].input,
                         place_text(from, name_).offset);
    each("a", "b", along, across);
    text_ += fmt::format("    const C v{}[1] = {{value_of<C>(tile[a][b])}};\n", schedule_.tiled);
    std::vector<const Body*> bodies;
    for (const Body& body : results_) bodies.push_back(&body);
    for (const int value : needed(bodies, false, {schedule_.tiled})) load(value, "    ");
    store(0, "    ");
    text_ += "  }\n";
  }

  void rows() {
    const bool window = schedule_.rows == 1;
    kernel_.schedule =
        window ? fmt::format("window{{vector={}}}", schedule_.vector)
               : fmt::format("rows{{block={},rows={},vector={}}}", kernel_.block, schedule_.rows, schedule_.vector);
    const char* const row = window ? "0" : schedule_.along_folded ? "threadIdx.x % {0}" : "threadIdx.x / {1}";
    const char* const lane = window                   ? "threadIdx.x"
                             : schedule_.along_folded ? "threadIdx.x / {0}"
                                                      : "threadIdx.x % {1}";
    text_ += fmt::format("  const int row = {}, lane = {};\n",
                         fmt::format(fmt::runtime(row), schedule_.rows, schedule_.lanes),
                         fmt::format(fmt::runtime(lane), schedule_.rows, schedule_.lanes));
    text_ += fmt::format("  const U own = blockIdx.x * static_cast<U>({}) + lane;\n", schedule_.lanes);
    if (window) {
      text_ += fmt::format("  if (own >= static_cast<U>({})) return;\n  const U i = own;\n", schedule_.kept);
    } else {
      text_ += fmt::format("  __shared__ C exchange[{}];\n", kernel_.block);
      text_ += fmt::format("  const bool active = own < static_cast<U>({});\n  const U i = active ? own : 0;\n",
                           schedule_.kept);
    }
    text_ += positions_text(space_, 0, kept_, "i", schedule_.along_folded ? 1 : schedule_.vector, "  ");
    std::vector<const Body*> bodies;
    for (const auto* each : {&folded_, &results_}) {
      for (const Body& body : *each) bodies.push_back(&body);
    }
    for (const auto& [i, body] : then_) bodies.push_back(&body);
    for (const int value : needed(bodies, false)) load(value, "  ");
    for (std::size_t i = 0; i < folded_.size(); ++i) fold(i);
    stores();
  }

  void loop(const std::vector<const Body*>& bodies) {
    if (schedule_.rows == 1 && schedule_.folded <= 32) text_ += "  _Pragma(\"unroll\")\n";
    text_ += fmt::format("  for (U f = row; f < static_cast<U>({}); f += {}) {{\n", schedule_.folded, schedule_.rows);
    text_ += positions_text(space_, kept_, space_.rank(), "f", schedule_.along_folded ? schedule_.vector : 1, "    ");
    for (const int value : needed(bodies, true)) load(value, "    ");
  }

  // s<index>[..] = the fold; one value, or a vector's of kept positions.
  void fold(std::size_t index) {
    const int count = schedule_.vector;
    text_ += fmt::format("  C s{}[{}];\n  fill<{}>(s{}, {});\n", index, count, count, index,
                         starts_[index].of([](int) { return std::string(); }));
    loop({&folded_[index]});
    const std::string value = folded_[index].of(value_at());
    const auto joined = [&](const std::string& a, const std::string& b) {
      return joins_[index].of([&](int which) { return which == 0 ? a : b; });
    };
    const std::string sum = fmt::format("s{}[k]", index);
    text_ += fmt::format("    _Pragma(\"unroll\") for (int k = 0; k < {}; ++k) {} = {};\n  }}\n", count, sum,
                         joined(sum, value));
    if (schedule_.along_folded && count > 1) {
      const std::string first = fmt::format("s{}[0]", index);
      text_ += fmt::format("  _Pragma(\"unroll\") for (int k = 1; k < {}; ++k) {} = {};\n", count, first,
                           joined(first, sum));
    }
    const int left = vectors_kept() ? count : 1;
    if (schedule_.rows > 1) {
      text_ += fmt::format(
          "  join_rows<{}, {}, {}>(reinterpret_cast<C(&)[{}]>(s{}), exchange, row, lane, [](C a, C b) {{ return {}; "
          "}});\n",
          schedule_.rows, schedule_.lanes, left, left, index, joined("a", "b"));
    }
    const auto then = then_.find(index);
    if (then != then_.end()) {
      text_ += fmt::format("  _Pragma(\"unroll\") for (int k = 0; k < {}; ++k) s{}[k] = {};\n", left, index,
                           then->second.of(value_at()));
    }
  }

  void stores() {
    std::vector<const Body*> each;
    std::vector<std::size_t> of_each, of_kept;
    for (std::size_t i = 0; i < results_.size(); ++i) {
      if (reads_folded(space_, space_.stores[i])) {
        each.push_back(&results_[i]);
        of_each.push_back(i);
      } else {
        of_kept.push_back(i);
      }
    }
    const bool window = schedule_.rows == 1;
    if (!of_kept.empty()) {
      text_ += window ? "  {\n" : "  if (active && row == 0) {\n";
      for (const std::size_t i : of_kept) store(i, "    ");
      text_ += "  }\n";
    }
    if (of_each.empty()) return;
    if (!window) text_ += "  if (!active) return;\n";
    loop(each);
    for (const std::size_t i : of_each) store(i, "    ");
    text_ += "  }\n";
  }

  const Computation& computation_;
  const Lowered& space_;
  const Schedule schedule_;
  std::string name_, text_;
  int kept_;
  std::vector<Body> starts_, joins_, folded_, results_;
  std::map<std::size_t, Body> then_;
  Kernel kernel_;
};

}  // namespace

Result<Kernel> write_kernel(const Computation& computation, const std::string& name) {
  CONVOY_TRY(const Lowered space, lower(computation));
  const bool has_folds = !computation.folds.empty();
  if (position_count(space.kept) == 0) return Kernel{.name = name};
  const Schedule schedule = schedule_of(space, has_folds);
  if (schedule.blocks > std::numeric_limits<std::int32_t>::max()) {
    return Error{ErrorCode::unsupported, fmt::format("{} positions: more than a launch may have", schedule.kept)};
  }
  return Writer(computation, space, schedule, name).write();
}

}  // namespace convoy::generate
