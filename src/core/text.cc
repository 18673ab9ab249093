#include "core/text.h"

#include <charconv>
#include <system_error>

#include "base/errors.h"

namespace convoy {
namespace {

constexpr std::size_t kMostDims = 16;  // keeps what is kept of a hostile text, and the errors about it, short

template <class T>
Result<T> parse_number(std::string_view text, const char* what) {
  T value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code == std::errc::result_out_of_range && end == text.data() + text.size()) {
    return invalid(quoted(text) + " is out of range");
  }
  if (code != std::errc() || end != text.data() + text.size()) return invalid(quoted(text) + " is not " + what);
  return value;
}

// The layout whose packed strides are exactly these, unit dims included; `strided` for none.
Layout exact_layout(const TensorDesc& desc) {
  for (Layout layout : {Layout::nchw, Layout::nhwc, Layout::nchw8c, Layout::nchw16c}) {
    const TensorDesc packed = desc.with_layout(layout);
    if (packed.strides == desc.strides && packed.channel_block == desc.channel_block) return layout;
  }
  return Layout::strided;
}

}  // namespace

std::string quoted(std::string_view text) {
  constexpr std::size_t kMost = 60;
  std::string result = "'";
  for (char c : text.substr(0, kMost)) result += c >= 0x20 && c < 0x7f ? c : '?';
  result += text.size() > kMost ? "...'" : "'";
  return result;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (true) {
    const std::size_t at = text.find(separator);
    pieces.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return pieces;
    text.remove_prefix(at + 1);
  }
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\f\v";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

Result<std::int64_t> parse_integer(std::string_view text) { return parse_number<std::int64_t>(text, "an integer"); }

std::string print_double(double value) {
  char buffer[32];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  return {buffer, result.ptr};
}

Result<double> parse_double(std::string_view text) { return parse_number<double>(text, "a number"); }

Result<Dims> parse_dims(std::string_view text) {
  Dims dims;
  for (std::string_view piece : split(text, 'x')) {
    if (dims.size() == kMostDims) return invalid("more than " + std::to_string(kMostDims) + " dims");
    CONVOY_TRY(const std::int64_t dim, parse_integer(piece));
    dims.push_back(dim);
  }
  return dims;
}

std::string print(const TensorDesc& desc) {
  std::string text(name_of(desc.type));
  text += ',';
  text += to_string(desc.dims);
  text += ',';
  const Layout layout = exact_layout(desc);
  if (layout != Layout::strided) {
    text += name_of(layout, desc.spatial_dims());
  } else {
    text += "strides=" + to_string(desc.strides);
    if (desc.channel_block != 1) text += ",block=" + std::to_string(desc.channel_block);
  }
  if (desc.alignment != TensorDesc{}.alignment) text += ",align=" + std::to_string(desc.alignment);
  return text;
}

Result<TensorDesc> parse_tensor(std::string_view text) {
  const std::vector<std::string_view> pieces = split(text, ',');
  CONVOY_TRY(const DataType type, parse_data_type(pieces[0]));
  if (pieces.size() < 2) return invalid("the dims are missing: TYPE,DIMS,LAYOUT is wanted, " + quoted(text) + " given");
  auto dims = parse_dims(pieces[1]);
  if (!dims.ok()) return dims.error().within("dims " + quoted(pieces[1]));

  Layout layout = Layout::nchw;
  Dims strides;
  std::int64_t block = 1, alignment = TensorDesc{}.alignment;
  bool has_layout = false, has_strides = false, has_block = false, has_alignment = false;
  const auto number = [&](std::string_view piece, bool& seen, std::int64_t& value) -> Result<void> {
    const std::string_view key = piece.substr(0, piece.find('='));
    if (seen) return invalid(std::string(key) + " is given twice");
    seen = true;
    const auto parsed = parse_integer(piece.substr(key.size() + 1));
    if (!parsed.ok()) return parsed.error().within(std::string(key));
    value = *parsed;
    return {};
  };
  for (std::size_t i = 2; i < pieces.size(); ++i) {
    const std::string_view piece = pieces[i];
    if (piece.starts_with("strides=")) {
      if (has_strides || has_layout) return invalid("strides are given beside another layout");
      has_strides = true;
      auto parsed = parse_dims(piece.substr(8));
      if (!parsed.ok()) return parsed.error().within("strides " + quoted(piece.substr(8)));
      strides = *std::move(parsed);
    } else if (piece.starts_with("block=")) {
      CONVOY_CHECK(number(piece, has_block, block));
    } else if (piece.starts_with("align=")) {
      CONVOY_CHECK(number(piece, has_alignment, alignment));
    } else {
      if (has_strides || has_layout) return invalid("a second layout, " + quoted(piece) + ", is given");
      has_layout = true;
      CONVOY_TRY(layout, parse_layout(piece));
      if (layout == Layout::strided) return invalid("a strided tensor is written strides=AxBx..., not 'strided'");
    }
  }
  if (has_block && !has_strides) return invalid("block=" + std::to_string(block) + " goes with strides=... only");

  TensorDesc desc = TensorDesc::packed(type, *std::move(dims), layout);
  if (has_strides) {
    desc.strides = std::move(strides);
    desc.channel_block = block;
  }
  desc.alignment = alignment;
  return desc;
}

}  // namespace convoy
