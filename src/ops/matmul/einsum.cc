// Einsum: y over the labels of the output = the sum, over all other labels, of the product of the operands. Labels that
// an operand repeats walk its diagonal; "..." stands for leading dims that broadcast. Operands are multiplied from left
// to right, each time summing what is needed no more: by MatMul where labels are summed, else by Mul. Integers wrap.
#include "ops/matmul/einsum.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "ops/in_f32.h"
#include "ops/math_types.h"
#include "ops/matmul/matmul.h"
#include "ops/movement/strided_copy.h"
#include "ops/operator_row.h"

namespace convoy::ops {
namespace {

constexpr TypeSet kSummed = only(DataType::f32) | only(DataType::f64) | only(DataType::f16) | only(DataType::bf16) |
                            only(DataType::s32) | only(DataType::s64);

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

}  // namespace

Result<Equation> equation_of(const NodeDesc& node, std::span<const Input> inputs) {
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

namespace {

// Where a tensor of a contraction lies: among the inputs, in the workspace, or the output.
struct TermPosition {
  enum Kind { input, temporary, output } kind = input;
  std::size_t at = 0;  // which input, or the offset in the workspace
};

// A tensor of the contraction: its stride in each label, 0 where it doesn't have it.
struct Term {
  TermPosition place;
  Dims strides;
  bool has(int label) const { return strides[label] != 0; }
};

class Contraction {
 public:
  Contraction(NodeDesc node, Dims sizes, DataType type, const PlanRequest& request)
      : node_(std::move(node)), sizes_(std::move(sizes)), type_(type), request_(request) {}

  std::unique_ptr<OpPlan> plan() && {
    const auto run = [steps = std::make_shared<const std::vector<Step>>(std::move(steps_)), own = temporaries_](
                         std::span<const void* const> inputs, std::span<void* const> outputs,
                         const ExecContext& context) -> Result<void> {
      auto* const memory = static_cast<char*>(context.workspace);
      const auto from = [&](const TermPosition& place) {
        return place.kind == TermPosition::input ? inputs[place.at] : static_cast<const void*>(memory + place.at);
      };
      ExecContext rest = context;
      rest.workspace = memory + own;
      rest.workspace_bytes -= own;
      for (const Step& step : *steps) {
        void* const to = step.to.kind == TermPosition::output ? outputs[0] : memory + step.to.at;
        const void* const operands[] = {from(step.a), from(step.b)};
        if (step.copy) {
          step.copy->run(operands[0], to, context);
        } else {
          CONVOY_CHECK(step.plan->execute(operands, std::span<void* const>(&to, 1), rest));
        }
      }
      return {};
    };
    return make_plan(node_, run, temporaries_ + workspace_);
  }

  // The sum of the term over labels that `kept` doesn't name.
  Result<Term> summed(const Term& term, const std::vector<bool>& kept) {
    const std::vector<int> all = labels_where([&](int label) { return term.has(label); });
    std::vector<std::int64_t> axes;
    for (std::size_t d = 0; d < all.size(); ++d) {
      if (!kept[all[d]]) axes.push_back(static_cast<std::int64_t>(d));
    }
    if (axes.empty()) return term;
    const std::vector<int> rest = labels_where([&](int label) { return term.has(label) && kept[label]; });
    const Term sum = temporary(rest);
    NodeDesc reduce{.op = "ReduceSum", .name = node_.name, .opset = 11};
    reduce.attributes = {{"axes", axes}, {"keepdims", std::int64_t{0}}};
    CONVOY_CHECK(add(reduce, {desc(term, all)}, desc(sum, rest), term.place, {}, sum.place));
    return sum;
  }

  // The product of two terms, summed over the labels that both have and `kept` doesn't name; each label that one alone
  // has is kept. In `to` where that is given, which has all labels that are kept.
  Result<Term> product(Term a, Term b, const std::vector<bool>& kept, const Term* to) {
    const auto both = labels_where([&](int label) { return a.has(label) && b.has(label); });
    const bool is_summed = std::ranges::any_of(both, [&](int label) { return !kept[label]; });
    const std::vector<int> all = labels_where([&](int label) { return a.has(label) || b.has(label); });
    const bool has_matrix =
        std::ranges::any_of(all, [&](int label) { return kept[label] && !(a.has(label) && b.has(label)); });
    if (is_summed && has_matrix) return matrix_product(std::move(a), std::move(b), kept, to);
    const Term made = to != nullptr && !is_summed ? *to : temporary(all);
    CONVOY_CHECK(add({.op = "Mul", .name = node_.name, .opset = 14}, {desc(a, all), desc(b, all)}, desc(made, all),
                     a.place, b.place, made.place));
    return is_summed ? summed(made, kept) : made;
  }

  Term copied(const Term& term, const std::vector<int>& order) {
    Term made = temporary(order);
    copy(term, made);
    return made;
  }
  void copy(const Term& from, const Term& to) {
    const std::vector<int> all = labels_where([&](int label) { return to.has(label); });
    steps_.push_back(
        {.copy = StridedCopy(size_of(type_), picked(sizes_, all), picked(from.strides, all), picked(to.strides, all)),
         .plan = nullptr,
         .a = from.place,
         .b = {},
         .to = to.place});
  }

 private:
  struct Step {
    std::optional<StridedCopy> copy;
    std::unique_ptr<OpPlan> plan;
    TermPosition a, b, to;
  };

  static Dims picked(const Dims& of, const std::vector<int>& labels) {
    Dims some;
    for (const int label : labels) some.push_back(of[label]);
    return some;
  }
  template <class F>
  std::vector<int> labels_where(F&& f) const {
    std::vector<int> labels;
    for (int label = 0; label < static_cast<int>(sizes_.size()); ++label) {
      if (sizes_[label] != 1 && f(label)) labels.push_back(label);
    }
    return labels;
  }
  std::int64_t size_of_all(const std::vector<int>& labels) const {
    std::int64_t size = 1;
    for (const int label : labels) size *= sizes_[label];
    return size;
  }
  // Packed, the last label innermost.
  Term temporary(const std::vector<int>& labels) {
    Term term{{TermPosition::temporary, temporaries_}, Dims(sizes_.size(), 0)};
    std::int64_t stride = 1;
    for (auto label = labels.rbegin(); label != labels.rend(); ++label) {
      term.strides[*label] = stride;
      stride *= sizes_[*label];
    }
    temporaries_ += (static_cast<std::size_t>(stride) * size_of(type_) + 63) / 64 * 64;
    return term;
  }
  TensorDesc desc(const Term& term, const std::vector<int>& labels) const {
    TensorDesc made;
    made.type = type_;
    for (const int label : labels) {
      made.dims.push_back(term.has(label) ? sizes_[label] : 1);
      made.strides.push_back(term.has(label) ? term.strides[label] : 1);
    }
    return made;
  }
  Result<void> add(const NodeDesc& node, const std::vector<TensorDesc>& inputs, const TensorDesc& output,
                   TermPosition a, TermPosition b, TermPosition to) {
    std::vector<Input> given;
    for (const TensorDesc& input : inputs) given.push_back({true, input});
    CONVOY_TRY(auto plan, find_operator("", node.op)->plan(node, given, std::span(&output, 1), request_));
    add(std::move(plan), a, b, to);
    return {};
  }
  void add(std::unique_ptr<OpPlan> plan, TermPosition a, TermPosition b, TermPosition to) {
    workspace_ = std::max(workspace_, plan->workspace_bytes());
    steps_.push_back({.copy = std::nullopt, .plan = std::move(plan), .a = a, .b = b, .to = to});
  }

  // The stride of labels that a term walks as one dim, in their order; none where it doesn't.
  std::optional<std::int64_t> merged(const Term& term, const std::vector<int>& labels) const {
    for (std::size_t i = 0; i + 1 < labels.size(); ++i) {
      if (term.strides[labels[i]] != term.strides[labels[i + 1]] * sizes_[labels[i + 1]]) return std::nullopt;
    }
    return labels.empty() ? 1 : term.strides[labels.back()];
  }
  // A matrix of `rows` by `columns` of which one runs along memory, as oneDNN takes it: the term, or a copy.
  Term as_matrix(const Term& term, const std::vector<int>& batch, const std::vector<int>& rows,
                 const std::vector<int>& columns) {
    const auto row = merged(term, rows), column = merged(term, columns);
    if (row && column && (columns.empty() || rows.empty() || *row == 1 || *column == 1)) return term;
    std::vector<int> order = batch;
    order.insert(order.end(), rows.begin(), rows.end());
    order.insert(order.end(), columns.begin(), columns.end());
    return copied(term, order);
  }

  Result<Term> matrix_product(Term a, Term b, const std::vector<bool>& kept, const Term* to) {
    const auto by_stride = [&](const Term& term, std::vector<int> labels) {
      std::ranges::stable_sort(labels, [&](int x, int y) { return term.strides[x] > term.strides[y]; });
      return labels;
    };
    // The label that is innermost in the result is a column.
    if (to != nullptr) {
      const auto all = labels_where([&](int label) { return to->has(label) && a.has(label) != b.has(label); });
      const auto inner = std::ranges::min_element(all, {}, [&](int label) { return to->strides[label]; });
      if (inner != all.end() && a.has(*inner)) std::swap(a, b);
    }
    const std::vector<int> batch = labels_where([&](int l) { return a.has(l) && b.has(l) && kept[l]; });
    const std::vector<int> inner = by_stride(a, labels_where([&](int l) { return a.has(l) && b.has(l) && !kept[l]; }));
    const Term& order = to != nullptr ? *to : a;
    const std::vector<int> rows = by_stride(order, labels_where([&](int l) { return a.has(l) && !b.has(l); }));
    const std::vector<int> columns =
        by_stride(to != nullptr ? *to : b, labels_where([&](int l) { return b.has(l) && !a.has(l); }));
    a = as_matrix(a, batch, rows, inner);
    b = as_matrix(b, batch, inner, columns);
    const auto fits = [&](const Term& term) {
      return merged(term, rows) && merged(term, columns) && (columns.empty() || *merged(term, columns) == 1);
    };
    std::vector<int> all = batch;
    all.insert(all.end(), rows.begin(), rows.end());
    all.insert(all.end(), columns.begin(), columns.end());
    const Term made = to != nullptr && fits(*to) ? *to : temporary(all);

    MatMulShape shape;
    shape.m = size_of_all(rows);
    shape.n = size_of_all(columns);
    shape.k = size_of_all(inner);
    for (const int label : by_stride(made, batch)) {
      const std::int64_t size = sizes_[label];
      const auto follows = [&](const Dims& before, const Term& term) {
        return before.back() == size * term.strides[label];
      };
      if (!shape.batch.empty() && follows(shape.a_batch, a) && follows(shape.b_batch, b) &&
          follows(shape.c_batch, made)) {
        shape.batch.back() *= size;
        shape.a_batch.back() = a.strides[label];
        shape.b_batch.back() = b.strides[label];
        shape.c_batch.back() = made.strides[label];
        continue;
      }
      shape.batch.push_back(size);
      shape.a_batch.push_back(a.strides[label]);
      shape.b_batch.push_back(b.strides[label]);
      shape.c_batch.push_back(made.strides[label]);
    }
    // A dim of 1 has the stride that makes the matrix a packed one.
    const auto strides = [&](const Term& term, const std::vector<int>& down, std::int64_t height,
                             const std::vector<int>& along, std::int64_t width, std::int64_t& row,
                             std::int64_t& column) {
      row = *merged(term, down);
      column = *merged(term, along);
      if (along.empty()) column = down.empty() || row != 1 ? 1 : height;
      if (down.empty()) row = along.empty() || column != 1 ? 1 : width;
    };
    strides(a, rows, shape.m, inner, shape.k, shape.a_row, shape.a_column);
    strides(b, inner, shape.k, columns, shape.n, shape.b_row, shape.b_column);
    strides(made, rows, shape.m, columns, shape.n, shape.c_row, shape.c_column);
    add(product_plan(node_, shape, type_, request_), a.place, b.place, made.place);
    return made;
  }

  NodeDesc node_;
  Dims sizes_;  // of labels
  DataType type_;
  PlanRequest request_;
  std::vector<Step> steps_;
  std::size_t temporaries_ = 0, workspace_ = 0;
};

class Einsum final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, -1));
    CONVOY_CHECK(check_same_type(node, inputs));
    CONVOY_TRY(const Equation equation, equation_of(node, inputs));
    return one_output(node, inputs[0].desc.type,
                      Dims(equation.sizes.begin(), equation.sizes.begin() + equation.outputs));
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    if (contains(kHalves, outputs[0].type)) return plan_in_f32(*this, node, inputs, outputs, request);
    CONVOY_TRY(const Equation equation, equation_of(node, inputs));
    const auto labels = equation.sizes.size();
    if (std::ranges::find(equation.sizes, 0) != equation.sizes.end()) {  // sums of nothing
      return make_plan(node, [bytes = outputs[0].bytes()](auto, auto out, const ExecContext&) -> Result<void> {
        std::memset(out[0], 0, static_cast<std::size_t>(bytes));
        return {};
      });
    }
    Contraction contraction(node, equation.sizes, outputs[0].type, request);
    Term result{{TermPosition::output, 0}, Dims(labels, 0)};
    for (int d = 0; d < equation.outputs; ++d) result.strides[d] = outputs[0].strides[d];

