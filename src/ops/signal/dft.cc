// DFT and STFT: signals along an axis, or pieces of signals under a window, each transformed in f64. Real signals go
// two at a time, as the real and the imaginary part of one: their spectra are its even and its odd part.
#include <fmt/format.h>

#include <array>
#include <new>

#include "ops/math_types.h"
#include "ops/operator_row.h"
#include "ops/signal/fft.h"
#include "ops/support.h"

namespace convoy::ops {
namespace {

struct Complex {
  double re = 0, im = 0;
};

// What is transformed, whatever the operator.
struct Job {
  std::shared_ptr<const Fft> fft;
  std::int64_t signals = 0;
  bool is_real = false;     // the input is
  bool is_inverse = false;  // and then divided by the length
  bool gives_real = false;  // the output is
  std::int64_t bins = 0;    // of the output
};

// Bytes of the workspace that one thread needs.
std::size_t workspace_of(const Job& job) {
  return static_cast<std::size_t>(2 * job.fft->size() * Fft::kLanes + job.fft->scratch()) * sizeof(double);
}

// Where a signal lies in the input, and its result in the output.
struct Places {
  std::int64_t from = 0, to = 0;
};

// load(from, n) gives element n of a signal, store(to, k, value) takes bin k of its result.
template <class PlacesOf, class Load, class Store>
void transform_all(const Job& job, const ExecContext& context, PlacesOf&& places_of, Load&& load, Store&& store) {
  constexpr std::int64_t kLanes = Fft::kLanes;
  const std::int64_t size = job.fft->size(), together = job.is_real ? 2 * kLanes : kLanes;
  const std::int64_t groups = (job.signals + together - 1) / together;
  const double factor = job.is_inverse ? 1 / static_cast<double>(size) : 1;
  parallel_for_thread(context, groups, size * 64, [&](std::int64_t begin, std::int64_t end, int thread) {
    auto* const memory = reinterpret_cast<double*>(static_cast<std::byte*>(context.workspace) +
                                                   static_cast<std::size_t>(thread) * workspace_of(job));
    double *const re = memory, *const im = memory + size * kLanes, *const scratch = memory + 2 * size * kLanes;
    for (std::int64_t group = begin; group < end; ++group) {
      const std::int64_t first = group * together, count = std::min(together, job.signals - first);
      std::array<Places, 2 * kLanes> places;
      for (std::int64_t s = 0; s < count; ++s) places[s] = places_of(first + s);
      for (std::int64_t n = 0; n < size; ++n) {
        for (std::int64_t l = 0; l < kLanes; ++l) {
          Complex value;
          if (job.is_real) {
            if (2 * l < count) value.re = load(places[2 * l].from, n).re;
            if (2 * l + 1 < count) value.im = load(places[2 * l + 1].from, n).re;
          } else if (l < count) {
            value = load(places[l].from, n);
          }
          re[n * kLanes + l] = value.re;
          im[n * kLanes + l] = value.im;
        }
      }
      // The inverse has the conjugate roots: real and imaginary part change places, before and after.
      job.is_inverse ? job.fft->transform(im, re, scratch) : job.fft->transform(re, im, scratch);
      for (std::int64_t k = 0; k < job.bins; ++k) {
        const std::int64_t mirrored = k == 0 ? 0 : size - k;
        for (std::int64_t s = 0; s < count; ++s) {
          const std::int64_t l = job.is_real ? s / 2 : s;
          const Complex a{re[k * kLanes + l], im[k * kLanes + l]};
          if (!job.is_real) {
            store(places[s].to, k, Complex{a.re * factor, a.im * factor});
            continue;
          }
          const Complex b{re[mirrored * kLanes + l], im[mirrored * kLanes + l]};
          const double half = factor / 2;
          const Complex even{(a.re + b.re) * half, (a.im - b.im) * half};
          const Complex odd{(a.im + b.im) * half, (b.re - a.re) * half};
          store(places[s].to, k, s % 2 == 0 ? even : odd);
        }
      }
    }
  });
}

// Element `at` of real or complex numbers.
template <class T>
Complex element(const T* x, std::int64_t at, bool is_real) {
  if (is_real) return {static_cast<double>(x[at])};
  return {static_cast<double>(x[2 * at]), static_cast<double>(x[2 * at + 1])};
}
template <class T>
void put(T* y, std::int64_t at, bool is_real, const Complex& value) {
  if (is_real) {
    y[at] = static_cast<T>(value.re);
  } else {
    y[2 * at] = static_cast<T>(value.re);
    y[2 * at + 1] = static_cast<T>(value.im);
  }
}

// The single value of an optional integer input.
Result<std::int64_t> scalar_input(const NodeDesc& node, std::span<const Input> inputs, int index, const char* name,
                                  std::int64_t fallback) {
  if (!is_present(inputs, index)) return fallback;
  CONVOY_CHECK(check_type(node, inputs, index, kIndices));
  CONVOY_TRY(const std::vector<std::int64_t> values, constant_integers(node, inputs, index));
  if (values.size() != 1) {
    return bad_node(node, fmt::format("input {} ({}) has {} elements, it needs one", index, name, values.size()));
  }
  return values[0];
}

Result<bool> flag(const NodeDesc& node, const char* name, std::int64_t fallback) {
  CONVOY_TRY(const std::int64_t value, node.integer(name, fallback));
  if (value != 0 && value != 1) return bad_node(node, fmt::format("{}={} is not 0 or 1", name, value));
  return value == 1;
}

Result<bool> is_real(const NodeDesc& node, const Dims& dims) {
  if (dims.size() < 2 || (dims.back() != 1 && dims.back() != 2)) {
    return bad_node(node,
                    fmt::format("input 0 has dims [{}]; the last must be 1 (real) or 2 (complex)", to_string(dims)));
  }
  return dims.back() == 1;
}

Result<std::shared_ptr<const Fft>> make_fft(const NodeDesc& node, std::int64_t length) {
  try {
    return std::make_shared<const Fft>(length);
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::out_of_memory,
                 fmt::format("{}: no memory for a transform of {} elements", node.op, length)};
  }
}

Result<void> check_length(const NodeDesc& node, const char* name, std::int64_t length) {
  constexpr std::int64_t kLongest = std::int64_t{1} << 24;
  if (length >= 1 && length <= kLongest) return {};
  return bad_node(node, fmt::format("{}={} must be from 1 to {}", name, length, kLongest));
}

class Dft final : public Operator {
 public:
  std::vector<int> shape_inputs(const NodeDesc& node) const override {
    return node.opset < 20 ? std::vector<int>{1} : std::vector<int>{1, 2};
  }

  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_TRY(const Form form, form_of(node, inputs));
    Dims dims = inputs[0].desc.dims;
    dims[form.axis] = form.bins;
    dims.back() = form.gives_real ? 1 : 2;
    return one_output(node, inputs[0].desc.type, std::move(dims));
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs, std::span<const TensorDesc>,
                                       const PlanRequest& request) const override {
    CONVOY_TRY(const Form form, form_of(node, inputs));
    const TensorDesc& x = inputs[0].desc;
    std::int64_t outer = 1, inner = 1;
    for (int d = 0; d < x.rank() - 1; ++d) (d < form.axis ? outer : inner) *= d == form.axis ? 1 : x.dims[d];
    CONVOY_TRY(auto fft, make_fft(node, form.length));
    const Job job{std::move(fft), outer * inner, form.is_real, form.is_inverse, form.gives_real, form.bins};
    return dispatch<kMathFloats>(x.type, [&]<class T>(Tag<T>) {
      return make_plan(
          node,
          [job, form, inner, given = x.dims[form.axis]](std::span<const void* const> in, std::span<void* const> out,
                                                        const ExecContext& context) -> Result<void> {
            const T* x = static_cast<const T*>(in[0]);
            T* y = static_cast<T*>(out[0]);
            const auto places_of = [&](std::int64_t signal) {
              const std::int64_t block = signal / inner, at = signal % inner;
              return Places{block * given * inner + at, block * form.bins * inner + at};
            };
            const auto load = [&](std::int64_t from, std::int64_t n) {
              // The half that is not given is the conjugate of the other.
              const bool mirrors = form.gives_real && n > form.length / 2;
              const std::int64_t place = mirrors ? form.length - n : n;
              if (place >= given) return Complex{};
              Complex value = element(x, from + place * inner, form.is_real);
              if (mirrors) value.im = -value.im;
              return value;
            };
            transform_all(job, context, places_of, load, [&](std::int64_t to, std::int64_t k, const Complex& value) {
              put(y, to + k * inner, form.gives_real, value);
            });
            return {};
          },
          workspace_of(job) * static_cast<std::size_t>(std::max(1, request.threads)));
    });
  }

