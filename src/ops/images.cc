#include "ops/images.h"

#include <algorithm>

#include "ops/support.h"

namespace convoy::ops {

bool ImageReading::is_shared(int input, int rank_of_output) const {
  return !has_images(input) && (rank(input) < rank_of_output || dims(input).front() == 1);
}

bool ImageReading::only(std::initializer_list<int> may) const {
  for (int i = 0; i < count(); ++i) {
    if (has_images(i) && std::ranges::find(may, i) == may.end()) return false;
  }
  return true;
}

bool ImageReading::is_single(int input) const {
  return !present(input) || std::ranges::all_of(dims(input), [](std::int64_t size) { return size == 1; });
}

std::optional<std::int64_t> ImageReading::integer(std::string_view attribute, std::int64_t fallback) const {
  const auto value = node_.integer(attribute, fallback);
  return value.ok() ? std::optional(*value) : std::nullopt;
}

std::optional<std::vector<std::int64_t>> ImageReading::integers(std::string_view attribute) const {
  auto values = node_.integers(attribute, {});
  return values.ok() ? std::optional(*std::move(values)) : std::nullopt;
}

std::optional<std::vector<std::int64_t>> ImageReading::integers(std::string_view attribute, int input) const {
  if (node_.has(attribute)) return integers(attribute);
  if (!present(input)) return std::vector<std::int64_t>{};
  auto values = constant_integers(node_, inputs_, input);
  return values.ok() ? std::optional(*std::move(values)) : std::nullopt;
}

std::optional<std::vector<double>> ImageReading::reals(int input) const {
  if (!present(input)) return std::vector<double>{};
  auto values = constant_reals(node_, inputs_, input);
  return values.ok() ? std::optional(*std::move(values)) : std::nullopt;
}

namespace images {

constexpr int kNoInput = 1 << 20;  // axes that are an attribute alone

bool mixed(const ImageReading&) { return false; }

// Of the images of input 0, each alone; the other inputs are the same for all.
bool each_alone(const ImageReading& r) { return r.only({0}); }

// An axis that is an attribute, or an input since opset 20.
bool dft(const ImageReading& r) {
  if (!r.only({0})) return false;
  if (r.node().opset < 20) return r.is_inner(r.integer("axis", 1), r.rank(0));
  const auto axis = r.integers("", 2);
  return axis && (axis->empty() || (axis->size() == 1 && r.is_inner(axis->front(), r.rank(0))));
}

bool deform_conv(const ImageReading& r) { return r.only({0, 2, 4}); }  // x, offsets, mask
bool grid_sample(const ImageReading& r) { return r.has_images(0) && r.has_images(1); }

bool element_wise(const ImageReading& r) {
  const int rank = static_cast<int>(r.output().size());
  for (int i = 0; i < r.count(); ++i) {
    if (r.present(i) && !(r.has_images(i) ? r.rank(i) == rank : r.is_shared(i, rank))) return false;
  }
  return true;
}

// Scales and zero points have an axis of their own.
bool quantize(const ImageReading& r) {
  if (!r.only({0})) return false;
  for (int i = 1; i < r.count(); ++i) {
    const std::int64_t default_axis = 1;
    const bool single = !r.present(i) || r.rank(i) == 0 || (r.rank(i) == 1 && r.dims(i).front() == 1);
    if (!single && (r.rank(i) != 1 || !r.is_inner(r.integer("axis", default_axis), r.rank(0)))) return false;
  }
  return true;
}

// Where some have 1 as their default, the same comes of it: behind the first, or refused.
bool along_last(const ImageReading& r) { return r.only({0}) && r.is_inner(r.integer("axis", -1), r.rank(0)); }
bool along_first(const ImageReading& r) { return r.only({0}) && r.is_inner(r.integer("axis", 0), r.rank(0)); }

static bool over(const ImageReading& r, int axes_input, bool none_is_all) {
  const auto axes = r.integers("axes", axes_input);
  if (!r.only({0}) || !axes || (axes->empty() && none_is_all)) return false;
  const int rank = std::max(r.rank(0), static_cast<int>(r.output().size()));  // Unsqueeze counts in its output
  return std::ranges::all_of(*axes, [&](std::int64_t axis) { return r.is_inner(axis, rank); });
}

bool over_axes(const ImageReading& r) { return over(r, 1, true); }
bool unsqueeze(const ImageReading& r) { return over(r, 1, false); }

// Over the images and places of each channel, where no axes are given.
bool mean_variance(const ImageReading& r) { return r.node().has("axes") && over(r, kNoInput, true); }

bool concat(const ImageReading& r) {
  for (int i = 0; i < r.count(); ++i) {
    if (!r.has_images(i)) return false;
  }
  return r.is_inner(r.integer("axis", 0), r.rank(0));
}

// Scale and zero point of the output, then each input with its own.
bool qlinear_concat(const ImageReading& r) {
  for (int i = 0; i < r.count(); ++i) {
    if (r.has_images(i) != (i >= 2 && i % 3 == 2)) return false;
  }
  return r.count() > 2 && r.is_inner(r.integer("axis", 0), r.rank(2));
}

// Of each image the same elements, or for each image those that its indices say.
bool gather(const ImageReading& r) {
  if (r.has_images(0)) return r.only({0}) && r.is_inner(r.integer("axis", 0), r.rank(0));
  return r.only({1}) && r.integer("axis", 0) == 0;
}

bool transpose(const ImageReading& r) {
  const auto order = r.integers("perm");
  return r.only({0}) && order && (order->empty() ? r.rank(0) == 1 : order->front() == 0);
}

bool pad(const ImageReading& r) {
  const auto pads = r.integers("pads", 1);
  if (!r.only({0}) || !pads || r.present(3)) return false;  // with axes of their own
  return pads->size() == 2 * r.dims(0).size() && pads->front() == 0 && (*pads)[r.dims(0).size()] == 0;
}

// By sizes, which are those that there were, or by a scale of 1.
bool resize(const ImageReading& r) {
  const auto mode = r.node().text("coordinate_transformation_mode", "");
  if (!r.only({0}) || !mode.ok() || *mode == "tf_crop_and_resize") return false;
  if (r.node().has("axes")) return over(r, kNoInput, true);
  const auto of_attribute = r.node().reals("scales", {});
  const int input = r.count() == 2 ? 1 : 2;
  const auto scales = r.node().has("scales") && of_attribute.ok() ? std::optional(*of_attribute) : r.reals(input);
  return scales && (scales->empty() || scales->front() == 1);
}

// Of the first axis nothing, or all of it in its order.
bool slice(const ImageReading& r) {
  const auto axes = r.integers("axes", 3);
  const auto steps = r.present(4) ? r.integers("", 4) : std::vector<std::int64_t>{};
  if (!r.only({0}) || !axes || !steps) return false;
  const bool named = r.node().has("axes") || r.present(3);
  for (std::size_t i = 0; i < (named ? axes->size() : 1); ++i) {
    if (named && r.is_inner((*axes)[i], r.rank(0))) continue;
    if (i < steps->size() && (*steps)[i] != 1) return false;
  }
  return true;
}

// A matrix or a stack of them for each image, by shared ones; or the other way around.
static bool product(const ImageReading& r, int a, int b) {
  const int rank = static_cast<int>(r.output().size());
  if (r.has_images(a) && r.rank(a) != rank) return false;
  if (!r.has_images(b)) return rank == 2 ? r.rank(b) == 2 : r.rank(b) <= 2 || r.is_shared(b, rank);
  if (r.rank(b) != rank || rank < 3) return false;
  return r.has_images(a) || r.rank(a) <= 2 || r.is_shared(a, rank);
}
bool matmul(const ImageReading& r) { return r.only({0, 1}) && product(r, 0, 1); }
bool matmul_integer(const ImageReading& r) { return r.only({0, 1}) && r.is_single(2) && product(r, 0, 1); }
bool qlinear_matmul(const ImageReading& r) {
  return r.only({0, 3}) && r.is_single(1) && r.is_single(2) && r.is_single(6) && r.is_single(7) && product(r, 0, 3);
}
bool gemm(const ImageReading& r) {
  return r.only({0}) && r.integer("transA", 0) == 0 && (!r.present(2) || r.is_shared(2, 2));
}
bool qgemm(const ImageReading& r) {  // a, its scale and zero point, b and its, c, those of the output
  return r.only({0}) && r.integer("transA", 0) == 0 && r.is_single(1) && r.is_single(2) &&
         (!r.present(6) || r.is_shared(6, 2));
}

// One output: the mean and the like of training are over all images, and indices of MaxPool count through them.
bool one_output(const ImageReading& r) {
  return each_alone(r) && r.integer("training_mode", 0) == 0 && r.has_one_output();
}

}  // namespace images
}  // namespace convoy::ops
