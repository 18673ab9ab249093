// Einsum: y over the labels of the output = the sum, over all other labels, of the product of the operands. Labels that
// an operand repeats walk its diagonal; "..." stands for leading dims that broadcast. Plain loops, for contractions
// that are a small part of a network; sums are double (floats) or wrap (integers).
#include <fmt/format.h>

#include <array>

#include "ops/families.h"

namespace convoy::ops {
namespace {

constexpr TypeSet kSummed = only(DataType::f32) | only(DataType::f64) | only(DataType::f16) | only(DataType::bf16) |
                            only(DataType::s32) | only(DataType::s64);

// Labels in the order of the output, then those summed over.
struct Equation {
  Dims sizes;
  int outputs = 0;
  std::vector<Dims> strides;  // [operand][label]; 0 where the operand does not have it
};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// The labels of one term as numbers: a letter's code, or -1, -2, .. for the dims of "..." from its last one on.
Result<std::vector<int>> labels_of(const NodeDesc& node, std::string_view term, int ellipsis_dims) {
  std::vector<int> labels;
  bool ellipsis = false;
  for (std::size_t i = 0; i < term.size(); ++i) {
    if (is_letter(term[i])) {
      labels.push_back(term[i]);
    } else if (term.substr(i, 3) == "..." && !ellipsis) {
      ellipsis = true;
      for (int d = ellipsis_dims; d > 0; --d) labels.push_back(-d);
      i += 2;
    } else {
      return bad_node(node, fmt::format("equation: '{}' is no list of letters with at most one '...'", term));
    }
  }
  return labels;
}

Result<Equation> read(const NodeDesc& node, std::span<const Input> inputs) {
  CONVOY_TRY(std::string text, node.text("equation", ""));
  std::erase(text, ' ');
  const auto bad = [&](const std::string& what) { return bad_node(node, "equation='" + text + "': " + what); };
  const std::size_t arrow = text.find("->");
  const std::string_view left = std::string_view(text).substr(0, arrow);
  std::vector<std::string_view> terms;
  for (std::size_t at = 0; at <= left.size();) {
    const std::size_t end = std::min(left.find(',', at), left.size());
    terms.push_back(left.substr(at, end - at));
    at = end + 1;
  }
  if (terms.size() != inputs.size()) return bad(fmt::format("{} terms for {} inputs", terms.size(), inputs.size()));

  std::map<int, std::int64_t> sizes;
  std::map<int, int> uses;
  std::vector<std::vector<int>> labels(terms.size());
  int most_dims = 0;  // of "..."
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const Dims& dims = inputs[i].desc.dims;
    const auto letters = static_cast<int>(std::count_if(terms[i].begin(), terms[i].end(), is_letter));
    const int rest = static_cast<int>(dims.size()) - letters;
    if (rest < 0 || (rest > 0 && terms[i].find("...") == std::string_view::npos)) {
      return bad(fmt::format("term {} names {} dims, input {} has [{}]", i, letters, i, to_string(dims)));
    }
    most_dims = std::max(most_dims, rest);
    CONVOY_TRY(labels[i], labels_of(node, terms[i], rest));
    for (std::size_t d = 0; d < dims.size(); ++d) {
      const auto [size, added] = sizes.try_emplace(labels[i][d], dims[d]);
      ++uses[labels[i][d]];
      if (size->second == 1) size->second = dims[d];
      if (dims[d] != 1 && dims[d] != size->second) {
        return bad(
            fmt::format("dim {} of input {} is {}, the same label is {} elsewhere", d, i, dims[d], size->second));
      }
    }
  }
  std::vector<int> order;
  if (arrow != std::string::npos) {
    CONVOY_TRY(order, labels_of(node, std::string_view(text).substr(arrow + 2), most_dims));
  } else {  // what is named once, in alphabetical order
    for (int d = most_dims; d > 0; --d) order.push_back(-d);
    for (const auto& [label, count] : uses) {
      if (label > 0 && count == 1) order.push_back(label);
    }
  }
  Equation equation;
  equation.outputs = static_cast<int>(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (!sizes.contains(order[i]) || std::count(order.begin(), order.end(), order[i]) > 1) {
      return bad("the output repeats a label, or names one that no term has");
    }
  }
  for (const auto& [label, size] : sizes) {
    if (std::find(order.begin(), order.end(), label) == order.end()) order.push_back(label);
  }
  for (const int label : order) equation.sizes.push_back(sizes.at(label));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    Dims strides(order.size(), 0);
    for (std::size_t d = 0; d < labels[i].size(); ++d) {
      if (inputs[i].desc.dims[d] == 1) continue;
      strides[std::find(order.begin(), order.end(), labels[i][d]) - order.begin()] += inputs[i].desc.strides[d];
    }
    equation.strides.push_back(std::move(strides));
  }
  return equation;
}

