#include "engines/cuda/compiler/constants.h"

#include <fmt/format.h>

#include <cctype>
#include <limits>

namespace convoy::cuda {
namespace {

std::string upper(std::string_view name) {
  std::string text(name);
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

Constants& Constants::set(std::string_view name, std::int64_t value) {
  const bool small = value >= -std::numeric_limits<int>::max() && value <= std::numeric_limits<int>::max();
  text_ += small ? fmt::format("constexpr int {} = {};\n", name, value)
                 : fmt::format("constexpr long long {} = {}ll;\n", name, value);
  return *this;
}

Constants& Constants::set(std::string_view name, bool value) {
  text_ += fmt::format("constexpr bool {} = {};\n", name, value);
  return *this;
}

Constants& Constants::set(std::string_view name, double value) {
  // Infinities have no literal; hexadecimal digits lose nothing.
  const char* sign = value < 0 ? "-" : "";
  if (value > std::numeric_limits<double>::max() || value < -std::numeric_limits<double>::max()) {
    text_ += fmt::format("#define {} ({}__int_as_float(0x7f800000))\n", name, sign);
  } else {
    text_ += fmt::format("constexpr float {} = static_cast<float>({:a});\n", name, value);
  }
  return *this;
}

Constants& Constants::define(std::string_view name, std::int64_t value) {
  text_ += fmt::format("#define {} {}\n", name, value);
  return *this;
}

Constants& Constants::work_blocks(std::int64_t blocks) {
  text_ += fmt::format("#define WORK_BLOCKS {}u\n", blocks);
  return *this;
}

Constants& Constants::element(DataType type) {
  text_ += "struct f16;\nstruct bf16;\n";
  text_ += fmt::format("using ELEMENT = {};\n", type == DataType::f16    ? "f16"
                                                : type == DataType::bf16 ? "bf16"
                                                                         : "float");
  return *this;
}

Constants& Constants::epilogue(const ConvProblem& p) {
  const Activation& activation = p.epilogue.activation;
  set("ALPHA", p.alpha).set("BETA", p.beta).set("GAMMA", p.epilogue.gamma).set("BIAS", p.epilogue.bias);
  set("NARROW_BIAS", p.epilogue.narrow_bias);
  set("ACTIVATION", static_cast<int>(activation.kind));
  return set("ACTIVATION_A", activation.a).set("ACTIVATION_B", activation.b);
}

Constants& Constants::enumerations() {
  for (int i = 0; i <= static_cast<int>(DataType::boolean); ++i) {
    set(fmt::format("TYPE_{}", upper(name_of(static_cast<DataType>(i)))), i);
  }
  for (int i = 0; i <= static_cast<int>(Pass::wgrad); ++i)
    set(fmt::format("PASS_{}", upper(name_of(static_cast<Pass>(i)))), i);
  for (int i = 0; i <= static_cast<int>(ActivationKind::mish); ++i) {
    set(fmt::format("ACTIVATION_{}", upper(name_of(static_cast<ActivationKind>(i)))), i);
  }
  return *this;
}

}  // namespace convoy::cuda
