#include "engines/cpu/common/panels.h"

#include <emmintrin.h>

#include <cstring>

#include "engines/cpu/common/problem.h"

namespace convoy::cpu {

std::vector<PanelChunk> chunk_panels(std::int64_t panels, std::int64_t groups, double panel_bytes, double bytes) {
  std::vector<PanelChunk> chunks;
  if (panels == 0) return chunks;
  const std::int64_t of_group = panels / groups;
  const double fitting = std::min(1e9, bytes / std::max(1.0, panel_bytes));
  const auto fit = std::max<std::int64_t>(1, static_cast<std::int64_t>(fitting));
  if (fit >= of_group) {
    const std::int64_t together = fit / of_group;
    for (std::int64_t g = 0; g < groups; g += together) {
      const std::int64_t end = std::min(groups, g + together);
      chunks.push_back({g * of_group, end * of_group, g, end});
    }
    return chunks;
  }
  const std::int64_t each = ceil_div(of_group, ceil_div(of_group, fit));
  for (std::int64_t g = 0; g < groups; ++g) {
    for (std::int64_t p = 0; p < of_group; p += each) {
      chunks.push_back({g * of_group + p, g * of_group + std::min(of_group, p + each), g, g + 1});
    }
  }
  return chunks;
}

std::int64_t most_groups(const std::vector<PanelChunk>& chunks) {
  std::int64_t groups = 1;
  for (const PanelChunk& chunk : chunks) groups = std::max(groups, chunk.group_end - chunk.group_begin);
  return groups;
}

Blocks equal_blocks(std::int64_t count, std::int64_t most, std::int64_t tile, std::int64_t multiple) {
  if (count <= 0) return {std::max<std::int64_t>(most, 1), 0};
  const std::int64_t wanted = ceil_div(ceil_div(count, most), multiple) * multiple;
  const std::int64_t each = ceil_div(count, std::min(wanted, ceil_div(count, tile)));
  const std::int64_t size = ceil_div(each, tile) * tile;
  return {size, ceil_div(count, size)};
}

template <class Real>
PhaseJob<Real> make_phase_job(const ConvProblem& problem, const ConvArgs& args, const void* packed) {
  PhaseJob<Real> job{};
  job.in = static_cast<const Real*>(problem.pass == Pass::fprop ? args.x : args.y);
  job.out = static_cast<Real*>(args.out);
  job.packed = static_cast<const Real*>(packed);
  job.epilogue = make_epilogue<Real>(problem, args);
  job.z = job.epilogue.gamma != 0 ? static_cast<const Real*>(args.z) : job.out;
  return job;
}

template PhaseJob<float> make_phase_job(const ConvProblem& problem, const ConvArgs& args, const void* packed);
template PhaseJob<double> make_phase_job(const ConvProblem& problem, const ConvArgs& args, const void* packed);

double packing_seconds(const ConvProblem& problem, const PlanRequest& request) {
  if (request.constant_weights != nullptr) return 0;
  constexpr double kBytesPerSecond = 7e9;  // of a Zen 5 core: 512 filters of 512x3x3, a 3x3 dgrad's, 2048 of 1024x1x1
  return static_cast<double>(problem.w.bytes()) / kBytesPerSecond;
}

std::vector<PackedElement> by_offset(const std::vector<std::int64_t>& offsets) {
  std::vector<PackedElement> elements;
  elements.reserve(offsets.size());
  for (const std::int64_t offset : offsets) elements.push_back({offset, static_cast<std::int64_t>(elements.size())});
  const auto less = [](const PackedElement& a, const PackedElement& b) { return a.offset < b.offset; };
  std::stable_sort(elements.begin(), elements.end(), less);
  return elements;
}

namespace {

// rows[i][k] = from[k * step + i]. Loads and stores of single elements took twice as long.
void transpose_4x4(const float* from, std::int64_t step, float* const (&rows)[4]) {
  __m128 v[4];
  for (int k = 0; k < 4; ++k) v[k] = _mm_loadu_ps(from + k * step);
  _MM_TRANSPOSE4_PS(v[0], v[1], v[2], v[3]);
  for (int i = 0; i < 4; ++i) _mm_storeu_ps(rows[i], v[i]);
}
void transpose_4x4(const double* from, std::int64_t step, double* const (&rows)[4]) {
  for (int i = 0; i < 4; ++i) {
    for (int k = 0; k < 4; ++k) rows[i][k] = from[k * step + i];
  }
}

// Channels [first, last) of one element.
template <class Real>
void pack_element(const PackedElement& element, const Real* weights, std::int64_t step, std::int64_t first,
                  std::int64_t last, Real* row) {
  std::int64_t k = first;
  if (element.offset < 0) {
    for (; k < last; ++k) row[k] = 0;
    return;
  }
  const Real* const from = weights + element.offset;
  if (step == 1) {
    for (; k + 8 <= last; k += 8) std::memcpy(row + k, from + k, 8 * sizeof(Real));
  }
#pragma GCC unroll 8
  for (; k < last; ++k) row[k] = from[k * step];
}

}  // namespace

template <class Real>
void pack_elements(std::span<const PackedElement> elements, const Real* weights, std::int64_t step,
                   std::int64_t channels, std::int64_t width, Real* rows) {
  const auto row = [&](std::size_t i) { return rows + elements[i].row * width; };
  // Of filters that lie apart a few at a time, so that all of a line is read at once; channels that lie close together
  // at once.
  constexpr std::int64_t kClose = 64;
  const std::int64_t at_a_time = step < kClose ? channels : 4;
  for (std::int64_t k = 0; k < channels; k += at_a_time) {
    const std::int64_t end = std::min(k + at_a_time, channels);
    for (std::size_t i = 0; i < elements.size();) {
      const bool four = step != 1 && i + 4 <= elements.size() && elements[i].offset >= 0 &&
                        elements[i + 3].offset - elements[i].offset == 3;
      const std::size_t next = i + (four ? 4 : 1);
      std::int64_t c = k;
      for (; four && c + 4 <= end; c += 4) {
        transpose_4x4(weights + elements[i].offset + c * step, step,
                      {row(i) + c, row(i + 1) + c, row(i + 2) + c, row(i + 3) + c});
      }
      for (; i < next; ++i) pack_element(elements[i], weights, step, c, end, row(i));
    }
  }
  for (std::size_t i = 0; i < elements.size(); ++i) std::fill(row(i) + channels, row(i) + width, Real{0});
}

template void pack_elements(std::span<const PackedElement>, const float*, std::int64_t, std::int64_t, std::int64_t,
                            float*);
template void pack_elements(std::span<const PackedElement>, const double*, std::int64_t, std::int64_t, std::int64_t,
                            double*);

}  // namespace convoy::cpu
