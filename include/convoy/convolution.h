// The convolution problem: one description for fprop, dgrad and wgrad in 1D, 2D and 3D.
//
// With C_g = C/G, K_g = K/G, x zero outside, cross-correlation (Goodfellow et al., Deep Learning, 9.1; cuDNN's
// formula):
//   conv[n,k,p,q] = sum over c < C_g, r, s of
//       x[n, C_g*floor(k/K_g)+c, p*u + r*dil_h - pad_h, q*v + s*dil_w - pad_w] * w[k,c,r,s]
// Mode `convolution` reads w[k,c,R-1-r,S-1-s]. dgrad and wgrad are the transposes of this linear map in x and in w:
// dgrad computes x from y and w (a transposed convolution's forward pass), wgrad computes w from x and y.
//
// Epilogue, for all passes, where `out` is y for fprop, x for dgrad, w for wgrad:
//   out = q(act(alpha*conv + beta*out + bias + gamma*z))
// With `gate`, of fprop, the formula reads x[n,c,...]*gate[n,c], rounded to x's type, in place of x: the channels'
// scales of squeeze and excitation. gate has x's type and N x C values, one image's behind another's.
//
// beta = 0 never reads out. bias is one value per channel of out (per K for fprop, C for dgrad, K for wgrad), of
// compute's type unless the epilogue says otherwise, z a tensor with the description of out, q the rounding to out's
// type or the requantization below.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "convoy/result.h"
#include "convoy/tensor.h"

namespace convoy {

enum class Pass : std::uint8_t { fprop, dgrad, wgrad };
enum class ConvMode : std::uint8_t { cross_correlation, convolution };

// What a caller allows besides the exact types: strict allows nothing; tf32 lets f32 inputs be rounded to tf32;
// reduced lets inputs be down-converted to 16 bits and accumulators be narrower than `compute`.
enum class MathMode : std::uint8_t { strict, tf32, reduced };
std::string_view name_of(MathMode math);

enum class ActivationKind : std::uint8_t {
  identity,
  relu,          // max(v, 0)
  clip,          // min(max(v, a), b)
  leaky_relu,    // v >= 0 ? v : a*v
  prelu,         // v >= 0 ? v : slope[channel]*v
  elu,           // v >= 0 ? v : a*(exp(v)-1)
  sigmoid,       // 1/(1+exp(-v))
  tanh,          //
  swish,         // v*sigmoid(a*v)
  hard_swish,    // v*min(max(v/6 + 1/2, 0), 1)
  hard_sigmoid,  // min(max(a*v + b, 0), 1)
  gelu,          // v*(1+erf(v/sqrt(2)))/2
  gelu_tanh,     // the tanh approximation of gelu
  mish,          // v*tanh(log(1+exp(v)))
};

struct Activation {
  ActivationKind kind = ActivationKind::identity;
  double a = 0;  // see ActivationKind; 0 where the kind has no parameter (swish: 1)
  double b = 0;
  friend bool operator==(const Activation&, const Activation&) = default;
};
std::string_view name_of(ActivationKind kind);
bool has_parameter_a(ActivationKind kind);
bool has_parameter_b(ActivationKind kind);

// Integer problems (x and w s8 or u8, compute s32): conv sums (x - x_zero_point)*(w - w_zero_point) in 32 bits that
// wrap; x outside is x_zero_point (its contribution is 0). The rest of the epilogue is computed on the sum, without
// wrapping; bias is s32 or f32, in units of the sum. Then q(v) = saturate(round_to_nearest_even(v * scale) +
// y_zero_point) with the scales of ConvArgs; for an f32 out, q(v) = v*scale. With `none`, q saturates v to out's type.
// A zero point that is `given` comes with each execution (ConvArgs): one for x, one per output channel for w.
enum class Requantize : std::uint8_t { none, per_tensor, per_channel };

// The residual add of a quantized network, behind the requantization to s8 or u8. q, with `zero_point` in place of
// y_zero_point, then gives t, of out's type, and
//   out = saturate(round_to_nearest_even((t - zero_point)*scale + (z - z_zero_point)*z_scale) + y_zero_point)
// So the bits are those of a convolution to t and an addition behind it. Both scales are in units of out's.
struct QuantizedResidual {
  double scale = 1;  // > 0, likewise z_scale
  std::int32_t zero_point = 0;
  double z_scale = 1;
  std::int32_t z_zero_point = 0;
  friend bool operator==(const QuantizedResidual&, const QuantizedResidual&) = default;
};

struct Epilogue {
  bool bias = false;
  bool narrow_bias = false;  // bias has the 16-bit type of out, as PyTorch's fused convolutions have it
  bool float_bias = false;   // of an integer problem: bias is f32, so it need not be a whole number
  double gamma = 0;          // 0: no residual add
  // With gamma = 0: z is given all the same, finite, and may be read, as PyTorch's cudnn_convolution_relu has it. An
  // engine of cuDNN belongs to such a graph; for others it says nothing.
  bool zero_z = false;
  Activation activation;
  Requantize requantize = Requantize::none;
  std::optional<QuantizedResidual> residual;  // with requantization, gamma = 0 and an out of s8 or u8 only
  bool adds_z() const { return gamma != 0 || residual.has_value(); }
  bool takes_z() const { return adds_z() || zero_z; }
  friend bool operator==(const Epilogue&, const Epilogue&) = default;
};

struct ConvProblem {
  Pass pass = Pass::fprop;
  TensorDesc x;      // N, C, spatial. Any of x, w and y may have sizes of 0: a batch of 0 gives an empty y. Where out
  TensorDesc w;      // K, C/groups, spatial      has elements and there is nothing to sum (C = 0; dgrad with K = 0,
  TensorDesc y;      // N, K, spatial             wgrad with N = 0), conv is 0 and the epilogue goes on from that
  Dims pre_padding;  // a value per spatial dim, >= 0
  Dims post_padding;
  Dims stride;    // >= 1
  Dims dilation;  // >= 1
  std::int64_t groups = 1;
  ConvMode mode = ConvMode::cross_correlation;
  DataType compute = DataType::f32;  // accumulator: f64 for f64, s32 for integers, else f32
  MathMode math = MathMode::strict;
  double alpha = 1;
  double beta = 0;
  Epilogue epilogue;
  std::int32_t x_zero_point = 0;  // integer problems only
  std::int32_t w_zero_point = 0;
  std::int32_t y_zero_point = 0;
  bool x_zero_given = false;  // x_zero_point is 0 here then
  bool w_zero_given = false;  // likewise w_zero_point
  bool gate = false;          // x is multiplied by a value an image and channel: fprop of floats only

