#include "ops/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/errors.h"
#include "core/nearest.h"
#include "core/text.h"
#include "ops/operator_row.h"
#include "ops/support.h"

namespace convoy::ops {
namespace {

// ---- texts

bool is_plain_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    result += is_plain_character(c) ? std::string(1, c) : fmt::format("%{:02x}", static_cast<unsigned char>(c));
  }
  return result;
}

Result<std::string> unescaped(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_plain_character(text[i])) {
      result += text[i];
      continue;
    }
    const auto digit = [&](std::size_t at) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      return at < text.size() ? kDigits.find(text[at]) : std::string_view::npos;
    };
    const std::size_t high = digit(i + 1), low = digit(i + 2);
    if (text[i] != '%' || high == std::string_view::npos || low == std::string_view::npos) {
      return invalid(quoted(text) + " has characters that have to be written %xx");
    }
    result += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return result;
}

// ---- values, in the order of memory

template <class T>
std::int64_t load_integer(const std::byte* data, std::int64_t i) {
  T value;
  std::memcpy(&value, data + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return static_cast<std::int64_t>(value);
}
template <class T>
bool store_integer(std::byte* data, std::int64_t i, std::int64_t value) {
  const T narrow = static_cast<T>(value);
  std::memcpy(data + i * static_cast<std::int64_t>(sizeof(T)), &narrow, sizeof(T));
  return static_cast<std::int64_t>(narrow) == value;
}

// Calls body(T{}) with the type of integers (u64 as s64, by its bits; bool as u8), or says no.
template <class Body>
bool with_integer(DataType type, Body body) {
  switch (type) {
    case DataType::s64:
    case DataType::u64:
      return body(std::int64_t{});
    case DataType::s32:
      return body(std::int32_t{});
    case DataType::u32:
      return body(std::uint32_t{});
    case DataType::s16:
      return body(std::int16_t{});
    case DataType::u16:
      return body(std::uint16_t{});
    case DataType::s8:
    case DataType::s4:
    case DataType::s2:
      return body(std::int8_t{});
    case DataType::u8:
    case DataType::u4:
    case DataType::u2:
    case DataType::boolean:
      return body(std::uint8_t{});
    default:
      return false;
  }
}

bool is_integral(DataType type) { return is_integer(type) || type == DataType::boolean; }

std::string print_values(const TensorDesc& desc, const std::byte* data) {
  std::string text;
  for (std::int64_t i = 0; i < desc.elements(); ++i) {
    if (i > 0) text += '/';
    if (is_integral(desc.type)) {
      with_integer(desc.type, [&](auto kind) {
        text += std::to_string(load_integer<decltype(kind)>(data, i));
        return true;
      });
    } else {
      const double value = load_as_double(desc.type, data, i);  // the narrower types are exact as floats
      text += desc.type == DataType::f64 || !std::isfinite(value) ? print_double(value)
                                                                  : fmt::format("{}", static_cast<float>(value));
    }
  }
  return text;
}

bool has_gaps(const TensorDesc& desc) { return desc.storage_elements() != desc.elements(); }

Result<std::shared_ptr<std::byte>> parse_values(const TensorDesc& desc, std::string_view text) {
  if (has_gaps(desc)) return invalid("values of a tensor with gaps or padding can't be given");
  const std::vector<std::string_view> pieces = text.empty() ? std::vector<std::string_view>() : split(text, '/');
  if (static_cast<std::int64_t>(pieces.size()) != desc.elements()) {
    return invalid(fmt::format("{} values are given for {} elements", pieces.size(), desc.elements()));
  }
  auto data = allocate_aligned(std::max<std::size_t>(1, static_cast<std::size_t>(desc.bytes())));
  if (!data) return Error{ErrorCode::out_of_memory, "no memory for values"};
  for (std::size_t n = 0; n < pieces.size(); ++n) {
    const auto i = static_cast<std::int64_t>(n);
    if (!is_integral(desc.type)) {
      CONVOY_TRY(const double value, parse_double(pieces[n]));
      store_from_double(desc.type, data.get(), i, value);
      continue;
    }
    CONVOY_TRY(const std::int64_t value, parse_integer(pieces[n]));
    if (!with_integer(desc.type, [&](auto kind) { return store_integer<decltype(kind)>(data.get(), i, value); })) {
      return invalid(fmt::format("{} is out of the range of {}", quoted(pieces[n]), name_of(desc.type)));
    }
  }
  return data;
}

// ---- tensors

std::string print_tensor(const TensorDesc& desc) {
  if (desc.rank() > 0) return convoy::print(desc);
  std::string text = fmt::format("{},scalar", name_of(desc.type));
  if (desc.alignment != TensorDesc{}.alignment) text += fmt::format(",align={}", desc.alignment);
  return text;
}

Result<TensorDesc> parse_desc(std::string_view text) {
  const auto pieces = split(text, ',');
  TensorDesc desc;
  if (pieces.size() >= 2 && pieces[1] == "scalar") {
    CONVOY_TRY(const DataType type, parse_data_type(pieces[0]));
    desc = TensorDesc::packed(type, {});
    if (pieces.size() > 3 || (pieces.size() == 3 && !pieces[2].starts_with("align="))) {
      return invalid(quoted(text) + " has more than TYPE,scalar[,align=N]");
    }
    if (pieces.size() == 3) {
      CONVOY_TRY(desc.alignment, parse_integer(pieces[2].substr(6)));
    }
  } else {
    CONVOY_TRY(desc, parse_tensor(text));
  }
  CONVOY_CHECK(validate(desc, "tensor"));
  return desc;
}

// The text without an end ",values=..." or ",constant", and that end.
std::pair<std::string_view, std::string_view> without_end(std::string_view text) {
  std::size_t at = text.find(",values=");
  if (at == std::string_view::npos && text.ends_with(",constant")) at = text.size() - std::strlen(",constant");
  if (at == std::string_view::npos) return {text, {}};
  return {text.substr(0, at), text.substr(at + 1)};
}

Result<Operand> parse_operand(std::string_view text) {
  Operand operand;
  if (text == "none") return operand;
  operand.present = true;
  const auto [tensor, end] = without_end(text);
  CONVOY_TRY(operand.desc, parse_desc(tensor));
  operand.constant = !end.empty();
  if (end.starts_with("values=")) {
    if (operand.desc.elements() > kMostValues) {
      return invalid(fmt::format("values of {} elements; {} are the most, others are ',constant'",
                                 operand.desc.elements(), kMostValues));
    }
    CONVOY_TRY(operand.values, parse_values(operand.desc, end.substr(std::strlen("values="))));
  }
  return operand;
}

// ---- attributes

constexpr std::array<std::string_view, 7> kKinds = {"int", "real", "text", "ints", "reals", "texts", "tensor"};

std::string print_value(std::int64_t value) { return std::to_string(value); }
std::string print_value(double value) { return print_double(value); }
std::string print_value(const std::string& value) { return escaped(value); }
std::string print_value(const HostTensor& tensor) {
  return fmt::format("{},values={}", print_tensor(tensor.desc), print_values(tensor.desc, tensor.data.get()));
}

std::string print_attribute(const Attribute& attribute) {
  std::string text(kKinds[attribute.index()]);
  std::visit(
      [&]<class T>(const T& value) {
        if constexpr (requires { value.begin(); } && !std::is_same_v<T, std::string>) {
          for (const auto& each : value) text += fmt::format(",{}", print_value(each));
        } else {
          text += fmt::format(",{}", print_value(value));
        }
      },
      attribute);
  return text;
}

template <class T, class Parse>
Result<Attribute> parse_all(std::span<const std::string_view> pieces, Parse parse) {
  std::vector<T> values;
  for (const std::string_view piece : pieces) {
    CONVOY_TRY(T value, parse(piece));
    values.push_back(std::move(value));
  }
  return Attribute(std::move(values));
}

Result<Attribute> parse_attribute(std::string_view text) {
  const std::vector<std::string_view> pieces = split(text, ',');
  const auto values = std::span(pieces).subspan(1);
  const std::string_view kind = pieces[0];
  const bool single = kind == "int" || kind == "real" || kind == "text";
  if (single && values.size() != 1) return invalid(fmt::format("{} has one value, {} given", kind, values.size()));
  if (kind == "int") {
    CONVOY_TRY(const std::int64_t value, parse_integer(values[0]));
    return Attribute(value);
  }
  if (kind == "real") {
    CONVOY_TRY(const double value, parse_double(values[0]));
    return Attribute(value);
  }
  if (kind == "text") {
    CONVOY_TRY(std::string value, unescaped(values[0]));
    return Attribute(std::move(value));
  }
  if (kind == "ints") return parse_all<std::int64_t>(values, [](auto piece) { return parse_integer(piece); });
  if (kind == "reals") return parse_all<double>(values, [](auto piece) { return parse_double(piece); });
  if (kind == "texts") return parse_all<std::string>(values, [](auto piece) { return unescaped(piece); });
  if (kind != "tensor") return invalid(fmt::format("{} is not one of {}", quoted(kind), fmt::join(kKinds, ", ")));
  if (values.empty()) return invalid("a tensor is TYPE,DIMS,LAYOUT,values=...");
  const auto [tensor, end] = without_end(text.substr(kind.size() + 1));
  if (!end.starts_with("values=")) return invalid("the tensor's values are missing (values=A/B/...)");
  HostTensor value;
  CONVOY_TRY(value.desc, parse_desc(tensor));
  CONVOY_TRY(value.data, parse_values(value.desc, end.substr(std::strlen("values="))));
  return Attribute(std::move(value));
}

// ---- fields

std::string numbered(char name, std::size_t index) {
  return index == 0 ? std::string(1, name) : fmt::format("{}{}", name, index);
}

// The index that "x" or "x3" says, if it is such a field. Fields come in order, so this is the next one or an error.
bool is_numbered(std::string_view field, char name) {
  return !field.empty() && field[0] == name &&
         std::all_of(field.begin() + 1, field.end(), [](char c) { return c >= '0' && c <= '9'; });
}

Error out_of_order(std::string_view field, char name, std::size_t next) {
  return invalid(fmt::format("field {}: '{}' comes next", quoted(field), numbered(name, next)));
}

struct Seen {
  bool domain = false, opset = false;
};

Result<void> parse_field(std::string_view field, std::string_view value, OpProblem& p, Seen& seen) {
  if (is_numbered(field, 'x')) {
    if (field != numbered('x', p.inputs.size())) return out_of_order(field, 'x', p.inputs.size());
    auto operand = parse_operand(value);
    if (!operand.ok()) return operand.error().within(std::string(field));
    p.inputs.push_back(*std::move(operand));
    return {};
  }
  if (is_numbered(field, 'y')) {
    if (field != numbered('y', p.outputs.size())) return out_of_order(field, 'y', p.outputs.size());
    auto desc = parse_desc(value);
    if (!desc.ok()) return desc.error().within(std::string(field));
    p.outputs.push_back(*std::move(desc));
    return {};
  }
  if (field.starts_with('@')) {
    CONVOY_TRY(const std::string name, unescaped(field.substr(1)));
    if (p.node.attributes.contains(name)) return invalid("field " + quoted(field) + " is given twice");
    auto attribute = parse_attribute(value);
    if (!attribute.ok()) return attribute.error().within(std::string(field));
    p.node.attributes.emplace(name, *std::move(attribute));
    return {};
  }
  if (field != "domain" && field != "opset") {
    return invalid("field " + quoted(field) + " is not one of x, x1 ..., y, y1 ..., domain, opset, @ATTRIBUTE");
  }
  bool& given = field == "domain" ? seen.domain : seen.opset;
  if (given) return invalid("field " + quoted(field) + " is given twice");
  given = true;
  if (field == "domain") {
    auto domain = unescaped(value);
    if (!domain.ok()) return domain.error().within("domain");
    p.node.domain = *std::move(domain);
    return {};
  }
  const auto opset = parse_integer(value);
  if (!opset.ok()) return opset.error().within("opset");
  if (*opset < 1 || *opset > 1'000'000) return invalid("opset: " + quoted(value) + " is out of range");
  p.node.opset = static_cast<int>(*opset);
  return {};
}

}  // namespace

