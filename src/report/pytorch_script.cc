#include "report/pytorch_script.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/fnv.h"

namespace convoy::report {
namespace {

// PyTorch's; empty: its convolutions on a GPU take none such.
std::string_view torch_type(DataType type) {
  switch (type) {
    case DataType::f64:
      return "torch.float64";
    case DataType::f32:
      return "torch.float32";
    case DataType::f16:
      return "torch.float16";
    case DataType::bf16:
      return "torch.bfloat16";
    default:
      return {};
  }
}

std::string list(const Dims& dims) { return fmt::format("[{}]", fmt::join(dims, ", ")); }

// For a docstring: one line, nothing that ends it.
std::string plain(std::string_view text) {
  std::string line;
  for (const char c : text) {
    line += c == '"' ? '\'' : c == '\\' ? '/' : static_cast<unsigned char>(c) < 32 || c == 127 ? ' ' : c;
  }
  return line;
}

// In the order of torch.nn.functional.pad: the last dim first.
std::string asymmetric_padding(const ConvProblem& problem) {
  Dims pads;
  for (std::size_t i = problem.pre_padding.size(); i-- > 0;) {
    pads.push_back(problem.pre_padding[i]);
    pads.push_back(problem.post_padding[i]);
  }
  return list(pads);
}

constexpr std::string_view kTail = R"py(

def tensor(description, seed):
    """A tensor on the GPU with these sizes and strides, at an address that is a multiple of `align` and of no more."""
    sizes, strides, align = description
    step = torch.empty((), dtype=DTYPE).element_size()
    skip = 0 if align >= 32 else max(1, align // step)
    span = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides))
    generator = torch.Generator().manual_seed(seed)
    storage = torch.randn(skip + span, generator=generator).to(DTYPE).to(arguments.device)
    return storage.as_strided(sizes, strides, skip)


def padded(x):
    return F.pad(x, PAD_FIRST) if PAD_FIRST else x


def weights(w):
    return w.flip(list(range(2, w.dim()))) if FLIPPED else w


def forward(x, w):
    return CONV(padded(x), weights(w), None, STRIDE, PADDING, DILATION, GROUPS)


def dgrad(x, w, y):
    """The gradient of x alone, as autograd asks cuDNN for it."""
    return torch.ops.aten.convolution_backward(y, padded(x), weights(w), None, STRIDE, PADDING, DILATION, False,
                                               [0] * len(STRIDE), GROUPS, [True, False, False])[0]


def wgrad(x, w, y):
    return torch.ops.aten.convolution_backward(y, padded(x), weights(w), None, STRIDE, PADDING, DILATION, False,
                                               [0] * len(STRIDE), GROUPS, [False, True, False])[1]


def transposed(x, w, y):
    """The forward pass of a transposed convolution asks cuDNN for the same."""
    if PAD_FIRST:
        return "left out: PyTorch has no transposed convolution with other padding before than after"
    if any(more >= max(stride, dilation) for more, stride, dilation in zip(OUTPUT_PADDING, STRIDE, DILATION)):
        return "left out: its output padding would be larger than PyTorch allows"
    return CONV_TRANSPOSE(y, weights(w), None, STRIDE, PADDING, OUTPUT_PADDING, GROUPS, DILATION)


def autograd(x, w, y):
    x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
    forward(x, w).backward(y)
    return x.grad


def fused(x, w, y):
    """What cuDNN is asked for as one graph: convolution, bias, z, relu."""
    bias = torch.zeros(w.shape[0], dtype=DTYPE, device=w.device)
    if FUSED == "relu":
        return torch.cudnn_convolution_relu(x, w, bias, STRIDE, PADDING, DILATION, GROUPS)
    return torch.cudnn_convolution_add_relu(x, w, torch.zeros_like(y), 1.0, bias, STRIDE, PADDING, DILATION, GROUPS)


def attempt(name, body, tensors):
    try:
        result = body(*tensors)
        if isinstance(result, str):
            return print(f"{name}: {result}") or True
        if arguments.device == "cuda":
            torch.cuda.synchronize()
        print(f"{name}: done, {list(result.shape)}, {result.dtype}")
        return True
    except Exception as error:  # whatever PyTorch and cuDNN say
        print(f"{name}: {type(error).__name__}: {error}")
        return False


def main():
    print(f"torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, problem {PROBLEM}")
    tensors = tensor(X, 1), tensor(W, 2), tensor(Y, 3)
    steps = {"fprop": [("forward", lambda x, w, y: forward(x, w))],
             "dgrad": [("gradient of x", dgrad), ("transposed, forward", transposed)],
             "wgrad": [("gradient of w", wgrad)]}[PASS]
    if FUSED:
        steps.append(("fused", fused))
    steps.append(("forward and backward", autograd))
    return 0 if all([attempt(name, body, tensors) for name, body in steps]) else 1


arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
arguments.add_argument("--device", default="cuda", help="cuda, or cpu to compare with")
arguments.add_argument("--benchmark", action="store_true", default=BENCHMARK, help="torch.backends.cudnn.benchmark")
arguments.add_argument("--deterministic", action="store_true", help="torch.backends.cudnn.deterministic")
arguments = arguments.parse_args()
torch.backends.cudnn.benchmark = arguments.benchmark
torch.backends.cudnn.deterministic = arguments.deterministic
torch.backends.cudnn.allow_tf32 = ALLOW_TF32
sys.exit(main())
)py";

}  // namespace