  int spatial_dims() const { return x.spatial_dims(); }
  std::int64_t batch() const { return x.dims[0]; }
  std::int64_t in_channels() const { return x.dims[1]; }   // C
  std::int64_t out_channels() const { return w.dims[0]; }  // K
  const TensorDesc& out() const { return pass == Pass::fprop ? y : pass == Pass::dgrad ? x : w; }
  DataType bias_type() const {
    return epilogue.narrow_bias ? out().type : epilogue.float_bias ? DataType::f32 : compute;
  }
  bool is_depthwise() const { return groups > 1 && groups == in_channels(); }

  friend bool operator==(const ConvProblem&, const ConvProblem&) = default;
};

std::string_view name_of(Pass pass);
Result<Pass> parse_pass(std::string_view name);

// floor((in + pre + post - dilation*(filter-1) - 1) / stride) + 1, or an error naming `field` when it is not positive.
Result<std::int64_t> conv_output_size(std::int64_t in, std::int64_t filter, std::int64_t pre, std::int64_t post,
                                      std::int64_t stride, std::int64_t dilation, std::string_view field);
// The input size a transposed convolution produces: (in-1)*stride + dilation*(filter-1) + 1 - pre - post +
// output_padding.
Result<std::int64_t> transposed_output_size(std::int64_t in, std::int64_t filter, std::int64_t pre, std::int64_t post,
                                            std::int64_t stride, std::int64_t dilation, std::int64_t output_padding,
                                            std::string_view field);

// Fills the dims and strides of y in any pass, or of x for dgrad (the smallest that fits), where its dims are empty, in
// the layout of the other activation tensor and no more aligned than that, and defaults: empty paddings are 0, empty
// strides and dilations 1. w is only read.
Result<void> infer(ConvProblem& problem);

// Everything that makes a problem well-formed, whoever runs it. The error names the field and both values, for example
// "y.dims[2]=55 does not match x.dims[2]=112, w.dims[2]=3, pad=1/1, stride=2, dilation=1, which give 56".
Result<void> validate(const ConvProblem& problem);

// Multiply-adds counted as two, padding counted as if it were data, epilogue not counted (the field's convention):
// 2 * N * K * prod(out spatial) * C/G * prod(filter), the same for all passes.
double flops(const ConvProblem& problem);
// Least bytes moved: every tensor read or written once, bias and z included, out twice when beta != 0.
double bytes_moved(const ConvProblem& problem);

// The problem string. It loses nothing: parse(print(p)) == p. Fields are separated by ':', values by ',', dims by 'x';
// it needs no quoting in a shell. Fields at their default are left out; `print` writes the canonical order.
//   fprop:x=f32,1x64x56x56,nhwc:w=f32,64x64x3x3,nchw:y=f32,1x64x56x56,nhwc:pad=1x1:stride=1x1
//   tensors  TYPE,DIMS,LAYOUT[,align=N]; a strided one is TYPE,DIMS,strides=AxBxC[,block=N][,align=N]
//   pad      PRE or PRE/POST ("1x1/0x1")     stride, dilation, groups, mode=conv, compute=f32, math=tf32
//   alpha, beta                              bias=1, gamma=1, act=relu | act=clip,0,6, requant=tensor|channel
//   bias=out (of out's type), bias=f32 (of an integer problem), gamma=0 (z is given, times 0)
//   residual=SCALE,ZERO,Z_SCALE,Z_ZERO (QuantizedResidual, with requant)
//   zp=X,W,Y (zero points; `given` for an X or W that comes with each execution)
//   gate=1 (x times a value an image and channel)
// On input these may be left out: a layout (nchw), pad, stride, dilation, compute; y (it gets x's layout); for dgrad x
// instead (y's layout, the smallest that fits); for wgrad w, whose sizes filter=RxS then says (nchw).
std::string print(const ConvProblem& problem);
Result<ConvProblem> parse_problem(std::string_view text);

}  // namespace convoy