OpProblem describe(const NodeDesc& node, std::span<const Input> inputs, std::span<const TensorDesc> outputs) {
  OpProblem problem{node, {}, {outputs.begin(), outputs.end()}};
  problem.node.name.clear();
  problem.node.output_count = static_cast<int>(outputs.size());
  for (const Input& input : inputs) {
    Operand operand{input.present, input.desc, input.constant != nullptr, nullptr};
    if (operand.constant && !has_gaps(input.desc) && input.desc.elements() <= kMostValues) {
      const auto bytes = static_cast<std::size_t>(input.desc.bytes());
      operand.values = allocate_aligned(std::max<std::size_t>(1, bytes));
      if (operand.values) std::memcpy(operand.values.get(), input.constant, bytes);
    }
    problem.inputs.push_back(std::move(operand));
  }
  return problem;
}

std::string print(const OpProblem& p) {
  std::string text = fmt::format("op:{}", escaped(p.node.op));
  for (std::size_t i = 0; i < p.inputs.size(); ++i) {
    const Operand& input = p.inputs[i];
    text += fmt::format(":{}={}", numbered('x', i), input.present ? print_tensor(input.desc) : "none");
    if (input.values) {
      text += ",values=" + print_values(input.desc, input.values.get());
    } else if (input.constant) {
      text += ",constant";
    }
  }
  for (std::size_t i = 0; i < p.outputs.size(); ++i) {
    text += fmt::format(":{}={}", numbered('y', i), print_tensor(p.outputs[i]));
  }
  if (!p.node.domain.empty()) text += ":domain=" + escaped(p.node.domain);
  if (p.node.opset != NodeDesc().opset) text += fmt::format(":opset={}", p.node.opset);
  for (const auto& [name, attribute] : p.node.attributes) {
    text += fmt::format(":@{}={}", escaped(name), print_attribute(attribute));
  }
  return text;
}

