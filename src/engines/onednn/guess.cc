#include "engines/onednn/guess.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "engines/onednn/implementations.h"
#include "engines/onednn/request.h"
#include "engines/onednn/survey.h"
#include "engines/onednn/traits.h"

namespace convoy::onednn {
namespace {

enum class Answer : std::uint8_t { no, as_given, reordered };

// A question, whose answer yes is the next node; or, where `trait` is kLeaf, an answer.
struct Node {
  std::uint8_t trait;
  std::uint16_t
      otherwise;  // the node of the answer no; of a leaf: the Answer, and kSure where hardly any was seen to differ
};
constexpr std::uint8_t kLeaf = 0xff;
constexpr std::uint16_t kSure = 4;

struct Tree {
  std::string_view name;  // of the implementation
  std::uint16_t root;
};
#include "engines/onednn/offered.inc"  // Node kNodes[], Tree kTrees[]

constexpr std::uint16_t kNoTree = 0xffff;

// Roots by row.
std::span<const std::uint16_t> roots() {
  static const auto& roots = *[] {
    auto* all = new std::vector<std::uint16_t>;
    for (const Implementation& row : implementations()) {
      const auto tree =
          std::find_if(std::begin(kTrees), std::end(kTrees), [&](const Tree& each) { return each.name == row.name(); });
      all->push_back(tree == std::end(kTrees) ? kNoTree : tree->root);
    }
    return all;
  }();
  return roots;
}

// The processors that oneDNN was asked on: those with AVX2, up to AMX. With AVX-NE-CONVERT, which no processor had that
// it was asked on, it offers more.
bool is_known_processor() {
  static const bool known = processor_isa() != Isa::portable && !processor_has("avx2_vnni_2");
  return known;
}

// The kinds of problems that the trees were learnt on.
bool is_usual(const ConvProblem& p) {
  const bool integers = p.compute == DataType::s32;
  const bool types = integers ? p.y.type == p.x.type : p.x.type == p.w.type && p.x.type == p.y.type;
  const bool placed = (p.x.is_packed(Layout::nhwc) && p.y.is_packed(Layout::nhwc)) ||
                      (p.x.is_packed(Layout::nchw) && p.y.is_packed(Layout::nchw));
  // One number a sample is in every layout at once; which of them an implementation then names is its own matter.
  const bool several = p.x.elements() > p.batch();
  const Epilogue& epilogue = p.epilogue;
  return types && placed && several && p.w.is_packed(Layout::nchw) && p.x.type != DataType::f16 && p.alpha == 1 &&
         p.beta == 0 && !epilogue.adds_z() && p.math == MathMode::strict && p.batch() <= 1024 && p.x_zero_point == 0 &&
         p.w_zero_point == 0 && p.y_zero_point == 0 && !p.x_zero_given && !p.w_zero_given &&
         (!integers || epilogue.requantize != Requantize::none);
}

// Whether the implementation is for problems of this shape at all.
bool fits(const Implementation& row, const ConvProblem& p) {
  const auto ones = [](const Dims& dims) {
    return std::all_of(dims.begin() + 2, dims.end(), [](std::int64_t dim) { return dim == 1; });
  };
  switch (row.shape) {
    case Shape::any:
      return true;
    case Shape::pointwise:
      return ones(p.w.dims);
    case Shape::depthwise:
      return is_depthwise(p);
    case Shape::whole_window:
      return ones(p.y.dims);
  }
  return true;
}

// What another oneDNN than the one that the trees were learnt of says itself.
std::optional<Guess> asked(std::size_t index, const ConvProblem& p) {
  if (inexpressible(p)) return std::nullopt;
  const auto surveyed = survey(p);
  const SurveyedImplementation* const offer = surveyed->find(index);
  if (offer == nullptr) return std::nullopt;
  return Guess{offer->form.any_layout, offer->reordered_bytes, true, true, false};
}

}  // namespace

std::optional<Guess> guess(std::size_t index, const ConvProblem& p) {
  const Implementation& row = implementations()[index];
  if (!is_linked_library()) return fits(row, p) ? asked(index, p) : std::nullopt;
  // Takes a hundred times as long for some of these.
  if (row.family == "jit" && row.level == "avx2" && p.pass == Pass::wgrad && p.groups > 1) return std::nullopt;
  if (row.family.starts_with("brgconv") && row.level == "avx2" && p.pass == Pass::fprop && p.w.dims[0] / p.groups < 8)
    return std::nullopt;
  if (row.family == "brg_fwd" && row.level == "avx2" && p.w.dims[1] < 8) return std::nullopt;
  if (row.family == "brgconv_bwd_w" && p.groups > 1 && p.w.dims[1] == 1) return std::nullopt;
  if (row.family == "jit_dw" && (row.level == "avx2" || row.level == "sse41") && p.groups < 8) return std::nullopt;
  if (!fits(row, p)) return std::nullopt;
  // Offered in a form without the bias (forms_of).
  if (row.family == "brdgmm_dw" && takes_no_wide_bias(p)) {
    ConvProblem bare = p;
    bare.epilogue.bias = false;
    return onednn::guess(index, bare);
  }
  Guess guess;
  // Of others oneDNN has to be asked: the guess is the least that it can cost, so that nothing slower is taken before.
  if (!is_known_processor() || !is_usual(p)) return guess;
  std::uint16_t at = roots()[index];
  if (at == kNoTree) return std::nullopt;  // oneDNN never offered it
  while (kNodes[at].trait != kLeaf) {
    at = traits()[kNodes[at].trait].holds(p) ? at + 1 : kNodes[at].otherwise;
  }
  const auto answer = static_cast<Answer>(kNodes[at].otherwise % kSure);
  guess.sure = kNodes[at].otherwise >= kSure;
  guess.unlikely = answer == Answer::no;
  if (guess.unlikely && guess.sure) return std::nullopt;
  guess.learnt = !guess.unlikely;
  guess.any_layout = answer == Answer::reordered;
  if (guess.any_layout) guess.copied_bytes = p.x.bytes() + p.y.bytes() * (p.epilogue.adds_z() ? 2 : 1);
  return guess;
}

}  // namespace convoy::onednn