Result<std::string> pytorch_script(const ConvProblem& problem, const ScriptFacts& facts) {
  const std::string_view type = torch_type(problem.x.type);
  const auto unsupported = [](std::string what) { return Error{ErrorCode::unsupported, std::move(what)}; };
  if (type.empty()) {
    return unsupported(fmt::format("x={}: PyTorch's convolutions on a GPU have no such type", name_of(problem.x.type)));
  }
  if (problem.w.type != problem.x.type || problem.y.type != problem.x.type) {
    return unsupported(fmt::format("x={}, w={}, y={}: PyTorch's convolutions have one type", name_of(problem.x.type),
                                   name_of(problem.w.type), name_of(problem.y.type)));
  }
  const int spatial = problem.spatial_dims();
  for (const auto& [name, tensor] :
       {std::pair("x", &problem.x), std::pair("w", &problem.w), std::pair("y", &problem.y)}) {
    if (tensor->channel_block > 1) {
      return unsupported(fmt::format("{}: PyTorch has no blocks of {} channels", name, tensor->channel_block));
    }
  }
  if (spatial < 1 || spatial > 3) return unsupported("PyTorch has convolutions of 1 to 3 dims");
  const bool pads_itself = problem.pre_padding != problem.post_padding;
  Dims output_padding;
  for (int i = 0; i < spatial; ++i) {
    const std::int64_t least = (problem.y.dims[i + 2] - 1) * problem.stride[i] +
                               problem.dilation[i] * (problem.w.dims[i + 2] - 1) + 1 - 2 * problem.pre_padding[i];
    output_padding.push_back(problem.x.dims[i + 2] - least);
  }
  const Epilogue& epilogue = problem.epilogue;
  const bool relu =
      epilogue.activation.kind == ActivationKind::relu && epilogue.bias && problem.pass == Pass::fprop && !pads_itself;
  std::string head = fmt::format("Asks cuDNN for one convolution, as PyTorch does.\n\nproblem: {}\n", print(problem));
  if (!facts.failure.empty()) head += fmt::format("what went wrong: {}\n", plain(facts.failure));
  for (const std::string& line : facts.asked) head += plain(line) + "\n";
  if ((epilogue.bias || epilogue.gamma != 0 || epilogue.activation.kind != ActivationKind::identity) && !relu) {
    head += "The problem's epilogue is left out: PyTorch fuses none such.\n";
  }
  if (problem.alpha != 1 || problem.beta != 0) head += "alpha and beta are left out: PyTorch has none.\n";
  if (pads_itself) head += "PyTorch pads alike on both sides, so x is padded before.\n";
  if (problem.mode == ConvMode::convolution)
    head += "mode=conv: PyTorch has cross-correlations, so w is flipped before.\n";
  head += "usage: python3 THIS [--device cpu] [--benchmark] [--deterministic]; exits with 1 where something failed\n";
  const auto described = [](const TensorDesc& tensor) {
    return fmt::format("({}, {}, {})", list(tensor.dims), list(tensor.strides), tensor.alignment);
  };
  std::string script = fmt::format(
      "\"\"\"{}\"\"\"\nimport argparse\nimport sys\n\nimport torch\nimport torch.nn.functional as F\n\n", head);
  script += fmt::format("PROBLEM = \"{}\"\nPASS = \"{}\"\nDTYPE = {}\n", print(problem), name_of(problem.pass), type);
  script += fmt::format("# sizes, strides in elements, alignment in bytes\nX = {}\nW = {}\nY = {}\n",
                        described(problem.x), described(problem.w), described(problem.y));
  script += fmt::format("STRIDE, DILATION, GROUPS = {}, {}, {}\n", list(problem.stride), list(problem.dilation),
                        problem.groups);
  script += fmt::format("PADDING = {}\nPAD_FIRST = {}\n",
                        list(pads_itself ? Dims(static_cast<std::size_t>(spatial), 0) : problem.pre_padding),
                        pads_itself ? asymmetric_padding(problem) : "[]");
  script += fmt::format("OUTPUT_PADDING = {}\nFLIPPED = {}\n", list(output_padding),
                        problem.mode == ConvMode::convolution ? "True" : "False");
  script += fmt::format("FUSED = \"{}\"\n", !relu ? "" : epilogue.gamma != 0 ? "add_relu" : "relu");
  script += fmt::format("ALLOW_TF32 = {}  # what the problem's math is\nBENCHMARK = {}\n",
                        problem.math == MathMode::strict ? "False" : "True", facts.benchmark ? "True" : "False");
  script += fmt::format("CONV, CONV_TRANSPOSE = F.conv{0}d, F.conv_transpose{0}d\n", spatial);
  return script + std::string(kTail);
}

std::string pytorch_script_name(const ConvProblem& problem) {
  return fmt::format("repro-{}-{}-{:08x}.py", name_of(problem.pass), name_of(problem.x.type), fnv1a(print(problem)));
}

}  // namespace convoy::report