bool is_operator_string(std::string_view text) { return trim(text).starts_with("op:"); }

Result<OpProblem> parse_operator(std::string_view text) {
  const std::vector<std::string_view> pieces = split(trim(text), ':');
  if (pieces[0] != "op") return invalid(quoted(pieces[0]) + " is not 'op'");
  if (pieces.size() < 2 || pieces[1].empty()) return invalid("the operator's name is missing: op:NAME:x=...");
  OpProblem p;
  auto name = unescaped(pieces[1]);
  if (!name.ok()) return name.error().within("op");
  p.node.op = *std::move(name);
  Seen seen;
  for (std::size_t i = 2; i < pieces.size(); ++i) {
    const std::size_t equals = pieces[i].find('=');
    if (equals == std::string_view::npos) return invalid("field " + quoted(pieces[i]) + " has no '='");
    CONVOY_CHECK(parse_field(pieces[i].substr(0, equals), pieces[i].substr(equals + 1), p, seen));
  }
  if (find_row(p.node.domain, p.node.op) == nullptr) {
    const std::string of = p.node.domain.empty() ? "" : " of domain " + quoted(p.node.domain);
    return invalid(quoted(p.node.op) + " is no operator" + of + did_you_mean(p.node.op, operator_names()));
  }
  p.node.output_count = std::max(1, static_cast<int>(p.outputs.size()));
  return p;
}

