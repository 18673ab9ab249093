// Folds: rows and windows.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "generate/writer.h"

namespace convoy::generate {

void Writer::rows() {
  const bool window = schedule_.rows == 1;
  kernel_.schedule =
      window ? fmt::format("window{{vector={}}}", schedule_.vector)
             : fmt::format("rows{{block={},rows={}{},vector={}}}", kernel_.block, schedule_.rows,
                           schedule_.shares > 1 ? fmt::format(",shares={}", schedule_.shares) : "", schedule_.vector);
  const char* const row = window ? "0" : schedule_.along_folded ? "threadIdx.x % {0}" : "threadIdx.x / {1}";
  const char* const lane = window ? "threadIdx.x" : schedule_.along_folded ? "threadIdx.x / {0}" : "threadIdx.x % {1}";
  text_ +=
      fmt::format("  const int row = {}, lane = {};\n", fmt::format(fmt::runtime(row), schedule_.rows, schedule_.lanes),
                  fmt::format(fmt::runtime(lane), schedule_.rows, schedule_.lanes));
  if (schedule_.shares > 1) text_ += fmt::format("  const int share = blockIdx.x % {};\n", schedule_.shares);
  text_ +=
      fmt::format("  const U own = blockIdx.x / {} * static_cast<U>({}) + lane;\n", schedule_.shares, schedule_.lanes);
  if (window) {
    text_ += "  if (own >= static_cast<U>(count)) return;\n  const U i = own;\n";
  } else {
    const int values = vectors_kept() ? schedule_.vector : 1;
    if (!joins_in_a_warp())
      text_ += fmt::format("  SHARED(C, exchange, {});\n", schedule_.rows * schedule_.lanes * values);
    if (schedule_.shares > 1) {
      text_ += fmt::format("  SHARED(C, shown, {0});\n  SHARED(C, joined, {0});\n", schedule_.lanes * values);
    }
    text_ += "  const bool active = own < static_cast<U>(count);\n  const U i = active ? own : 0;\n";
  }
  text_ += positions_text(space_, 0, kept_, "i", schedule_.along_folded ? 1 : schedule_.vector, "  ");
  std::vector<const Body*> bodies;
  for (const auto* each : {&folded_, &results_, &coordinates_}) {
    for (const Body& body : *each) bodies.push_back(&body);
  }
  for (const auto& [i, body] : then_) bodies.push_back(&body);
  for (const int value : needed(bodies, false)) load(value, "  ");
  keep();
  for (std::size_t i = 0; i < folded_.size(); ++i) fold(i);
  stores();
}

void Writer::keep() {
  // What places are computed of is loaded beside them.
  if (schedule_.turns == 0 || !coordinates_.empty()) return;
  std::map<int, int> loops;  // in which a load is needed
  for (const Body& body : folded_) {
    for (const int value : needed({&body}, true)) ++loops[value];
  }
  for (const int value : needed(results_of_each(), true)) ++loops[value];
  for (const auto& [value, count] : loops) {
    if (count > 1) kept_loads_.insert(value);
  }
  if (kept_loads_.empty()) return;
  for (const int value : kept_loads_) {
    text_ += fmt::format("  C kept{}[{}][{}];\n", value, schedule_.turns, width(value));
  }
  turns();
  for (const int value : kept_loads_) text_ += load_into(fmt::format("kept{}[t]", value), value, width(value), "    ");
  text_ += "  }\n";
}

// The beginning of a loop over the thread's vectors, t of them and f of all.
void Writer::turns() {
  text_ += fmt::format(
      "  _Pragma(\"unroll\")\n  for (int t = 0; t < {}; ++t) {{\n"
      "    const U f = static_cast<U>(row + t * {});\n    if (f >= static_cast<U>({})) break;\n",
      schedule_.turns, schedule_.rows, schedule_.folded);
  text_ += positions_text(space_, kept_, space_.rank(), "f", schedule_.along_folded ? schedule_.vector : 1, "    ");
}

void Writer::loop(const std::vector<const Body*>& bodies) {
  if (!kept_loads_.empty()) {
    turns();
    for (const int value : needed(bodies, true)) {
      if (kept_loads_.contains(value)) {
        text_ += fmt::format("    C(&v{0})[{1}] = kept{0}[t];\n", value, width(value));
      } else {
        load(value, "    ");
      }
    }
    return;
  }
  if (schedule_.rows == 1 && schedule_.folded <= 32) text_ += "  _Pragma(\"unroll\")\n";
  text_ += fmt::format("  for (U f = {}; f < static_cast<U>({}); f += {}) {{\n",
                       schedule_.shares > 1 ? fmt::format("share * {} + row", schedule_.rows) : "row", schedule_.folded,
                       schedule_.rows * schedule_.shares);
  text_ += positions_text(space_, kept_, space_.rank(), "f", schedule_.along_folded ? schedule_.vector : 1, "    ");
  for (const int value : needed(bodies, true)) load(value, "    ");
}

// s<index>[..] = the fold; one value, or a vector's of kept positions.
void Writer::fold(std::size_t index) {
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
    text_ +=
        fmt::format("  _Pragma(\"unroll\") for (int k = 1; k < {}; ++k) {} = {};\n", count, first, joined(first, sum));
  }
  const int left = vectors_kept() ? count : 1;
  if (schedule_.rows > 1 && joins_in_a_warp()) {
    text_ += fmt::format("  join_neighbours<{}>(s{}[0], [](C a, C b) {{ return {}; }});\n", schedule_.rows, index,
                         joined("a", "b"));
  } else if (schedule_.rows > 1) {
    text_ += fmt::format(
        "  join_rows<{}, {}, {}>(reinterpret_cast<C(&)[{}]>(s{}), exchange, row, lane, [](C a, C b) {{ return {}; "
        "}});\n",
        schedule_.rows, schedule_.lanes, left, left, index, joined("a", "b"));
  }
  if (schedule_.shares > 1) {
    text_ += fmt::format(
        "  join_shares<{}, {}, {}, {}>(reinterpret_cast<C(&)[{}]>(s{}), shown, joined, row, lane, [](C a, C b) {{ "
        "return {}; }});\n",
        schedule_.shares, schedule_.rows, schedule_.lanes, left, left, index, joined("a", "b"));
  }
  const auto then = then_.find(index);
  if (then != then_.end()) {
    text_ += fmt::format("  _Pragma(\"unroll\") for (int k = 0; k < {}; ++k) s{}[k] = {};\n", left, index,
                         then->second.of(value_at()));
  }
}

std::vector<const Body*> Writer::results_of_each() const {
  std::vector<const Body*> each;
  for (std::size_t i = 0; i < results_.size(); ++i) {
    if (reads_folded(space_, space_.stores[i])) std::ranges::copy(bodies_of(i), std::back_inserter(each));
  }
  return each;
}

void Writer::stores() {
  std::vector<std::size_t> of_each, of_kept;
  for (std::size_t i = 0; i < results_.size(); ++i) {
    (reads_folded(space_, space_.stores[i]) ? of_each : of_kept).push_back(i);
  }
  const bool window = schedule_.rows == 1;
  if (!of_kept.empty()) {
    text_ += window                 ? "  {\n"
             : schedule_.shares > 1 ? "  if (active && row == 0 && share == 0) {\n"
                                    : "  if (active && row == 0) {\n";
    for (const std::size_t i : of_kept) store(i, "    ");
    text_ += "  }\n";
  }
  if (of_each.empty()) return;
  if (!window) text_ += "  if (!active) return;\n";
  loop(results_of_each());
  for (const std::size_t i : of_each) store(i, "    ");
  text_ += "  }\n";
}

}  // namespace convoy::generate
