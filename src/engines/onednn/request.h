// A convolution problem in oneDNN's terms: memory descriptors, attributes with post-ops, and the walk over the
// implementations that take them. For this folder's sources only: it brings in oneDNN's header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/engine.h"
#include "device/onednn.h"
#include "engines/onednn/survey.h"

namespace convoy::onednn {

// What a pointer of an execution is.
enum class Source : std::uint8_t { x, w, y, bias, z, slopes, scales, x_zero_point, y_zero_point };

// An argument of the primitive besides x, w and y.
struct Extra {
  int id;  // DNNL_ARG_...
  Source source;
  dnnl::memory::desc desc;  // as it lies in the caller's memory
};

// The problem as oneDNN is asked. Its kernels take the pixels of one image at a time, so a batch of single pixels of 8
// bits, as a quantized product of matrices is, is one image of so many pixels, channels last: the same memory.
class AsOneImage {
 public:
  explicit AsOneImage(const ConvProblem& problem);
  const ConvProblem& problem() const { return merged_ ? *merged_ : given_; }

 private:
  const ConvProblem& given_;
  std::optional<ConvProblem> merged_;
};

// A channel and a filter a group.
bool is_depthwise(const ConvProblem& problem);
// Whether brdgmm_dw is offered for the problem without its bias only, as that is wider than x.
bool takes_no_wide_bias(const ConvProblem& problem);

// Whether oneDNN finds a level of VNNI, bf16, f16 or AMX instructions on the processor; true for other levels, which
// CpuFeatures tells.
bool processor_has(std::string_view level);

// What implementations without a level take: all of the processor that oneDNN uses, whatever a request is capped to.
Isa processor_isa();

// For used(): what decides which statics oneDNN makes. `row` is of a plan, or implementations().size().
std::uint64_t kind_of_use(const ConvProblem& problem, std::size_t row);

// Why oneDNN can't be asked for this problem at all, whatever the implementation.
std::optional<Refusal> inexpressible(const ConvProblem& problem);

// The note of the precision that oneDNN may give up for the problem's math mode.
std::optional<std::string_view> precision_note(const ConvProblem& problem);

// Of a NaN oneDNN's relu makes 0, clip a bound and hard_sigmoid 1, of infinity its gelu makes a NaN.
bool loses_special_values(const ConvProblem& problem);

// The packed layout, nhwc or nchw, in which x and y are described to oneDNN; nothing: none fits both. oneDNN compares
// the strides of dims of 1, too, which say nothing about memory: spelled in two ways, tensors would count as of two
// layouts. Where both layouts fit, the strides of x decide, and nhwc where they don't: more implementations take it.
std::optional<Layout> common_layout(const ConvProblem& problem);

// The description of a tensor as it lies in memory; `desc` is the problem's x or y.
// Precondition: inexpressible(problem) has nothing against it.
dnnl::memory::desc as_given(const ConvProblem& problem, const TensorDesc& desc);
dnnl::memory::desc weights_as_given(const ConvProblem& problem);

// Precondition: !inexpressible(problem). Its functions throw dnnl::error.
class Request {
 public:
  Request(const ConvProblem& problem, Form form);

  // The first implementation that takes it (next_impl leads to the others); empty when there is none. It is made for
  // the OpenMP threads of the caller.
  dnnl::primitive_desc first() const;

  const std::vector<Extra>& extras() const { return extras_; }

 private:
  void set_attributes();

  ConvProblem problem_;
  Form form_;
  dnnl::memory::desc x_, w_, y_, bias_;
  dnnl::primitive_attr attributes_;
  std::vector<Extra> extras_;
};

// "nchw", "nChw16c", "OIhw16i16o": `letters` are the dims' names, "nchw" or "goihw".
std::string format_of(const dnnl::memory::desc& desc, const char* letters);

}  // namespace convoy::onednn
