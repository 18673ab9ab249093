// What the oracle on the device is called with: shared by the host and the kernel, so plain fields of fixed sizes.
#pragma once

struct ReferenceTensor {
  long long dims[5];  // N, C, D, H, W; missing spatial dims are 1, in front
  long long strides[5];
  long long block;  // TensorDesc::channel_block
};

struct ReferenceArgs {
  ReferenceTensor x, w, y, out;
  const void* a;  // the operands of the pass: fprop x, w; dgrad y, w; wgrad x, y
  const void* b;
  const void* prior;  // out before the execution, read where beta != 0
  const void* bias;   // null where the problem has none; likewise the next ones
  const void* z;
  const float* slopes;
  const float* scales;
  const void* gate;          // of fprop's x: a value an image and channel
  const int* a_zero_given;   // fprop's x
  const int* b_zeros_given;  // w's, one per output channel
  long long pad[3];
  long long stride[3];
  long long dilation[3];
  long long c_per_group, k_per_group;
  double alpha, beta, gamma;
  double activation_a, activation_b;
  int activation;
  int flipped;
  int narrow_bias;  // of out's type
  int float_bias;   // of f32 in integer problems
  int scale_per_channel;
  int rounds;  // to an integer before out_zero is added
  int a_zero, b_zero, out_zero;
  int residual;  // Epilogue::residual is there, and these are its fields and the bounds of a byte
  int t_zero, z_zero;
  double t_scale, z_scale, low, high;
};

// What meets in one output element: core/tolerance.h's bound and the exact value follow from it.
struct ReferenceRecord {
  double sum, sum_abs, window_b;
  double prior, bias, z, slope, scale;
  long long terms;
};
