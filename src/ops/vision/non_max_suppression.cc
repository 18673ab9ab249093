// NonMaxSuppression: per image and class, boxes by falling score, each dropped where it overlaps a kept one by more
// than iou_threshold. The number of rows depends on the values, so the boxes are chosen once to infer and once to
// execute.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "ops/computed.h"
#include "ops/operator_row.h"
#include "ops/support.h"

namespace convoy::ops {
namespace {

using Row = std::array<std::int64_t, 3>;  // image, class, box

struct Box {
  float y1, x1, y2, x2;  // y1 <= y2, x1 <= x2
  float area() const { return (y2 - y1) * (x2 - x1); }
};

Box box_of(const float* v, bool center_point) {
  if (center_point) return {v[1] - v[3] / 2, v[0] - v[2] / 2, v[1] + v[3] / 2, v[0] + v[2] / 2};
  return {std::min(v[0], v[2]), std::min(v[1], v[3]), std::max(v[0], v[2]), std::max(v[1], v[3])};
}

// Boxes that are kept, so that several are compared at a time.
class Kept {
 public:
  std::int64_t count() const { return static_cast<std::int64_t>(area_.size()); }

  void add(const Box& box) {
    y1_.push_back(box.y1), x1_.push_back(box.x1), y2_.push_back(box.y2), x2_.push_back(box.x2);
    area_.push_back(box.area());
  }

  // Whether any of them overlaps the box by more than that.
  bool overlap(const Box& box, float threshold) const {
    constexpr std::int64_t kBlock = 64;  // between looks at whether one was found
    const float area = box.area();
    for (std::int64_t begin = 0; begin < count(); begin += kBlock) {
      const std::int64_t end = std::min(count(), begin + kBlock);
      int found = 0;
      for (std::int64_t i = begin; i < end; ++i) {
        const float height = std::min(box.y2, y2_[i]) - std::max(box.y1, y1_[i]);
        const float width = std::min(box.x2, x2_[i]) - std::max(box.x1, x1_[i]);
        const float both = height * width, either = area + area_[i] - both;
        found |= static_cast<int>(height > 0) & static_cast<int>(width > 0) & static_cast<int>(either > 0) &
                 static_cast<int>(both / either > threshold);
      }
      if (found != 0) return true;
    }
    return false;
  }

 private:
  std::vector<float> y1_, x1_, y2_, x2_, area_;
};

struct Problem {
  std::int64_t images = 0, classes = 0, boxes = 0;
  bool center_point = false;
  bool has_limit = false, has_overlap = false, has_score = false;
};

// `in` holds the node's inputs: boxes, scores, limit a class, overlap and score thresholds.
std::vector<Row> choose(const Problem& p, std::span<const void* const> in) {
  const float* boxes = static_cast<const float*>(in[0]);
  const float* scores = static_cast<const float*>(in[1]);
  const std::int64_t limit = p.has_limit ? *static_cast<const std::int64_t*>(in[2]) : 0;
  const float max_overlap = p.has_overlap ? *static_cast<const float*>(in[3]) : 0;
  std::vector<Row> rows;
  if (limit <= 0) return rows;
  for (std::int64_t image = 0; image < p.images; ++image) {
    for (std::int64_t each = 0; each < p.classes; ++each) {
      const float* score = scores + (image * p.classes + each) * p.boxes;
      std::vector<std::int64_t> order;
      for (std::int64_t b = 0; b < p.boxes; ++b) {
        const bool enough = p.has_score ? score[b] > *static_cast<const float*>(in[4]) : score[b] == score[b];
        if (enough) order.push_back(b);
      }
      std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return score[a] > score[b]; });
      Kept kept;
      for (const std::int64_t b : order) {
        if (kept.count() >= limit) break;
        const Box box = box_of(boxes + (image * p.boxes + b) * 4, p.center_point);
        if (kept.overlap(box, max_overlap)) continue;
        kept.add(box);
        rows.push_back({image, each, b});
      }
    }
  }
  return rows;
}

Result<Problem> problem_of(const NodeDesc& node, std::span<const Input> inputs) {
  const Dims &boxes = inputs[0].desc.dims, &scores = inputs[1].desc.dims;
  if (boxes.size() != 3 || boxes[2] != 4) {
    return bad_node(node,
                    fmt::format("input 0 (boxes) has dims [{}], it must be [images, boxes, 4]", to_string(boxes)));
  }
  if (scores.size() != 3 || scores[0] != boxes[0] || scores[2] != boxes[1]) {
    return bad_node(node, fmt::format("input 1 (scores) has dims [{}], boxes have [{}]: it must be [{}, classes, {}]",
                                      to_string(scores), to_string(boxes), boxes[0], boxes[1]));
  }
  for (int i = 2; i < static_cast<int>(inputs.size()); ++i) {
    if (inputs[i].present && inputs[i].desc.elements() != 1) {
      return bad_node(node,
                      fmt::format("input {} has dims [{}], it must be a scalar", i, to_string(inputs[i].desc.dims)));
    }
  }
  CONVOY_TRY(const std::int64_t center, node.integer("center_point_box", 0));
  if (center != 0 && center != 1) return bad_node(node, fmt::format("center_point_box={}, it must be 0 or 1", center));
  return Problem{
      boxes[0], scores[1], boxes[1], center == 1, is_present(inputs, 2), is_present(inputs, 3), is_present(inputs, 4)};
}

class NonMaxSuppression final : public ComputedOperator {
 public:
  std::vector<int> shape_inputs(const NodeDesc&) const override { return {0, 1, 2, 3, 4}; }

  Result<std::vector<HostTensor>> compute(const NodeDesc& node, std::span<const Input> inputs,
                                          const Allocate& allocate) const override {
    CONVOY_CHECK(check_counts(node, inputs, 2, 5));
    for (const int i : {0, 1, 3, 4}) CONVOY_CHECK(check_type(node, inputs, i, only(DataType::f32)));
    CONVOY_CHECK(check_type(node, inputs, 2, only(DataType::s64)));
    CONVOY_TRY(const Problem p, problem_of(node, inputs));
    std::vector<const void*> values(5, nullptr);
    for (std::size_t i = 0; i < inputs.size(); ++i) values[i] = inputs[i].constant;
    const std::vector<Row> rows = choose(p, values);
    CONVOY_TRY(TensorDesc desc, make_output(node, DataType::s64, {static_cast<std::int64_t>(rows.size()), 3}));
    CONVOY_TRY(HostTensor chosen, allocate(std::move(desc)));
    auto* y = chosen.as<std::int64_t>();
    for (const Row& row : rows) y = std::copy(row.begin(), row.end(), y);
    return std::vector{std::move(chosen)};
  }
};

const NonMaxSuppression op_NonMaxSuppression;

}  // namespace

std::vector<OperatorRow> non_max_suppression_rows() {
  return {{"NonMaxSuppression", &op_NonMaxSuppression, images::mixed, Rate::others, values::mixed, in_place::never,
           layouts::row_major, only(DataType::f32)}};
}

}  // namespace convoy::ops
