// Rules: whatever is read, written as rules again, reads as the same rules; and matching them finds a rule or none.
#include <cstdlib>
#include <string>
#include <string_view>

#include "convoy/convolution.h"
#include "convoy/engine.h"
#include "convoy/selection_options.h"
#include "fuzz/fuzz.h"
#include "select/choose/rules.h"

namespace {

// One of each kind that a rule may ask about.
constexpr std::string_view kProblems[] = {
    "fprop:x=f32,1x64x56x56,nchw:w=f32,64x64x3x3,nchw:pad=1x1:bias=1:act=relu",
    "fprop:x=u8,8x32x14x14,nhwc:w=s8,32x1x3x3,nchw:stride=2x2:groups=32",
    "dgrad:x=f16,2x16x8x8x8,nchw:w=f16,8x16x3x3x3,nchw:y=f16,2x8x6x6x6,nchw",
    "wgrad:x=bf16,4x3x32,nchw:w=bf16,8x3x5,nchw:y=bf16,4x8x28,nchw",
};

}  // namespace

void convoy::fuzz::rules(Bytes bytes) {
  const auto rules = parse_rules({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!rules.ok()) return;
  std::string text;
  for (const SelectionRule& rule : *rules) text += rule.pattern + " -> " + print(rule.candidate) + "\n";
  const auto again = parse_rules(text);
  if (!again.ok() || again->size() != rules->size()) std::abort();
  for (std::size_t i = 0; i < rules->size(); ++i) {
    if ((*again)[i].pattern != (*rules)[i].pattern || !((*again)[i].candidate == (*rules)[i].candidate)) std::abort();
  }
  for (const std::string_view each : kProblems) {
    const auto problem = parse_problem(each);
    if (!problem.ok()) std::abort();
    for (const std::string_view node : {"", "conv1", "/layer1/layer1.0/conv1/Conv"}) {
      if (!selection::find_rule(*rules, *problem, node).ok()) std::abort();  // their patterns were read
    }
  }
}
