#include "report/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "report/json.h"

namespace convoy::report {
namespace {

using Numbers = std::vector<std::int64_t>;

// What cuDNN 9 says where it says anything, found by looking at it; the first row that occurs in its words counts.
struct Advice {
  std::string_view words;
  std::string_view advice;
};
constexpr std::array kAdvice = {
    Advice{"_nbDims != _nbStrides", "give as many strides as sizes"},
    Advice{"_ptrAlignment",
           "the alignment must be a multiple of the type's size: a slice may begin between two elements"},
    Advice{"xDimA[1] % wDimA[1]",
           "the input's channels must be a multiple of the weights': look at in_channels and groups"},
    Advice{"is_valid_spatial_dim",
           "the output's size does not follow from input, filter, padding, stride and dilation"},
    Advice{"wDimA[WK_DIM]", "the output must have as many channels as there are filters"},
    Advice{"[N_DIM]", "input and output must have the same batch"},
    Advice{"nb_spatial_dims", "the convolution has more spatial dims than its tensors"},
    Advice{"isFinalized()", "something that it is made of could not be finalized: look at what failed before it"},
    Advice{"buildDAG", "an operation of it could not be finalized: look at what failed before it"},
};
constexpr std::array<std::string_view, 2> kConsequences = {"isFinalized()", "buildDAG"};

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// Attributes by the end of their names, in the descriptor or in the one that an attribute of it names.
class Given {
 public:
  explicit Given(Json json) : json_(std::move(json)) {}
  Given child(std::string_view ending) const {
    const Json* found = find(ending);
    return Given(found != nullptr && found->is_object() ? *found : Json::object());
  }
  std::vector<Given> children(std::string_view ending) const {
    std::vector<Given> all;
    const Json* found = find(ending);
    if (found == nullptr) return all;
    for (const Json& each : found->is_array() ? *found : Json::array({*found})) {
      if (each.is_object()) all.emplace_back(each);
    }
    return all;
  }
  Numbers numbers(std::string_view ending) const {
    Numbers all;
    const Json* found = find(ending);
    if (found == nullptr) return all;
    for (const Json& each : found->is_array() ? *found : Json::array({*found})) {
      if (each.is_number_integer()) all.push_back(each.get<std::int64_t>());
    }
    return all;
  }

 private:
  const Json* find(std::string_view ending) const {
    for (const auto& [name, value] : json_.items()) {
      if (std::string_view(name).ends_with(ending)) return &value;
    }
    return nullptr;
  }
  Json json_;
};

// The field at fault, with both values, and what to do about it.
struct Fault {
  std::string field;  // empty: none is found
  std::string advice;
};

Fault of_tensor(const Given& tensor) {
  const Numbers dims = tensor.numbers("_DIMENSIONS"), strides = tensor.numbers("_STRIDES");
  const Numbers alignment = tensor.numbers("_BYTE_ALIGNMENT");
  if (dims.empty()) return {"dims: none were given", "give sizes and strides before the descriptor is finalized"};
  if (dims.size() != strides.size()) {
    return {fmt::format("{} dims, but {} strides", dims.size(), strides.size()), "give as many strides as sizes"};
  }
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] <= 0) {
      return {fmt::format("dims[{}]={}: cuDNN takes no empty tensors", i, dims[i]),
              "leave the convolution out where a size is 0: its result is empty, or bias alone"};
    }
    if (dims[i] > 1 && strides[i] <= 0) {
      return {fmt::format("strides[{}]={} where dims[{}]={}: cuDNN needs it to be positive", i, strides[i], i, dims[i]),
              "copy tensors that are expanded or flipped (contiguous()) before the convolution"};
    }
  }
  if (!alignment.empty() && alignment[0] <= 0) {
    return {fmt::format("alignment={}: it must be positive", alignment[0]),
            "give the power of two that the address is a multiple of, 16 if you can"};
  }
  return {};
}

Fault of_window(const Given& window) {
  const Numbers dims = window.numbers("_SPATIAL_DIMS");
  for (const std::string_view list : {"_PRE_PADDINGS", "_POST_PADDINGS", "_FILTER_STRIDES", "_DILATIONS"}) {
    const Numbers values = window.numbers(list);
    const std::string name(list.substr(1));
    if (!dims.empty() && !values.empty() && static_cast<std::int64_t>(values.size()) != dims[0]) {
      return {fmt::format("{} {} for {} spatial dims", values.size(), name, dims[0]),
              "give one value for each spatial dim, of padding, strides and dilations alike"};
    }
    const bool padding = list.ends_with("PADDINGS");
    const std::int64_t least = padding ? 0 : 1;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] >= least) continue;
      return {fmt::format("{}[{}]={} is less than {}", name, i, values[i], least),
              padding ? "crop x in place of negative padding" : "strides and dilations begin at 1"};
    }
  }
  return {};
}