 private:
  struct Form {
    int axis = 0;
    std::int64_t length = 0, bins = 0;
    bool is_real = false, is_inverse = false, gives_real = false;
  };

  static Result<Form> form_of(const NodeDesc& node, std::span<const Input> inputs) {
    CONVOY_CHECK(check_counts(node, inputs, 1, node.opset < 20 ? 2 : 3));
    const Dims& dims = inputs[0].desc.dims;
    Form form;
    CONVOY_TRY(form.is_real, is_real(node, dims));
    CONVOY_TRY(form.is_inverse, flag(node, "inverse", 0));
    CONVOY_TRY(const bool onesided, flag(node, "onesided", 0));
    const auto rank = static_cast<int>(dims.size());
    std::int64_t axis = 1;
    if (node.opset < 20) {
      CONVOY_TRY(axis, node.integer("axis", 1));
    } else {
      CONVOY_TRY(axis, scalar_input(node, inputs, 2, "axis", -2));
    }
    CONVOY_TRY(form.axis, normalize_axis(node, axis, rank, "axis"));
    if (form.axis == rank - 1) return bad_node(node, fmt::format("axis={} is that of complex numbers' parts", axis));
    form.gives_real = onesided && form.is_inverse;
    if (onesided && form.is_real == form.is_inverse) {
      return bad_node(node, fmt::format("onesided=1, inverse={} needs {} input", form.is_inverse ? 1 : 0,
                                        form.is_inverse ? "complex" : "real"));
    }
    const std::int64_t given = dims[form.axis];
    CONVOY_TRY(form.length, scalar_input(node, inputs, 1, "dft_length", form.gives_real ? 2 * (given - 1) : given));
    CONVOY_CHECK(check_length(node, "dft_length", form.length));
    form.bins = onesided && !form.is_inverse ? form.length / 2 + 1 : form.length;
    return form;
  }
};

