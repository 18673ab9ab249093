#include "engines/cudnn/split.h"

#include <fmt/format.h>

#include <algorithm>

namespace convoy::cudnn {
namespace {

std::int64_t span(const ConvProblem& p) {
  return std::max({p.x.storage_elements(), p.w.storage_elements(), p.y.storage_elements()});
}

std::string range(std::string_view what, std::int64_t begin, std::int64_t end) {
  return fmt::format("{} {}-{}", what, begin, end - 1);
}

void name(SubProblem& piece, const std::string& where) { piece.where += (piece.where.empty() ? "" : ", ") + where; }

// The pointers of a piece start where its views do.
std::int64_t largest_power(std::int64_t bytes, std::int64_t most) {
  std::int64_t power = most;
  while (power > 1 && bytes % power != 0) power /= 2;
  return power;
}
void move(TensorDesc& desc, std::int64_t& offset, std::int64_t elements) {
  offset += elements;
  desc.alignment = largest_power(elements * static_cast<std::int64_t>(size_of(desc.type)), desc.alignment);
}

void cut_batch(SubProblem& piece, std::int64_t begin, std::int64_t end) {
  ConvProblem& p = piece.problem;
  p.x.dims[0] = p.y.dims[0] = end - begin;
  move(p.x, piece.x, begin * p.x.strides[0]);
  move(p.y, piece.y, begin * p.y.strides[0]);
  name(piece, range("batch", begin, end));
}

void cut_groups(SubProblem& piece, std::int64_t begin, std::int64_t end) {
  ConvProblem& p = piece.problem;
  const std::int64_t c = p.in_channels() / p.groups, k = p.out_channels() / p.groups;
  p.groups = end - begin;
  p.x.dims[1] = p.groups * c;
  p.w.dims[0] = p.y.dims[1] = p.groups * k;
  move(p.x, piece.x, begin * c * p.x.strides[1]);
  move(p.w, piece.w, begin * k * p.w.strides[0]);
  move(p.y, piece.y, begin * k * p.y.strides[1]);
  piece.channel += begin * (p.pass == Pass::dgrad ? c : k);
  name(piece, range("groups", begin, end));
}

// Rows [begin, end) of y (fprop, wgrad) and the rows of x under their windows.
void cut_rows_of_y(SubProblem& piece, std::int64_t begin, std::int64_t end) {
  ConvProblem& p = piece.problem;
  const std::int64_t reach = p.dilation[0] * (p.w.dims[2] - 1);
  const std::int64_t first = begin * p.stride[0] - p.pre_padding[0];
  const std::int64_t last = (end - 1) * p.stride[0] + reach - p.pre_padding[0];
  // A window that lies in the padding altogether keeps one row of x, which it does not meet.
  const std::int64_t from = std::clamp<std::int64_t>(first, 0, p.x.dims[2] - 1);
  const std::int64_t to = std::clamp<std::int64_t>(last, 0, p.x.dims[2] - 1);
  p.pre_padding[0] = from - first;
  p.post_padding[0] = last - to;
  p.x.dims[2] = to - from + 1;
  p.y.dims[2] = end - begin;
  move(p.x, piece.x, from * p.x.strides[2]);
  move(p.y, piece.y, begin * p.y.strides[2]);
  name(piece, range("rows of y", begin, end));
}

// Rows [begin, end) of x (dgrad) and the rows of y whose windows meet them.
void cut_rows_of_x(SubProblem& piece, std::int64_t begin, std::int64_t end) {
  ConvProblem& p = piece.problem;
  const std::int64_t stride = p.stride[0], pad = p.pre_padding[0], rows = p.y.dims[2];
  const std::int64_t reach = p.dilation[0] * (p.w.dims[2] - 1);
  const std::int64_t earliest = (std::max<std::int64_t>(begin + pad - reach, 0) + stride - 1) / stride;
  const std::int64_t first = std::min({earliest, (begin + pad) / stride, rows - 1});
  const std::int64_t last = std::clamp<std::int64_t>((end - 1 + pad) / stride, first, rows - 1);
  p.pre_padding[0] = pad + begin - first * stride;
  p.x.dims[2] = end - begin;
  p.y.dims[2] = last - first + 1;
  p.post_padding[0] = std::max<std::int64_t>((last - first) * stride + reach + 1 - p.x.dims[2] - p.pre_padding[0], 0);
  move(p.x, piece.x, begin * p.x.strides[2]);
  move(p.y, piece.y, first * p.y.strides[2]);
  name(piece, range("rows of x", begin, end));
}

struct Cut {
  std::int64_t size;  // of what is cut
  void (*apply)(SubProblem& piece, std::int64_t begin, std::int64_t end);
  bool accumulates;  // pieces add to the same out
};

bool may_accumulate(const ConvProblem& p) {
  const Epilogue& e = p.epilogue;
  return !e.bias && !e.takes_z() && e.activation.kind == ActivationKind::identity && e.requantize == Requantize::none &&
         size_of(p.out().type) >= 4;
}

std::vector<SubProblem> sub_problems_of(const SubProblem& whole, const Cut& cut, std::int64_t parts) {
  std::vector<SubProblem> pieces;
  const std::int64_t step = (cut.size + parts - 1) / parts;  // all alike but for the last: few different problems
  for (std::int64_t begin = 0; begin < cut.size; begin += step) {
    SubProblem piece = whole;
    cut.apply(piece, begin, std::min(begin + step, cut.size));
    if (cut.accumulates && begin > 0) piece.problem.beta = 1;
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

std::int64_t widest(const std::vector<SubProblem>& pieces) {
  std::int64_t most = 0;
  for (const SubProblem& piece : pieces) most = std::max(most, span(piece.problem));
  return most;
}

// The pieces of a whole that is too big, by the first cut that helps; nothing where none does.
std::vector<SubProblem> cut_once(const SubProblem& whole, std::int64_t most_elements) {
  const ConvProblem& p = whole.problem;
  const bool sums = p.pass == Pass::wgrad;
  std::vector<Cut> cuts;
  cuts.reserve(3);
  if (!sums || may_accumulate(p)) {
    cuts.push_back({p.batch(), cut_batch, sums});
    cuts.push_back(p.pass == Pass::dgrad ? Cut{p.x.dims[2], cut_rows_of_x, false}
                                         : Cut{p.y.dims[2], cut_rows_of_y, sums});
  }
  cuts.push_back({p.groups, cut_groups, false});
  for (const Cut& cut : cuts) {
    if (cut.size < 2) continue;
    // The fewest parts that suffice, else as many as there are if that is at least better: another cut may follow.
    std::int64_t parts = std::min(cut.size, (span(p) + most_elements - 1) / most_elements);
    std::vector<SubProblem> pieces = sub_problems_of(whole, cut, parts);
    while (widest(pieces) > most_elements && parts < cut.size) {
      parts = std::min(cut.size, parts + std::max<std::int64_t>(parts / 4, 1));
      pieces = sub_problems_of(whole, cut, parts);
    }
    // Padding wider than the filter gives pieces without data, which are no valid problems.
    const bool valid =
        std::all_of(pieces.begin(), pieces.end(), [](const SubProblem& piece) { return validate(piece.problem).ok(); });
    if (valid && widest(pieces) < span(p)) return pieces;
  }
  return {};
}

}  // namespace

Result<std::vector<SubProblem>> split(const ConvProblem& problem, std::int64_t most_elements) {
  std::vector<SubProblem> done;
  std::vector<SubProblem> todo;
  todo.push_back({.problem = problem});
  while (!todo.empty()) {
    SubProblem piece = std::move(todo.back());
    todo.pop_back();
    if (span(piece.problem) <= most_elements) {
      done.push_back(std::move(piece));
      continue;
    }
    std::vector<SubProblem> parts = cut_once(piece, most_elements);
    if (parts.empty()) {
      return Error{
          ErrorCode::unsupported,
          fmt::format("x={}, w={}, y={}: a tensor spans over {} elements, and no cut of batch, space or "
                      "groups makes it smaller{}",
                      to_string(problem.x.dims), to_string(problem.w.dims), to_string(problem.y.dims), most_elements,
                      problem.pass == Pass::wgrad ? " (sums over both need an out of 32 bits and no epilogue)" : "")};
    }
    todo.insert(todo.end(), std::make_move_iterator(parts.rbegin()), std::make_move_iterator(parts.rend()));
  }
  return done;
}

}  // namespace convoy::cudnn