// Walks labels [first, last) of the equation and keeps each operand's offset.
class Walk {
 public:
  Walk(const Equation& equation, int first, int last)
      : equation_(equation), first_(first), last_(last), at_(last - first), offsets_(equation.strides.size()) {}

  // To the position that is number `index`, the last label running fastest; the offsets start from `base`.
  void seek(std::int64_t index, const Dims& base) {
    offsets_ = base;
    for (int label = last_ - 1; label >= first_; --label) {
      at_[label - first_] = index % equation_.sizes[label];
      index /= equation_.sizes[label];
      move(label, at_[label - first_]);
    }
  }
  // False after the last position.
  bool next() {
    for (int label = last_ - 1; label >= first_; --label) {
      move(label, 1);
      if (++at_[label - first_] < equation_.sizes[label]) return true;
      move(label, -equation_.sizes[label]);
      at_[label - first_] = 0;
    }
    return false;
  }
  const Dims& offsets() const { return offsets_; }

 private:
  void move(int label, std::int64_t by) {
    for (std::size_t i = 0; i < offsets_.size(); ++i) offsets_[i] += by * equation_.strides[i][label];
  }

  const Equation& equation_;
  int first_, last_;
  Dims at_, offsets_;
};

class Einsum final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, -1));
    CONVOY_CHECK(check_same_type(node, inputs, kSummed));
    CONVOY_TRY(const Equation equation, read(node, inputs));
    return one_output(node, inputs[0].desc.type,
                      Dims(equation.sizes.begin(), equation.sizes.begin() + equation.outputs));
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    CONVOY_TRY(const Equation equation, read(node, inputs));
    return dispatch<kSummed>(outputs[0].type, [&]<class T>(Tag<T>) {
      return make_plan(
          node,
          [equation, count = outputs[0].elements()](auto in, auto out, const ExecContext& context) -> Result<void> {
            contract<T>(equation, count, in, static_cast<T*>(out[0]), context);
            return {};
          });
    });
  }

 private:
  template <class T>
  static void contract(const Equation& equation, std::int64_t count, std::span<const void* const> in, T* y,
                       const ExecContext& context) {
    using Sum = std::conditional_t<is_float_element<T>, double, std::uint64_t>;
    const int labels = static_cast<int>(equation.sizes.size());
    double terms = 1;  // of one sum
    for (int label = equation.outputs; label < labels; ++label) terms *= static_cast<double>(equation.sizes[label]);
    const auto cost = static_cast<std::int64_t>(std::min(terms, 1e9)) * static_cast<std::int64_t>(in.size());
    parallel_for(context, count, cost, [&](std::int64_t begin, std::int64_t end) {
      if (begin >= end) return;
      Walk outer(equation, 0, equation.outputs), inner(equation, equation.outputs, labels);
      outer.seek(begin, Dims(in.size(), 0));
      for (std::int64_t i = begin; i < end; ++i, outer.next()) {
        Sum sum = 0;
        if (terms > 0) {
          inner.seek(0, outer.offsets());
          do {
            Sum product = 1;
            for (std::size_t k = 0; k < in.size(); ++k) {
              product *= static_cast<Sum>(static_cast<Compute<T>>(static_cast<const T*>(in[k])[inner.offsets()[k]]));
            }
            sum += product;
          } while (inner.next());
        }
        y[i] = static_cast<T>(sum);
      }
    });
  }
};

const Einsum einsum;

}  // namespace

std::vector<OperatorRow> einsum_rows() { return {{"Einsum", &einsum}}; }

}  // namespace convoy::ops