class Stft final : public Operator {
 public:
  std::vector<int> shape_inputs(const NodeDesc&) const override { return {1, 3}; }

  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_TRY(const Form form, form_of(node, inputs));
    return one_output(node, inputs[0].desc.type, {inputs[0].desc.dims[0], form.frames, form.bins, 2});
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs, std::span<const TensorDesc>,
                                       const PlanRequest& request) const override {
    CONVOY_TRY(const Form form, form_of(node, inputs));
    const TensorDesc& x = inputs[0].desc;
    CONVOY_TRY(auto fft, make_fft(node, form.length));
    const Job job{std::move(fft), x.dims[0] * form.frames, form.is_real, false, false, form.bins};
    return dispatch<kMathFloats>(x.type, [&]<class T>(Tag<T>) {
      return make_plan(
          node,
          [job, form, length = x.dims[1], weighs = is_present(inputs, 2)](
              std::span<const void* const> in, std::span<void* const> out, const ExecContext& context) -> Result<void> {
            const T* x = static_cast<const T*>(in[0]);
            const T* window = weighs ? static_cast<const T*>(in[2]) : nullptr;
            T* y = static_cast<T*>(out[0]);
            const auto places_of = [&](std::int64_t frame) {
              return Places{frame / form.frames * length + frame % form.frames * form.step, frame * form.bins};
            };
            const auto load = [&](std::int64_t from, std::int64_t n) {
              const Complex value = element(x, from + n, form.is_real);
              const double weight = window != nullptr ? static_cast<double>(window[n]) : 1;
              return Complex{value.re * weight, value.im * weight};
            };
            transform_all(job, context, places_of, load,
                          [&](std::int64_t to, std::int64_t k, const Complex& value) { put(y, to + k, false, value); });
            return {};
          },
          workspace_of(job) * static_cast<std::size_t>(std::max(1, request.threads)));
    });
  }

 private:
  struct Form {
    std::int64_t step = 0, length = 0, frames = 0, bins = 0;
    bool is_real = false;
  };

  static Result<Form> form_of(const NodeDesc& node, std::span<const Input> inputs) {
    CONVOY_CHECK(check_counts(node, inputs, 2, 4));
    CONVOY_CHECK(check_type(node, inputs, 2, only(inputs[0].desc.type)));
    const Dims& dims = inputs[0].desc.dims;
    Form form;
    if (dims.size() == 2) {
      form.is_real = true;  // PyTorch's exporter by TorchScript leaves the last dim out, and ONNX Runtime takes it
    } else if (dims.size() == 3) {
      CONVOY_TRY(form.is_real, is_real(node, dims));
    } else {
      return bad_node(node, fmt::format("input 0 has dims [{}]; [N, length, 1 or 2] are needed", to_string(dims)));
    }
    CONVOY_TRY(const bool onesided, flag(node, "onesided", 1));
    if (onesided && !form.is_real) return bad_node(node, "onesided=1 needs real input");
    std::int64_t length = dims[1];
    if (is_present(inputs, 2)) {
      if (inputs[2].desc.rank() != 1) {
        return bad_node(node,
                        fmt::format("input 2 (window) has dims [{}], it needs one", to_string(inputs[2].desc.dims)));
      }
      length = inputs[2].desc.dims[0];
    }
    CONVOY_TRY(form.length, scalar_input(node, inputs, 3, "frame_length", length));
    if (is_present(inputs, 2) && form.length != length) {
      return bad_node(node, fmt::format("frame_length={} and a window of {} must be equal", form.length, length));
    }
    CONVOY_CHECK(check_length(node, "frame_length", form.length));
    CONVOY_TRY(form.step, scalar_input(node, inputs, 1, "frame_step", 0));
    if (form.step < 1) return bad_node(node, fmt::format("frame_step={} must be at least 1", form.step));
    form.frames = dims[1] < form.length ? 0 : (dims[1] - form.length) / form.step + 1;
    form.bins = onesided ? form.length / 2 + 1 : form.length;
    return form;
  }
};

const Dft dft;
const Stft stft;

}  // namespace

std::vector<OperatorRow> dft_rows() {
  return {{"DFT", &dft, images::dft, Rate::others, values::mixed, in_place::never, layouts::row_major, kMathFloats},
          {"STFT", &stft, images::each_alone, Rate::others, values::mixed, in_place::never, layouts::row_major,
           kMathFloats}};
}

}  // namespace convoy::ops