std::vector<Input> inputs_of(const OpProblem& problem) {
  std::vector<Input> inputs;
  for (const Operand& operand : problem.inputs) {
    inputs.push_back({operand.present, operand.desc, operand.values.get()});
  }
  return inputs;
}

Result<void> complete(OpProblem& p) {
  const OperatorRow& row = *find_row(p.node.domain, p.node.op);
  const std::vector<Input> inputs = inputs_of(p);
  CONVOY_TRY(std::vector<TensorDesc> outputs, row.infer(p.node, inputs));
  if (p.outputs.empty()) {
    const bool has_x = !p.inputs.empty() && p.inputs[0].present && p.inputs[0].desc.rank() >= 3;
    const Layout layout = has_x ? p.inputs[0].desc.layout() : Layout::nchw;
    for (TensorDesc& desc : outputs) {
      if (desc.rank() >= 3 && layout != Layout::strided) desc = desc.with_layout(layout);
    }
    p.outputs = std::move(outputs);
    return {};
  }
  if (p.outputs.size() != outputs.size()) {
    return invalid(fmt::format("{} has {} outputs here, {} are given", p.node.op, outputs.size(), p.outputs.size()));
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].type == p.outputs[i].type && outputs[i].dims == p.outputs[i].dims) continue;
    return invalid(fmt::format("{}={} is not what {} gives, which is {} of {}", numbered('y', i),
                               print_tensor(p.outputs[i]), p.node.op, to_string(outputs[i].dims),
                               name_of(outputs[i].type)));
  }
  return {};
}

double bytes_moved(const OpProblem& problem) {
  double bytes = 0;
  for (const Operand& input : problem.inputs) {
    if (input.present) bytes += static_cast<double>(input.desc.bytes());
  }
  for (const TensorDesc& output : problem.outputs) bytes += static_cast<double>(output.bytes());
  return bytes;
}

}  // namespace convoy::ops
