// Which operators compute each image of a batch apart, so that the batch may be run in parts: rules that a row of the
// table names (operator_row.h).
#pragma once

#include <initializer_list>
#include <optional>
#include <vector>

#include "ops/operator.h"

namespace convoy::ops {

// A node, its inputs, and which of these have images in their first dim; the others are the same for all images.
class ImageReading {
 public:
  ImageReading(const NodeDesc& node, std::vector<Input> inputs, std::vector<bool> has_images, Dims output,
               bool one_output)
      : node_(node),
        inputs_(std::move(inputs)),
        has_images_(std::move(has_images)),
        output_(std::move(output)),
        one_output_(one_output) {}

  const NodeDesc& node() const { return node_; }
  int count() const { return static_cast<int>(inputs_.size()); }
  bool present(int input) const { return input < count() && inputs_[static_cast<std::size_t>(input)].present; }
  bool has_images(int input) const { return present(input) && has_images_[static_cast<std::size_t>(input)]; }
  const Dims& dims(int input) const { return inputs_[static_cast<std::size_t>(input)].desc.dims; }
  int rank(int input) const { return static_cast<int>(dims(input).size()); }
  const Dims& output() const { return output_; }  // of the first output
  bool has_one_output() const { return one_output_; }

  // The same for all images when it is broadcast to so many dims.
  bool is_shared(int input, int rank_of_output) const;
  // No other inputs than these have images.
  bool only(std::initializer_list<int> may) const;
  // It has one element.
  bool is_single(int input) const;

  // Of an attribute, or an input's values; nothing where they can't be read. An input that is absent has none.
  std::optional<std::int64_t> integer(std::string_view attribute, std::int64_t fallback) const;
  std::optional<std::vector<std::int64_t>> integers(std::string_view attribute) const;
  std::optional<std::vector<std::int64_t>> integers(std::string_view attribute, int input) const;
  std::optional<std::vector<double>> reals(int input) const;
  // That an axis, as attributes have it, is behind the first.
  bool is_inner(std::optional<std::int64_t> axis, int of_rank) const {
    return axis && (*axis < 0 ? *axis + of_rank : *axis) > 0;
  }

 private:
  const NodeDesc& node_;
  std::vector<Input> inputs_;
  std::vector<bool> has_images_;
  Dims output_;
  bool one_output_;
};

// That each image of the outputs comes from the same image of the inputs. That the outputs' first dim counts images has
// been checked for all.
using ImageRule = bool (*)(const ImageReading&);

namespace images {
bool mixed(const ImageReading&);       // never, or nobody has shown it
bool each_alone(const ImageReading&);  // of the images of input 0, each alone; the other inputs are the same for all
bool one_output(
    const ImageReading&);  // the same where a second output, which counts through all images, isn't asked for
bool element_wise(const ImageReading&);
bool quantize(const ImageReading&);
bool concat(const ImageReading&);
bool gather(const ImageReading&);
bool transpose(const ImageReading&);
bool pad(const ImageReading&);
bool resize(const ImageReading&);
bool slice(const ImageReading&);
bool matmul(const ImageReading&);
bool gemm(const ImageReading&);
bool along_last(const ImageReading&);   // along `axis`, -1 by default, behind the first
bool along_first(const ImageReading&);  // 0 by default
bool over_axes(const ImageReading&);    // over `axes`, attribute or input 1, all where there are none
bool unsqueeze(const ImageReading&);
bool mean_variance(const ImageReading&);
bool dft(const ImageReading&);
bool deform_conv(const ImageReading&);
bool grid_sample(const ImageReading&);
bool qlinear_concat(const ImageReading&);
bool matmul_integer(const ImageReading&);
bool qlinear_matmul(const ImageReading&);
bool qgemm(const ImageReading&);
}  // namespace images

}  // namespace convoy::ops
