#include "convoy/data_type.h"

#include <array>
#include <cmath>
#include <limits>
#include <string>

namespace convoy {
namespace {

struct Row {
  std::string_view name;
  std::size_t size;
};
constexpr std::array<Row, 15> kTypes = {{{"f64", 8},
                                         {"f32", 4},
                                         {"f16", 2},
                                         {"bf16", 2},
                                         {"f8_e4m3", 1},
                                         {"f8_e5m2", 1},
                                         {"s64", 8},
                                         {"s32", 4},
                                         {"s16", 2},
                                         {"s8", 1},
                                         {"u64", 8},
                                         {"u32", 4},
                                         {"u16", 2},
                                         {"u8", 1},
                                         {"bool", 1}}};

template <class T>
double load(const void* data, std::int64_t index) {
  return static_cast<double>(static_cast<const T*>(data)[index]);
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

bool is_floating(DataType type) { return type <= DataType::f8_e5m2; }
bool is_integer(DataType type) { return !is_floating(type) && type != DataType::boolean; }

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
      return load<std::int8_t>(data, index);
    case DataType::u64:
      return load<std::uint64_t>(data, index);
    case DataType::u32:
      return load<std::uint32_t>(data, index);
    case DataType::u16:
      return load<std::uint16_t>(data, index);
    case DataType::u8:
      return load<std::uint8_t>(data, index);
    case DataType::boolean:
      return static_cast<const std::uint8_t*>(data)[index] != 0 ? 1 : 0;
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
  }
}

}  // namespace convoy
