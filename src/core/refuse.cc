// What an engine declares, enforced. Every check is one function that returns a refusal or nothing; their order is the
// order in which a person would want to hear it.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "convoy/engine.h"
#include "core/empty.h"
#include "core/text.h"

namespace convoy {
namespace {

using Answer = std::optional<Refusal>;

// Finding words costs more than all the checks together: `kWords` says whether anybody wants them.
template <bool kWords, class Words>
Refusal no(RefusalCode code, Words words) {
  if constexpr (kWords) return {code, words()};
  return {code, {}};
}

template <class Range, class Print>
std::string list(const Range& range, Print print) {
  std::string text;
  for (const auto& item : range) text += (text.empty() ? "" : ", ") + std::string(print(item));
  return text;
}

template <class Range, class Print>
std::string list_or_none(const Range& range, Print print) {
  return range.empty() ? "none" : list(range, print);
}

bool any_above_one(const Dims& dims) {
  return std::any_of(dims.begin(), dims.end(), [](std::int64_t value) { return value > 1; });
}

std::string placement(const TensorDesc& desc) {
  const Layout layout = desc.layout();
  if (layout != Layout::strided) return std::string(name_of(layout, desc.spatial_dims()));
  return fmt::format("strides {}", to_string(desc.strides));
}

template <bool kWords>
Answer check_device(const EngineInfo& info, const PlanRequest& request) {
  if (info.device != (request.cuda ? DeviceKind::cuda : DeviceKind::cpu)) {
    return no<kWords>(RefusalCode::device, [&] {
      if (!request.cuda) return std::string("device=cpu: this engine needs a CUDA device");
      return fmt::format("device=cuda:{}: this engine runs on the CPU", request.cuda->ordinal);
    });
  }
  if (!request.cuda) return std::nullopt;
  if (!info.min_architecture) {
    return no<kWords>(RefusalCode::device, [&] {
      return fmt::format("device=cuda:{}: this engine declares no architecture", request.cuda->ordinal);
    });
  }
  if (request.cuda->architecture >= *info.min_architecture) return std::nullopt;
  return no<kWords>(RefusalCode::device, [&] {
    return fmt::format("device=cuda:{}, sm_{}: this engine needs sm_{} or newer", request.cuda->ordinal,
                       request.cuda->architecture, *info.min_architecture);
  });
}

template <bool kWords>
Answer check_processor(const EngineInfo& info, const CpuFeatures& cpu) {
  if (info.device != DeviceKind::cpu || (info.min_isa && cpu.isa >= *info.min_isa)) return std::nullopt;
  return no<kWords>(RefusalCode::instruction_set, [&] {
    return fmt::format("instruction set={}: this engine {}", name_of(cpu.isa),
                       info.min_isa ? fmt::format("needs {}", name_of(*info.min_isa)) : "declares none");
  });
}

template <bool kWords>
Answer check_pass(const EngineInfo& info, const ConvProblem& p) {
  if (std::find(info.passes.begin(), info.passes.end(), p.pass) != info.passes.end()) return std::nullopt;
  return no<kWords>(RefusalCode::pass, [&] {
    return fmt::format("pass={}: this engine computes {}", name_of(p.pass),
                       list_or_none(info.passes, [](Pass pass) { return name_of(pass); }));
  });
}

std::string print_types(const TypeCombination& types) {
  return fmt::format("x={} w={} y={} compute={}", name_of(types.x), name_of(types.w), name_of(types.y),
                     name_of(types.compute));
}

template <bool kWords>
Answer check_types(const EngineInfo& info, const ConvProblem& p) {
  const TypeCombination types{p.x.type, p.w.type, p.y.type, p.compute};
  if (info.any_types || std::find(info.types.begin(), info.types.end(), types) != info.types.end()) {
    return std::nullopt;
  }
  if constexpr (!kWords) return Refusal{RefusalCode::data_type, {}};
  // An engine may take dozens of combinations: name those nearest to what was asked.
  std::vector<TypeCombination> same_x;
  std::vector<DataType> x_types;
  for (const TypeCombination& taken : info.types) {
    if (taken.x == types.x) same_x.push_back(taken);
    if (std::find(x_types.begin(), x_types.end(), taken.x) == x_types.end()) x_types.push_back(taken.x);
  }
  if (same_x.empty() && info.types.size() > 4) {
    return no<kWords>(RefusalCode::data_type, [&] {
      return fmt::format("types {}: this engine takes x in {}", print_types(types),
                         list(x_types, [](DataType type) { return name_of(type); }));
    });
  }
  return no<kWords>(RefusalCode::data_type, [&] {
    return fmt::format("types {}: this engine takes {}", print_types(types),
                       list_or_none(same_x.empty() ? info.types : same_x, print_types));
  });
}

template <bool kWords>
Answer check_spatial_dims(const EngineInfo& info, const ConvProblem& p) {
  const int spatial = p.spatial_dims();
  if (spatial >= info.min_spatial_dims && spatial <= info.max_spatial_dims) return std::nullopt;
  if (info.max_spatial_dims < info.min_spatial_dims) {
    return no<kWords>(RefusalCode::spatial_dims,
                      [&] { return fmt::format("spatial dims={}: this engine takes none", spatial); });
  }
  if (info.min_spatial_dims == info.max_spatial_dims) {
    return no<kWords>(RefusalCode::spatial_dims, [&] {
      return fmt::format("spatial dims={}: this engine takes {}", spatial, info.min_spatial_dims);
    });
  }
  return no<kWords>(RefusalCode::spatial_dims, [&] {
    return fmt::format("spatial dims={}: this engine takes {} to {}", spatial, info.min_spatial_dims,
                       info.max_spatial_dims);
  });
}

template <bool kWords>
Answer check_layouts(const EngineInfo& info, const ConvProblem& p) {
  const auto fits = [](const TensorDesc& desc, Layout layout) {
    return layout == Layout::strided ? desc.channel_block == 1 : desc.is_packed(layout);
  };
  const auto pair_fits = [&](const LayoutPair& pair) { return fits(p.x, pair.x) && fits(p.y, pair.y); };
  if (!info.any_layouts && std::none_of(info.layouts.begin(), info.layouts.end(), pair_fits)) {
    const auto print_pair = [&](const LayoutPair& pair) {
      return fmt::format("{}/{}", name_of(pair.x, p.spatial_dims()), name_of(pair.y, p.spatial_dims()));
    };
    return no<kWords>(RefusalCode::layout, [&] {
      return fmt::format("layouts x={}, y={}: this engine takes x/y in {}", placement(p.x), placement(p.y),
                         list_or_none(info.layouts, print_pair));
    });
  }
  if (!info.any_weight_strides && !p.w.is_packed(Layout::nchw)) {
    return no<kWords>(RefusalCode::layout, [&] {
      return fmt::format("layout w={}: this engine takes w in {} only", placement(p.w),
                         name_of(Layout::nchw, p.spatial_dims()));
    });
  }
  return std::nullopt;
}

template <bool kWords>
Answer check_window(const EngineInfo& info, const ConvProblem& p) {
  if (!info.groups && p.groups > 1) {
    return no<kWords>(RefusalCode::groups,
                      [&] { return fmt::format("groups={}: this engine takes groups=1 only", p.groups); });
  }
  if (!info.strided && any_above_one(p.stride)) {
    return no<kWords>(RefusalCode::stride,
                      [&] { return fmt::format("stride={}: this engine takes stride 1 only", to_string(p.stride)); });
  }
  if (!info.dilated && any_above_one(p.dilation)) {
    return no<kWords>(RefusalCode::dilation, [&] {
      return fmt::format("dilation={}: this engine takes dilation 1 only", to_string(p.dilation));
    });
  }
  if (!info.flipped && p.mode == ConvMode::convolution) {
    return no<kWords>(RefusalCode::mode,
                      [&] { return fmt::format("mode=conv: this engine computes cross-correlation only"); });
  }
  return std::nullopt;
}

template <bool kWords>
Answer check_gate(const EngineInfo& info, const ConvProblem& p) {
  if (info.gate || !p.gate) return std::nullopt;
  return no<kWords>(RefusalCode::scaling, [&] { return std::string("gate=1: this engine multiplies x by no gate"); });
}

template <bool kWords>
Answer check_epilogue(const EngineInfo& info, const ConvProblem& p) {
  if (!info.alpha_beta && (p.alpha != 1 || p.beta != 0)) {
    return no<kWords>(RefusalCode::scaling, [&] {
      return fmt::format("alpha={}, beta={}: this engine takes alpha=1 and beta=0 only", print_double(p.alpha),
                         print_double(p.beta));
    });
  }
  const Epilogue& epilogue = p.epilogue;
  if (!info.bias && epilogue.bias)
    return no<kWords>(RefusalCode::epilogue, [&] { return fmt::format("bias=1: this engine adds no bias"); });
  if ((!info.narrow_bias && epilogue.narrow_bias) || (!info.float_bias && epilogue.float_bias)) {
    return no<kWords>(RefusalCode::epilogue, [&] {
      return fmt::format("bias={}: this engine adds a bias of type {} only", epilogue.narrow_bias ? "out" : "f32",
                         name_of(p.compute));
    });
  }
  if (!info.residual && epilogue.gamma != 0) {
    return no<kWords>(RefusalCode::epilogue, [&] {
      return fmt::format("gamma={}: this engine adds no residual", print_double(epilogue.gamma));
    });
  }
  const ActivationKind kind = epilogue.activation.kind;
  if (kind != ActivationKind::identity && !info.any_activation &&
      std::find(info.activations.begin(), info.activations.end(), kind) == info.activations.end()) {
    return no<kWords>(RefusalCode::epilogue, [&] {
      if (info.activations.empty()) return fmt::format("act={}: this engine fuses none", name_of(kind));
      return fmt::format("act={}: this engine fuses {} only", name_of(kind),
                         list(info.activations, [](ActivationKind k) { return name_of(k); }));
    });
  }
  if (!info.requantize && epilogue.requantize != Requantize::none) {
    return no<kWords>(RefusalCode::epilogue, [&] {
      return fmt::format("requant={}: this engine doesn't requantize",
                         epilogue.requantize == Requantize::per_tensor ? "tensor" : "channel");
    });
  }
  if (!info.quantized_residual && epilogue.residual) {
    return no<kWords>(RefusalCode::epilogue,
                      [&] { return std::string("residual: this engine adds none behind the requantization"); });
  }
  if (!info.zero_points && (p.x_zero_point != 0 || p.w_zero_point != 0 || p.y_zero_point != 0)) {
    return no<kWords>(RefusalCode::epilogue, [&] {
      return fmt::format("zp={},{},{}: this engine takes zero points of 0 only", p.x_zero_point, p.w_zero_point,
                         p.y_zero_point);
    });
  }
  if (!info.given_zero_points && (p.x_zero_given || p.w_zero_given)) {
    return no<kWords>(RefusalCode::epilogue, [&] {
      return fmt::format(
          "zp: {}: this engine takes zero points that are known when it plans only",
          p.w_zero_given ? "one for each output channel of w is given at execution" : "x's is given at execution");
    });
  }
  return std::nullopt;
}

template <bool kWords>
Answer check_size(const EngineInfo& info, const ConvProblem& p) {
  if (info.max_elements == EngineInfo::any_size) return std::nullopt;
  const std::array<std::pair<const char*, const TensorDesc*>, 3> tensors = {{{"x", &p.x}, {"w", &p.w}, {"y", &p.y}}};
  for (const auto& tensor : tensors) {
    const char* name = tensor.first;
    const TensorDesc* desc = tensor.second;
    if (desc->storage_elements() > info.max_elements) {
      return no<kWords>(RefusalCode::size, [&] {
        return fmt::format("{}.dims={}: it spans {} elements, this engine takes at most {}", name,
                           to_string(desc->dims), desc->storage_elements(), info.max_elements);
      });
    }
  }
  return std::nullopt;
}

template <bool kWords>
Answer check_declaration(const EngineInfo& info, const ConvProblem& problem, const PlanRequest& request) {
  if (auto answer = check_device<kWords>(info, request)) return answer;
  if (auto answer = check_processor<kWords>(info, request.cpu)) return answer;
  if (auto answer = check_pass<kWords>(info, problem)) return answer;
  if (auto answer = check_types<kWords>(info, problem)) return answer;
  if (auto answer = check_spatial_dims<kWords>(info, problem)) return answer;
  if (auto answer = check_layouts<kWords>(info, problem)) return answer;
  if (auto answer = check_window<kWords>(info, problem)) return answer;
  if (auto answer = check_gate<kWords>(info, problem)) return answer;
  if (auto answer = check_epilogue<kWords>(info, problem)) return answer;
  if (auto answer = check_size<kWords>(info, problem)) return answer;
  return std::nullopt;
}

}  // namespace

std::string_view name_of(RefusalCode code) {
  static constexpr std::array<std::string_view, 22> kNames = {
      "device", "instruction_set", "pass",     "data_type", "layout",      "spatial_dims", "groups",   "channels",
      "filter", "stride",          "dilation", "padding",   "mode",        "scaling",      "epilogue", "alignment",
      "size",   "workspace",       "filtered", "knob",      "not_offered", "not_built"};
  static_assert(kNames.size() == static_cast<std::size_t>(RefusalCode::not_built) + 1);
  return kNames[static_cast<std::size_t>(code)];
}

std::string_view name_of(DeviceKind kind) { return kind == DeviceKind::cpu ? "cpu" : "cuda"; }

std::optional<Refusal> refuse(const Engine& engine, const ConvProblem& problem, const PlanRequest& request) {
  if (auto answer = check_declaration<true>(engine.info(), problem, request)) return answer;
  if (is_empty(problem) && !takes_empty(engine)) {
    return Refusal{RefusalCode::size,
                   fmt::format("x.dims={}, w.dims={}, y.dims={}: this engine needs elements to multiply",
                               to_string(problem.x.dims), to_string(problem.w.dims), to_string(problem.y.dims))};
  }
  return engine.check(problem, request);
}

bool admits(const EngineInfo& info, const ConvProblem& problem, const PlanRequest& request) {
  if (info.device != (request.cuda ? DeviceKind::cuda : DeviceKind::cpu)) return false;  // most rows, at once
  return !check_declaration<false>(info, problem, request).has_value();
}

}  // namespace convoy