// A tensor that has a dim for groups, [N,G,C/G,H,W], beside one that has none.
Fault of_ranks(const Numbers& x, const Numbers& w, const Numbers& y) {
  Fault fault{fmt::format("x has {} dims, w {}, y {}", x.size(), w.size(), y.size()),
              "give x, w and y as many dims as each other: batch or filters, channels, and the spatial ones"};
  const std::size_t most = std::max({x.size(), w.size(), y.size()});
  const auto lacks = [&](const Numbers& dims) { return dims.size() + 1 == most; };
  if (most < 5 || !std::ranges::all_of(std::array{x.size(), w.size(), y.size()},
                                       [&](std::size_t size) { return size + 1 >= most; })) {
    return fault;
  }
  std::string without;
  for (const auto& [name, dims] : {std::pair("x", &x), std::pair("w", &w), std::pair("y", &y)}) {
    if (lacks(*dims)) without += fmt::format("{}{}", without.empty() ? "" : " and ", name);
  }
  fault.advice = fmt::format(
      "if dims[1] is for groups, {} lacks it: cuDNN takes [N,G,C/G,H,W] beside [G,K/G,C/G,R,S], or no dim for groups "
      "anywhere (x [N,C,H,W], w [K,C/G,R,S]); else give all three as many spatial dims",
      without);
  return fault;
}

// The three tensors of a convolution, where the record has them.
Fault of_convolution(const Given& operation) {
  Numbers x = operation.child("_X").numbers("_DIMENSIONS"), w = operation.child("_W").numbers("_DIMENSIONS"),
          y = operation.child("_Y").numbers("_DIMENSIONS");
  if (x.empty()) x = operation.child("_DX").numbers("_DIMENSIONS");
  if (w.empty()) w = operation.child("_DW").numbers("_DIMENSIONS");
  if (y.empty()) y = operation.child("_DY").numbers("_DIMENSIONS");
  if (x.size() < 3 || w.size() < 3 || y.size() < 3) return {};
  if (x.size() != w.size() || x.size() != y.size()) return of_ranks(x, w, y);
  const Given window = operation.child("_CONV_DESC");
  const Numbers said = window.numbers("_SPATIAL_DIMS");
  const std::size_t spatial = x.size() - 2;
  if (!said.empty() && said[0] + 1 == static_cast<std::int64_t>(spatial)) return {};  // a dim for groups
  if (!said.empty() && said[0] != static_cast<std::int64_t>(spatial)) {
    return {fmt::format("{} spatial dims for tensors of {} dims", said[0], x.size()),
            fmt::format("give the convolution {} spatial dims", spatial)};
  }
  if (x[0] != y[0]) {
    return {fmt::format("x.dims[0]={} does not match y.dims[0]={}", x[0], y[0]),
            "input and output must have the same batch"};
  }
  if (w[1] == 0 || x[1] % w[1] != 0) {
    return {fmt::format("x.dims[1]={} is no multiple of w.dims[1]={}", x[1], w[1]),
            "the input's channels must be a multiple of the weights': look at in_channels and groups"};
  }
  if (y[1] != w[0]) {
    return {fmt::format("y.dims[1]={} does not match w.dims[0]={}", y[1], w[0]),
            "the output must have as many channels as there are filters"};
  }
  const Numbers pre = window.numbers("_PRE_PADDINGS"), post = window.numbers("_POST_PADDINGS"),
                stride = window.numbers("_FILTER_STRIDES"), dilation = window.numbers("_DILATIONS");
  if (pre.size() != spatial || post.size() != spatial || stride.size() != spatial || dilation.size() != spatial)
    return {};
  for (std::size_t i = 0; i < spatial; ++i) {
    const auto size = conv_output_size(x[i + 2], w[i + 2], pre[i], post[i], stride[i], dilation[i], "y");
    if (size.ok() && *size == y[i + 2]) continue;
    return {fmt::format("y.dims[{0}]={1} does not match x.dims[{0}]={2}, w.dims[{0}]={3}, pad={4}/{5}, stride={6}, "
                        "dilation={7}{8}",
                        i + 2, y[i + 2], x[i + 2], w[i + 2], pre[i], post[i], stride[i], dilation[i],
                        size.ok() ? fmt::format(", which give {}", *size) : ""),
            size.ok() && *size > 0 ? fmt::format("make the output {} there, or change what it follows from", *size)
                                   : "make the input or its padding larger, or the filter or its dilation smaller"};
  }
  return {};
}

Fault fault_of(const RecordedFailure& failure) {
  Json json = Json::object();
  for (const auto& [name, value] : failure.attributes) json[name] = Json::parse(value, nullptr, false);
  const Given given(std::move(json));
  if (contains(failure.descriptor, "TENSOR_DESCRIPTOR")) return of_tensor(given);
  if (contains(failure.descriptor, "OPERATION_CONVOLUTION")) return of_convolution(given);
  if (contains(failure.descriptor, "OPERATIONGRAPH")) {
    for (const Given& operation : given.children("_OPS")) {
      if (Fault fault = of_convolution(operation); !fault.field.empty()) return fault;
    }
  }
  if (contains(failure.descriptor, "BACKEND_CONVOLUTION")) return of_window(given);
  return {};
}

