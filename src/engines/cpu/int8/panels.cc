#include "engines/cpu/int8/panels.h"

#include <algorithm>
#include <cstring>

namespace convoy::cpu::int8 {
namespace {

std::int32_t value_of(DataType type, const void* data, std::int64_t index) {
  return type == DataType::s8 ? static_cast<const std::int8_t*>(data)[index]
                              : static_cast<const std::uint8_t*>(data)[index];
}

// Whether pmaddubsw adds the products of these two with any x' without saturating.
bool fit_16_bits(std::int8_t a, std::int8_t b) {
  return std::max<int>(a, 0) + std::max<int>(b, 0) <= 128 && std::min<int>(a, 0) + std::min<int>(b, 0) >= -128;
}

}  // namespace

Panels::Panels(const ConvProblem& problem, const Kernel& kernel)
    : geometry_(flat_geometry(problem)),
      kernel_(kernel),
      x_type_(problem.x.type),
      w_type_(problem.w.type),
      again_(kernel.pairs_in_16_bits),
      x_shift_(x_type_ == DataType::s8 ? 128 : 0),
      x_zero_point_(problem.x_zero_point),
      x_zero_given_(problem.x_zero_given),
      w_zero_given_(problem.w_zero_given),
      per_group_(ceil_div(geometry_.group_filters, kernel.tile.columns)),
      lines_(geometry_, kernel.tile, per_group_, static_cast<std::uint8_t>(x_shift_)) {
  w_shift_ = w_type_ == DataType::u8 ? -128 : 0;
  w_zero_ = w_zero_given_ ? 0 : problem.w_zero_point + w_shift_;
}

std::int64_t Panels::computed_columns() const {
  const std::int64_t half = kernel_.tile.columns / 2;
  return ceil_div(geometry_.group_filters, half) * half;
}

std::size_t Panels::packed_bytes() const {
  const std::int64_t lists = again_ ? static_cast<std::int64_t>(all_panels()) * (1 + lines_.steps()) : 0;
  return again_at() + static_cast<std::size_t>(lists) * sizeof(std::int32_t);
}

Panel Panels::panel(const void* packed, std::int64_t group, std::int64_t panel) const {
  const auto* bytes = static_cast<const std::byte*>(packed);
  const std::int64_t at = group * per_group_ + panel;
  Panel found{.weights = bytes + at * panel_bytes(), .at = lines_.steps_at(), .steps = lines_.steps()};
  found.columns = static_cast<int>(
      std::min<std::int64_t>(kernel_.tile.columns, geometry_.group_filters - panel * kernel_.tile.columns));
  if (again_) {
    found.again = reinterpret_cast<const std::int32_t*>(bytes + again_at()) + at * (1 + lines_.steps()) + 1;
    found.again_count = found.again[-1];
  }
  return found;
}

const std::int32_t* Panels::column_terms(const void* packed, std::int32_t x_zero_point, void* scratch) const {
  const auto* stored = reinterpret_cast<const std::int32_t*>(static_cast<const std::byte*>(packed) + terms_at());
  if (!x_zero_given_) return stored;
  const auto zx = static_cast<std::uint32_t>(x_zero_point + x_shift_);
  auto* terms = static_cast<std::int32_t*>(scratch);
  for (std::size_t i = 0; i < all_columns(); ++i) {
    terms[i] = static_cast<std::int32_t>(zx * static_cast<std::uint32_t>(stored[i]));
  }
  return terms;
}

void Panels::pack(const void* weights, void* packed) const {
  const ConvGeometry& g = geometry_;
  auto* const bytes = static_cast<std::byte*>(packed);
  std::memset(packed, 0, packed_bytes());
  auto* stored_terms = reinterpret_cast<std::int32_t*>(bytes + terms_at());
  auto* lists = reinterpret_cast<std::int32_t*>(bytes + again_at());
  const auto zx = x_zero_given_ ? 1u : static_cast<std::uint32_t>(x_zero_point_ + x_shift_);
  const auto zw = static_cast<std::uint32_t>(w_zero_);
  for (std::int64_t group = 0; group < g.groups; ++group) {
    for (std::int64_t k = 0; k < g.group_filters; ++k) {
      const std::int64_t at_panel = group * per_group_ + k / kernel_.tile.columns;
      const std::int64_t column = k % kernel_.tile.columns;
      std::byte* const to = bytes + at_panel * panel_bytes();
      std::uint32_t column_sum = 0;  // unsigned: sums wrap
      std::int64_t term = 0;
      for (std::int64_t d = 0; d < g.filter[0]; ++d) {
        for (std::int64_t h = 0; h < g.filter[1]; ++h) {
          for (std::int64_t w = 0; w < g.filter[2]; ++w) {
            const std::int64_t tap = g.w.origin + (group * g.group_filters + k) * g.w.out + d * g.w.spatial[0] +
                                     h * g.w.spatial[1] + w * g.w.spatial[2];
            for (std::int64_t c = 0; c < g.group_channels; ++c, ++term) {
              const std::int32_t value = value_of(w_type_, weights, tap + c * g.w.in) + w_shift_;
              column_sum += static_cast<std::uint32_t>(value);
              const auto [step, element] = lines_.position_of(term);
              reinterpret_cast<std::int8_t*>(to)[(step * kernel_.tile.columns + column) * kStepBytes + element] =
                  static_cast<std::int8_t>(value);
            }
          }
        }
      }
      stored_terms[at_panel * kernel_.tile.columns + column] =
          static_cast<std::int32_t>(zx * (static_cast<std::uint32_t>(lines_.terms()) * zw - column_sum));
    }
  }
  if (!again_) return;
  for (std::size_t i = 0; i < all_panels(); ++i) {
    halve_large_pairs(bytes + static_cast<std::int64_t>(i) * panel_bytes(),
                      lists + static_cast<std::int64_t>(i) * (1 + lines_.steps()));
  }
}

// `again`: how many, then which.
void Panels::halve_large_pairs(std::byte* weights, std::int32_t* again) const {
  const std::int64_t all_bytes = kernel_.tile.columns * kStepBytes;
  auto* const first = reinterpret_cast<std::int8_t*>(weights);
  for (std::int64_t step = 0; step < lines_.steps(); ++step) {
    std::int8_t* const all = first + step * all_bytes;
    std::int8_t* const more = first + (lines_.steps() + again[0]) * all_bytes;
    bool any = false;
    for (std::int64_t i = 0; i < all_bytes; i += 2) {
      if (fit_16_bits(all[i], all[i + 1])) continue;
      any = true;
      for (const std::int64_t at : {i, i + 1}) {
        more[at] = static_cast<std::int8_t>(all[at] / 2);
        all[at] = static_cast<std::int8_t>(all[at] - more[at]);
      }
    }
    if (any) again[++again[0]] = static_cast<std::int32_t>(step);
  }
}

// -zw' * sum x' of a pixel, or the factor of zw' where that comes with the execution: n * zx' - sum x'.
std::int32_t Panels::row_term(const std::uint8_t* pixel, std::int32_t x_zero) const {
  std::uint32_t sum = 0;
  lines_.each_term(pixel, [&](std::uint8_t value) { sum += value; });
  if (!w_zero_given_) return static_cast<std::int32_t>(0u - static_cast<std::uint32_t>(w_zero_) * sum);
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(lines_.terms()) * static_cast<std::uint32_t>(x_zero) -
                                   sum);
}

void Panels::gather(const void* x, std::int32_t x_zero_point, std::int64_t group, std::int64_t first,
                    std::int64_t count, void* memory, ByteBlock& block) const {
  const std::int32_t x_zero = x_zero_point + x_shift_;
  lines_.gather(static_cast<const std::uint8_t*>(x), static_cast<std::uint8_t>(x_zero), group, first, count, memory,
                block);
  if (!has_row_terms()) return;
  for (int i = 0; i < block.groups * kernel_.tile.group_rows; ++i) {
    block.terms[i] = row_term(static_cast<const std::uint8_t*>(block.x[i]), x_zero);
  }
}

}  // namespace convoy::cpu::int8
