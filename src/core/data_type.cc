#include "convoy/data_type.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

namespace convoy {
namespace {

enum class Kind : std::uint8_t { floating, integer, boolean };
struct Row {
  std::string_view name;
  std::size_t size;
  Kind kind;
};
constexpr std::array<Row, 23> kTypes = {
    {{"f64", 8, Kind::floating},         {"f32", 4, Kind::floating},     {"f16", 2, Kind::floating},
     {"bf16", 2, Kind::floating},        {"f8_e4m3", 1, Kind::floating}, {"f8_e5m2", 1, Kind::floating},
     {"s64", 8, Kind::integer},          {"s32", 4, Kind::integer},      {"s16", 2, Kind::integer},
     {"s8", 1, Kind::integer},           {"u64", 8, Kind::integer},      {"u32", 4, Kind::integer},
     {"u16", 2, Kind::integer},          {"u8", 1, Kind::integer},       {"bool", 1, Kind::boolean},
     {"s4", 1, Kind::integer},           {"u4", 1, Kind::integer},       {"s2", 1, Kind::integer},
     {"u2", 1, Kind::integer},           {"f4_e2m1", 1, Kind::floating}, {"f8_e4m3fnuz", 1, Kind::floating},
     {"f8_e5m2fnuz", 1, Kind::floating}, {"f8_e8m0", 1, Kind::floating}}};

template <class T>
double load(const void* data, std::int64_t index) {
  return static_cast<double>(static_cast<const T*>(data)[index]);
}

template <class T>
void store_narrow(void* data, std::int64_t index, double value, int low, int high) {
  const double rounded = std::isnan(value) ? 0 : std::nearbyint(value);
  static_cast<T*>(data)[index] = static_cast<T>(std::clamp<double>(rounded, low, high));
}

template <class T>
void store_integer(void* data, std::int64_t index, double value) {
  using Limits = std::numeric_limits<T>;
  // 2^digits is a double even where max() is not.
  const double beyond = std::ldexp(1.0, Limits::digits);
  const double rounded = std::nearbyint(value);
  T result;
  if (std::isnan(value)) {
    result = 0;
  } else if (rounded >= beyond) {
    result = Limits::max();
  } else if (rounded <= static_cast<double>(Limits::min())) {
    result = Limits::min();
  } else {
    result = static_cast<T>(rounded);
  }
  static_cast<T*>(data)[index] = result;
}

}  // namespace

std::size_t size_of(DataType type) { return kTypes[static_cast<std::size_t>(type)].size; }
std::string_view name_of(DataType type) { return kTypes[static_cast<std::size_t>(type)].name; }

Result<DataType> parse_data_type(std::string_view name) {
  for (std::size_t i = 0; i < kTypes.size(); ++i) {
    if (name == kTypes[i].name) return static_cast<DataType>(i);
  }
  std::string all;
  for (const Row& row : kTypes) all.append(all.empty() ? "" : ", ").append(row.name);
  return Error{ErrorCode::invalid_argument, "data type '" + std::string(name.substr(0, 40)) + "' is not one of " + all};
}

bool is_floating(DataType type) { return kTypes[static_cast<std::size_t>(type)].kind == Kind::floating; }
bool is_integer(DataType type) { return kTypes[static_cast<std::size_t>(type)].kind == Kind::integer; }
bool is_stored_only(DataType type) { return type > DataType::boolean; }

double load_as_double(DataType type, const void* data, std::int64_t index) {
  switch (type) {
    case DataType::f64:
      return load<double>(data, index);
    case DataType::f32:
      return load<float>(data, index);
    case DataType::f16:
      return f16_to_f32(static_cast<const std::uint16_t*>(data)[index]);
    case DataType::bf16:
      return bf16_to_f32(static_cast<const std::uint16_t*>(data)[index]);
    case DataType::f8_e4m3:
      return f8_e4m3_to_f32(static_cast<const std::uint8_t*>(data)[index]);
    case DataType::f8_e5m2:
      return f8_e5m2_to_f32(static_cast<const std::uint8_t*>(data)[index]);
    case DataType::s64:
      return load<std::int64_t>(data, index);
    case DataType::s32:
      return load<std::int32_t>(data, index);
    case DataType::s16:
      return load<std::int16_t>(data, index);
    case DataType::s8:
    case DataType::s4:
    case DataType::s2:
      return load<std::int8_t>(data, index);
    case DataType::u64:
      return load<std::uint64_t>(data, index);
    case DataType::u32:
      return load<std::uint32_t>(data, index);
    case DataType::u16:
      return load<std::uint16_t>(data, index);
    case DataType::u8:
    case DataType::u4:
    case DataType::u2:
      return load<std::uint8_t>(data, index);
    case DataType::boolean:
      return static_cast<const std::uint8_t*>(data)[index] != 0 ? 1 : 0;
    case DataType::f4_e2m1:
    case DataType::f8_e4m3fnuz:
    case DataType::f8_e5m2fnuz:
    case DataType::f8_e8m0:
      return stored_float_to_f32(type, static_cast<const std::uint8_t*>(data)[index]);
  }
  return 0;
}

void store_from_double(DataType type, void* data, std::int64_t index, double value) {
  switch (type) {
    case DataType::f64:
      static_cast<double*>(data)[index] = value;
      return;
    case DataType::f32:
      static_cast<float*>(data)[index] = static_cast<float>(value);
      return;
    case DataType::f16:
      static_cast<std::uint16_t*>(data)[index] = f64_to_f16(value);
      return;
    case DataType::bf16:
      static_cast<std::uint16_t*>(data)[index] = f64_to_bf16(value);
      return;
    case DataType::f8_e4m3:
      static_cast<std::uint8_t*>(data)[index] = f64_to_f8_e4m3(value);
      return;
    case DataType::f8_e5m2:
      static_cast<std::uint8_t*>(data)[index] = f64_to_f8_e5m2(value);
      return;
    case DataType::s64:
      return store_integer<std::int64_t>(data, index, value);
    case DataType::s32:
      return store_integer<std::int32_t>(data, index, value);
    case DataType::s16:
      return store_integer<std::int16_t>(data, index, value);
    case DataType::s8:
      return store_integer<std::int8_t>(data, index, value);
    case DataType::u64:
      return store_integer<std::uint64_t>(data, index, value);
    case DataType::u32:
      return store_integer<std::uint32_t>(data, index, value);
    case DataType::u16:
      return store_integer<std::uint16_t>(data, index, value);
    case DataType::u8:
      return store_integer<std::uint8_t>(data, index, value);
    case DataType::boolean:
      static_cast<std::uint8_t*>(data)[index] = value != 0 ? 1 : 0;
      return;
    case DataType::s4:
      return store_narrow<std::int8_t>(data, index, value, -8, 7);
    case DataType::u4:
      return store_narrow<std::uint8_t>(data, index, value, 0, 15);
    case DataType::s2:
      return store_narrow<std::int8_t>(data, index, value, -2, 1);
    case DataType::u2:
      return store_narrow<std::uint8_t>(data, index, value, 0, 3);
    case DataType::f4_e2m1:
    case DataType::f8_e4m3fnuz:
    case DataType::f8_e5m2fnuz:
    case DataType::f8_e8m0:
      static_cast<std::uint8_t*>(data)[index] = f64_to_stored_float(type, value);
      return;
  }
}

}  // namespace convoy