// What its status says, where neither a field nor cuDNN's words do.
std::string advice_on_status(std::string_view status) {
  if (contains(status, "NOT_SUPPORTED"))
    return "cuDNN has no engine for this: another type, layout or size may have one";
  if (contains(status, "ALLOC")) return "free memory of the GPU, or make the batch smaller";
  if (contains(status, "ARCH_MISMATCH"))
    return "cuDNN's kernels for this need a newer GPU: another type or layout may not";
  if (contains(status, "VERSION_MISMATCH") || contains(status, "SUBLIBRARY")) {
    return "cuDNN's libraries are of several versions, or some are missing: convoy doctor lists what is found";
  }
  if (contains(status, "EXECUTION_FAILED") || contains(status, "INTERNAL_ERROR")) {
    return "an earlier kernel may have failed: run once more with CUDA_LAUNCH_BLOCKING=1";
  }
  return "compare what was given with cuDNN's documentation of this descriptor";
}

std::string advice_on(std::string_view message, std::string_view otherwise) {
  for (const Advice& row : kAdvice) {
    if (contains(message, row.words)) return std::string(row.advice);
  }
  return std::string(otherwise);
}

bool follows_from_others(std::string_view message) {
  return std::any_of(kConsequences.begin(), kConsequences.end(),
                     [&](std::string_view words) { return contains(message, words); });
}

Finding finding_of(const RecordedFailure& failure) {
  const Fault fault = fault_of(failure);
  Finding finding{.what = failure.candidate.empty() ? failure.descriptor : "plan of " + failure.candidate,
                  .problem = failure.problem,
                  .status = failure.status,
                  .message = failure.message,
                  .count = failure.count,
                  .field = fault.field,
                  .given = failure.attributes,
                  .consequence = follows_from_others(failure.message)};
  finding.advice = advice_on(failure.message, !fault.field.empty() ? fault.advice : advice_on_status(failure.status));
  return finding;
}

Finding finding_of(const RecordedGraph& graph, const RecordedPlan& plan, bool ran) {
  Finding finding{.what = "plan of " + plan.candidate,
                  .problem = graph.problem,
                  .status = plan.failure,
                  .message = plan.failure_detail,
                  .count = 1,
                  .ran = ran};
  if (graph.problem.empty()) finding.given.emplace_back("operations", graph.operations);
  std::string otherwise;
  if (contains(plan.failure, "ALLOC") || contains(plan.failure_detail, "memory")) {
    otherwise = "free memory of the GPU, or make the batch smaller";
  } else if (ran) {
    otherwise = fmt::format("none is needed: {} was built instead", graph.plans.front().candidate);
  } else {
    otherwise = "none of the engines that it asked for could be built: try another layout or type, or a smaller size";
  }
  finding.advice = advice_on(plan.failure_detail, otherwise);
  return finding;
}

// A plan's failure that its graph has, too: there it is known whether another was built.
bool is_a_graphs(const RecordedFailure& failure, const Record& record) {
  return !failure.candidate.empty() &&
         std::any_of(record.graphs.begin(), record.graphs.end(), [&](const RecordedGraph& graph) {
           return graph.problem == failure.problem &&
                  std::any_of(graph.plans.begin(), graph.plans.end(), [&](const RecordedPlan& plan) {
                    return plan.candidate == failure.candidate && !plan.failure.empty();
                  });
         });
}

}  // namespace

std::vector<Finding> diagnose(const Record& record) {
  std::vector<Finding> findings;
  for (const RecordedFailure& failure : record.failures) {
    if (!is_a_graphs(failure, record)) findings.push_back(finding_of(failure));
  }
  for (const RecordedGraph& graph : record.graphs) {
    const bool ran = std::any_of(graph.plans.begin(), graph.plans.end(),
                                 [](const RecordedPlan& plan) { return plan.failure.empty(); });
    for (const RecordedPlan& plan : graph.plans) {
      if (!plan.failure.empty()) findings.push_back(finding_of(graph, plan, ran));
    }
  }
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
    return 2 * a.ran + a.consequence < 2 * b.ran + b.consequence;
  });
  return findings;
}

std::string text_of(const Finding& finding, bool brief) {
  std::string text = fmt::format("{}: {}{}\n", finding.what, finding.status,
                                 finding.count > 1 ? fmt::format(" ({} times)", finding.count) : "");
  const auto add = [&](std::string_view name, std::string_view value) {
    if (!value.empty()) text += fmt::format("  {:8} {}\n", name, value);
  };
  add("field", finding.field);
  add("cuDNN", finding.message);
  add("advice", finding.advice);
  add("problem", finding.problem);
  if (brief && !finding.field.empty()) return text;
  for (const auto& [name, value] : finding.given) add("given", fmt::format("{}={}", name, value));
  return text;
}

std::vector<std::string> failing_problems(const std::vector<Finding>& findings) {
  std::vector<std::string> problems;
  for (const Finding& finding : findings) {
    if (finding.problem.empty()) continue;
    if (std::find(problems.begin(), problems.end(), finding.problem) == problems.end()) {
      problems.push_back(finding.problem);
    }
  }
  return problems;
}

}  // namespace convoy::report