    std::vector<Term> terms;
    for (std::size_t i = 0; i < inputs.size(); ++i) terms.push_back({{TermPosition::input, i}, equation.strides[i]});
    // What the operands from `first` on, but for `but`, or the output have.
    const auto needed = [&](std::size_t first, std::size_t but) {
      std::vector<bool> kept(labels, false);
      for (std::size_t label = 0; label < labels; ++label) {
        kept[label] = static_cast<int>(label) < equation.outputs;
        for (std::size_t i = first; i < terms.size(); ++i)
          kept[label] = kept[label] || (i != but && terms[i].has(static_cast<int>(label)));
      }
      return kept;
    };
    for (std::size_t i = 0; i < terms.size(); ++i) {
      CONVOY_TRY(terms[i], contraction.summed(terms[i], needed(0, i)));
    }
    Term made = terms[0];
    for (std::size_t i = 1; i < terms.size(); ++i) {
      CONVOY_TRY(made, contraction.product(made, terms[i], needed(i + 1, terms.size()),
                                           i + 1 == terms.size() ? &result : nullptr));
    }
    if (made.place.kind != TermPosition::output) contraction.copy(made, result);
    return std::move(contraction).plan();
  }
};

const Einsum einsum;

}  // namespace

std::vector<OperatorRow> einsum_rows() {
  return {
      {"Einsum", &einsum, images::mixed, Rate::products, values::mixed, in_place::never, layouts::row_major, kSummed}};
}

}  // namespace convoy::ops
