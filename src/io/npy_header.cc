#include "io/npy_header.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <string_view>

#include "core/file_signature.h"

namespace convoy::io {
namespace {

constexpr std::size_t kMaxRank = 32;  // NumPy 1's own limit

struct TypeName {
  std::string_view code;  // without the byte order
  DataType type;
};
constexpr TypeName kNpyTypes[] = {
    {"f8", DataType::f64}, {"f4", DataType::f32}, {"f2", DataType::f16}, {"i8", DataType::s64},
    {"i4", DataType::s32}, {"i2", DataType::s16}, {"i1", DataType::s8},  {"u8", DataType::u64},
    {"u4", DataType::u32}, {"u2", DataType::u16}, {"u1", DataType::u8},  {"b1", DataType::boolean},
};

Error corrupt(std::size_t byte, std::string_view what) {
  return {ErrorCode::corrupt, fmt::format("byte {}: {}", byte, what)};
}

// Text from a hostile file, safe to show.
std::string shown(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 40)) out += c >= 32 && c < 127 ? c : '?';
  return text.size() > 40 ? out + "..." : out;
}

// Reads the dictionary. `base` is the file offset of text[0].
class LiteralReader {
 public:
  LiteralReader(std::string_view text, std::size_t base) : text_(text), base_(base) {}

  std::size_t byte() const { return base_ + at_; }
  bool done() {
    skip_space();
    return at_ == text_.size();
  }
  bool accept(char c) {
    skip_space();
    if (at_ < text_.size() && text_[at_] == c) return ++at_, true;
    return false;
  }
  Result<void> expect(char c) {
    if (accept(c)) return {};
    return corrupt(byte(), fmt::format("the header should have '{}' here", c));
  }
  Result<std::string> string() {
    skip_space();
    if (at_ == text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) {
      if (accept('[')) {
        return Error{ErrorCode::unsupported, fmt::format("byte {}: an array of structures is not a tensor", byte())};
      }
      return corrupt(byte(), "the header should have a string here");
    }
    const auto end = text_.find(text_[at_], at_ + 1);
    if (end == std::string_view::npos) return corrupt(byte(), "a string in the header has no end");
    std::string value(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return value;
  }
  Result<bool> boolean() {
    skip_space();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_).starts_with(word)) return at_ += word.size(), value;
    }
    return corrupt(byte(), "the header should have True or False here");
  }
  Result<std::int64_t> integer() {
    skip_space();
    const std::size_t start = byte();
    std::int64_t value = 0;
    std::size_t digits = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_, ++digits) {
      if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, text_[at_] - '0', &value)) {
        return corrupt(start, "a dimension does not fit into 64 bits");
      }
    }
    if (digits == 0) return corrupt(start, "the header should have a dimension (0 or more) here");
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 wrote 3L
    return value;
  }
  Result<Dims> shape() {
    CONVOY_CHECK(expect('('));
    Dims dims;
    while (!accept(')')) {
      if (dims.size() == kMaxRank) return corrupt(byte(), fmt::format("more than {} dimensions", kMaxRank));
      CONVOY_TRY(const std::int64_t dim, integer());
      dims.push_back(dim);
      if (!accept(',')) {
        CONVOY_CHECK(expect(')'));
        break;
      }
    }
    return dims;
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  std::string_view text_;
  std::size_t base_;
  std::size_t at_ = 0;
};

