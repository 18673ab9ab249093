// Operators of ONNX Runtime's domain that ONNX has as well: older, with the same inputs and attributes.
#include <array>

#include "network/graph/composite.h"

namespace convoy::network {
namespace {

Result<void> as_onnx_has_it(Expansion& e) {
  std::vector<int> inputs;
  for (int i = 0; i < e.inputs(); ++i) inputs.push_back(e.input(i));
  Expansion::Attributes attributes = e.node().attributes;
  // ONNX calls its modes otherwise since opset 20.
  const int opset = e.node().op == "GridSample" ? 16 : 14;
  CONVOY_TRY(const int y,
             e.add({.op = e.node().op, .domain = "", .name = "", .opset = opset, .attributes = attributes}, inputs));
  e.give(0, y);
  return {};
}

constexpr int kRange[] = {0, 1, 2}, kPad[] = {1, 2}, kTrilu[] = {1};

constexpr std::array kRenamedComposites{
    Composite{"GatherND", as_onnx_has_it},
    Composite{"GridSample", as_onnx_has_it},
    Composite{"Pad", as_onnx_has_it, "com.microsoft", kPad},
    Composite{"Range", as_onnx_has_it, "com.microsoft", kRange},
    Composite{"Trilu", as_onnx_has_it, "com.microsoft", kTrilu},
};

}  // namespace

std::span<const Composite> renamed_composites() { return kRenamedComposites; }

}  // namespace convoy::network
