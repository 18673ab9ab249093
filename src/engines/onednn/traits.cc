#include "engines/onednn/traits.h"

#include <algorithm>

#include "engines/onednn/request.h"

namespace convoy::onednn {
namespace {

using P = const ConvProblem&;

std::int64_t channels(P p) { return p.w.dims[1]; }  // of a group
std::int64_t filters(P p) { return p.w.dims[0] / p.groups; }
std::int64_t window(P p) { return *std::max_element(p.w.dims.begin() + 2, p.w.dims.end()); }
std::int64_t width(P p) { return p.y.dims.back(); }

std::int64_t largest(const Dims& dims) { return *std::max_element(dims.begin(), dims.end()); }

bool one_pixel(const TensorDesc& desc) {
  return std::all_of(desc.dims.begin() + 2, desc.dims.end(), [](std::int64_t dim) { return dim == 1; });
}

// Whether x's channels, or columns, are adjacent as oneDNN is asked.
bool channels_adjacent(P p) {
  const auto layout = common_layout(p);
  return layout ? *layout == Layout::nhwc || one_pixel(p.x) : p.x.strides[1] == 1;
}

bool columns_adjacent(P p) {
  const auto layout = common_layout(p);
  return layout ? *layout == Layout::nchw || p.x.dims[1] == 1 : p.x.strides.back() == 1;
}

bool is_packed(P p, Layout layout) { return p.x.is_packed(layout) && p.y.is_packed(layout); }

// A spatial dim of the problem.
struct Axis {
  std::int64_t in, out, extent, stride, pre, post;
};

template <class Predicate>
bool any_axis(P p, Predicate predicate) {
  for (int i = 0; i < p.spatial_dims(); ++i) {
    const Axis axis{p.x.dims[2 + i], p.y.dims[2 + i],  (p.w.dims[2 + i] - 1) * p.dilation[i] + 1,
                    p.stride[i],     p.pre_padding[i], p.post_padding[i]};
    if (predicate(axis)) return true;
  }
  return false;
}

constexpr std::int64_t kMega = 1 << 20;

// Elements of one image with all taps of each position spelled out, as im2col does.
std::int64_t unrolled(P p) { return p.w.elements() / p.w.dims[0] * (p.y.elements() / p.y.dims[0] / p.y.dims[1]); }

// Asked once for the process.
struct Processor {
  bool avx512 = processor_isa() == Isa::avx512;
  bool avx512_vnni = processor_has("avx512_vnni"), avx2_vnni = processor_has("avx2_vnni");
  bool bf16 = processor_has("avx512_bf16"), f16 = processor_has("avx512_fp16"), amx = processor_has("amx");
};

const Processor& processor() {
  static const Processor processor;
  return processor;
}

constexpr Trait kTraits[] = {
    {"fprop", [](P p) { return p.pass == Pass::fprop; }},
    {"dgrad", [](P p) { return p.pass == Pass::dgrad; }},
    {"bf16", [](P p) { return p.x.type == DataType::bf16; }},
    {"integers", [](P p) { return p.compute == DataType::s32; }},
    {"signed x", [](P p) { return p.x.type == DataType::s8; }},
    {"channels last", [](P p) { return is_packed(p, Layout::nhwc); }},
    {"channels first", [](P p) { return is_packed(p, Layout::nchw); }},
    // Where a tensor is packed in both orders, oneDNN still goes by the strides of dims of 1.
    {"columns adjacent", columns_adjacent},
    {"channels adjacent", channels_adjacent},
    {"1D", [](P p) { return p.spatial_dims() == 1; }},
    {"3D", [](P p) { return p.spatial_dims() == 3; }},
    {"bias", [](P p) { return p.epilogue.bias; }},
    {"activation", [](P p) { return p.epilogue.activation.kind != ActivationKind::identity; }},
    {"activation not relu",
     [](P p) {
       const ActivationKind kind = p.epilogue.activation.kind;
       return kind != ActivationKind::identity && kind != ActivationKind::relu;
     }},
    {"dense", [](P p) { return p.groups == 1; }},
    {"depthwise", [](P p) { return p.groups > 1 && channels(p) == 1 && filters(p) == 1; }},
    {"a channel a group", [](P p) { return p.groups > 1 && channels(p) == 1; }},
    {"window 1", [](P p) { return window(p) == 1; }},
    {"window > 3", [](P p) { return window(p) > 3; }},
    {"window > 7", [](P p) { return window(p) > 7; }},
    {"strided", [](P p) { return largest(p.stride) > 1; }},
    {"dilated", [](P p) { return largest(p.dilation) > 1; }},
    {"padded", [](P p) { return any_axis(p, [](const Axis& a) { return a.pre > 0 || a.post > 0; }); }},
    {"channels % 16 = 0", [](P p) { return channels(p) % 16 == 0; }},
    {"channels % 8 = 0", [](P p) { return channels(p) % 8 == 0; }},
    {"channels % 4 = 0", [](P p) { return channels(p) % 4 == 0; }},
    {"channels >= 16", [](P p) { return channels(p) >= 16; }},
    {"channels > 4", [](P p) { return channels(p) > 4; }},
    {"channels > 3", [](P p) { return channels(p) > 3; }},
    {"channels > 1", [](P p) { return channels(p) > 1; }},
    {"channels >= 32", [](P p) { return channels(p) >= 32; }},
    {"channels >= 64", [](P p) { return channels(p) >= 64; }},
    {"channels >= 128", [](P p) { return channels(p) >= 128; }},
    {"channels >= 256", [](P p) { return channels(p) >= 256; }},
    {"channels >= 512", [](P p) { return channels(p) >= 512; }},
    {"filters % 16 = 0", [](P p) { return filters(p) % 16 == 0; }},
    {"filters % 8 = 0", [](P p) { return filters(p) % 8 == 0; }},
    {"filters % 4 = 0", [](P p) { return filters(p) % 4 == 0; }},
    {"filters >= 16", [](P p) { return filters(p) >= 16; }},
    {"filters >= 8", [](P p) { return filters(p) >= 8; }},
    {"filters > 4", [](P p) { return filters(p) > 4; }},
    {"filters > 1", [](P p) { return filters(p) > 1; }},
    {"filters >= 32", [](P p) { return filters(p) >= 32; }},
    {"filters >= 64", [](P p) { return filters(p) >= 64; }},
    {"filters >= 128", [](P p) { return filters(p) >= 128; }},
    {"filters >= 256", [](P p) { return filters(p) >= 256; }},
    {"window = x", [](P p) { return !any_axis(p, [](const Axis& a) { return a.extent != a.in; }); }},
    {"as many channels as filters", [](P p) { return p.in_channels() == p.out_channels(); }},
    {"groups > 4", [](P p) { return p.groups > 4; }},
    {"groups % 16 = 0", [](P p) { return p.groups % 16 == 0; }},
    {"groups % 8 = 0", [](P p) { return p.groups % 8 == 0; }},
    {"all channels % 16 = 0", [](P p) { return p.in_channels() % 16 == 0; }},
    {"all filters % 16 = 0", [](P p) { return p.out_channels() % 16 == 0; }},
    {"x of a pixel", [](P p) { return one_pixel(p.x); }},
    {"y of a pixel", [](P p) { return one_pixel(p.y); }},
    {"window > x", [](P p) { return any_axis(p, [](const Axis& a) { return a.extent > a.in; }); }},
    {"window > y", [](P p) { return any_axis(p, [](const Axis& a) { return a.extent > a.out; }); }},
    {"stride > window", [](P p) { return any_axis(p, [](const Axis& a) { return a.stride > a.extent; }); }},
    {"stride > 2", [](P p) { return largest(p.stride) > 2; }},
    {"padding > half",
     [](P p) { return any_axis(p, [](const Axis& a) { return std::max(a.pre, a.post) > (a.extent - 1) / 2; }); }},
    {"padding >= window",
     [](P p) { return any_axis(p, [](const Axis& a) { return std::max(a.pre, a.post) >= a.extent; }); }},
    {"x = y * stride", [](P p) { return !any_axis(p, [](const Axis& a) { return a.in != a.out * a.stride; }); }},
    {"x left over",
     [](P p) { return any_axis(p, [](const Axis& a) { return (a.in + a.pre + a.post - a.extent) % a.stride != 0; }); }},
    {"within x",
     [](P p) { return !any_axis(p, [](const Axis& a) { return (a.out - 1) * a.stride + a.extent > a.in; }); }},
    {"width > 2", [](P p) { return width(p) > 2; }},
    {"width > 4", [](P p) { return width(p) > 4; }},
    {"width > 8", [](P p) { return width(p) > 8; }},
    {"width > 16", [](P p) { return width(p) > 16; }},
    {"width > 32", [](P p) { return width(p) > 32; }},
    {"width > 64", [](P p) { return width(p) > 64; }},
    {"width >= 100", [](P p) { return width(p) >= 100; }},
    {"width > 128", [](P p) { return width(p) > 128; }},
    {"width > 256", [](P p) { return width(p) > 256; }},
    {"width > 512", [](P p) { return width(p) > 512; }},
    {"width > 1024", [](P p) { return width(p) > 1024; }},
    {"width of x % 28 = 0", [](P p) { return p.x.dims.back() % 28 == 0; }},  // what jit's dgrad takes at a time
    {"batch > 1", [](P p) { return p.batch() > 1; }},
    {"w > 1 M", [](P p) { return p.w.elements() > kMega; }},
    {"unrolled > 64 K", [](P p) { return unrolled(p) > kMega / 16; }},
    {"unrolled > 256 K", [](P p) { return unrolled(p) > kMega / 4; }},
    {"unrolled > 1 M", [](P p) { return unrolled(p) > kMega; }},
    {"x or y > 64 K", [](P p) { return std::max(p.x.elements(), p.y.elements()) > kMega / 16; }},
    {"x or y > 256 K", [](P p) { return std::max(p.x.elements(), p.y.elements()) > kMega / 4; }},
    {"x or y > 1 M", [](P p) { return std::max(p.x.elements(), p.y.elements()) > kMega; }},
    {"terms >= 128", [](P p) { return p.w.elements() / p.w.dims[0] >= 128; }},
    {"terms >= 256", [](P p) { return p.w.elements() / p.w.dims[0] >= 256; }},
    {"terms >= 512", [](P p) { return p.w.elements() / p.w.dims[0] >= 512; }},
    {"terms >= 1024", [](P p) { return p.w.elements() / p.w.dims[0] >= 1024; }},
    {"on a processor with AVX512", [](P) { return processor().avx512; }},
    {"on a processor with AVX512-VNNI", [](P) { return processor().avx512_vnni; }},
    {"on a processor with AVX-VNNI", [](P) { return processor().avx2_vnni; }},
    {"on a processor with AVX512-BF16", [](P) { return processor().bf16; }},
    {"on a processor with AVX512-FP16", [](P) { return processor().f16; }},
    {"on a processor with AMX", [](P) { return processor().amx; }},
};

}  // namespace

std::span<const Trait> traits() { return kTraits; }

}  // namespace convoy::onednn