Result<void> set_type(NpyHeader& header, const std::string& descr, std::size_t byte, std::optional<DataType> raw_type) {
  const bool has_order = !descr.empty() && std::string_view("<>|=").find(descr[0]) != std::string_view::npos;
  const std::string_view code = std::string_view(descr).substr(has_order ? 1 : 0);
  const bool big = has_order && descr[0] == '>';
  header.swap_bytes = big == (std::endian::native == std::endian::little);
  for (const TypeName& known : kNpyTypes) {
    if (known.code == code) return header.type = known.type, Result<void>();
  }
  if (code == "V1" || code == "V2") {
    const std::size_t size = code == "V1" ? 1 : 2;
    const bool float_type =
        raw_type && (*raw_type == DataType::bf16 || *raw_type == DataType::f8_e4m3 || *raw_type == DataType::f8_e5m2);
    if (float_type && size_of(*raw_type) == size) return header.type = *raw_type, Result<void>();
    return Error{ErrorCode::unsupported,
                 fmt::format("byte {}: type '{}' is raw bytes and nothing says which type they are", byte, descr)};
  }
  return Error{ErrorCode::unsupported, fmt::format("byte {}: type '{}' is not a tensor's type here (f2 f4 f8 i1 i2 i4 "
                                                   "i8 u1 u2 u4 u8 b1 are)",
                                                   byte, shown(descr))};
}

}  // namespace

std::optional<std::string> npy_descr(DataType type) {
  for (const TypeName& known : kNpyTypes) {
    if (known.type == type) return fmt::format("{}{}", size_of(type) == 1 ? '|' : '<', known.code);
  }
  return std::nullopt;
}

Result<NpyHeader> parse_npy_header(Bytes file, std::optional<DataType> raw_type) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(file.data());
  if (file.size() < 6 || std::memcmp(bytes, "\x93NUMPY", 6) != 0) {
    const std::string is = file_signature(file);
    return corrupt(0, "not an .npy file" + (is.empty() ? " (the magic bytes are missing)" : " but " + is));
  }
  if (file.size() < 10) return corrupt(file.size(), "the file ends inside the .npy magic bytes");
  const int major = bytes[6];
  if (major < 1 || major > 3) return corrupt(6, fmt::format(".npy version {} is unknown (1 to 3 are known)", major));
  const std::size_t prefix = major == 1 ? 10 : 12;
  if (file.size() < prefix) return corrupt(file.size(), "the file ends inside the header length");
  std::size_t length = bytes[8] | bytes[9] << 8;
  if (major > 1) length |= static_cast<std::size_t>(bytes[10]) << 16 | static_cast<std::size_t>(bytes[11]) << 24;
  if (length > file.size() - prefix) {
    return corrupt(8, fmt::format("the header claims {} bytes, {} follow", length, file.size() - prefix));
  }

  NpyHeader header;
  header.data_offset = prefix + length;
  LiteralReader reader({reinterpret_cast<const char*>(bytes) + prefix, length}, prefix);
  bool has_type = false, has_order = false, has_shape = false;
  CONVOY_CHECK(reader.expect('{'));
  while (!reader.accept('}')) {
    const std::size_t key_byte = reader.byte();
    CONVOY_TRY(const std::string key, reader.string());
    CONVOY_CHECK(reader.expect(':'));
    const std::size_t byte = reader.byte();
    if (key == "descr" && !has_type) {
      CONVOY_TRY(const std::string descr, reader.string());
      CONVOY_CHECK(set_type(header, descr, byte, raw_type));
      has_type = true;
    } else if (key == "fortran_order" && !has_order) {
      CONVOY_TRY(header.fortran_order, reader.boolean());
      has_order = true;
    } else if (key == "shape" && !has_shape) {
      CONVOY_TRY(header.shape, reader.shape());
      has_shape = true;
    } else {
      return corrupt(key_byte, fmt::format("the header has an unknown or repeated key '{}'", shown(key)));
    }
    if (!reader.accept(',')) {
      CONVOY_CHECK(reader.expect('}'));
      break;
    }
  }
  if (!reader.done()) return corrupt(reader.byte(), "text after the header's dictionary");
  for (const auto& [present, key] :
       {std::pair(has_type, "descr"), std::pair(has_order, "fortran_order"), std::pair(has_shape, "shape")}) {
    if (!present) return corrupt(prefix, fmt::format("the header has no '{}'", key));
  }
  return header;
}

}  // namespace convoy::io
