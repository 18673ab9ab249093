#include "engines/cuda/layout/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "device/cuda/device.h"
#include "device/cuda/rates.h"
#include "engines/cuda/compiler/constants.h"

namespace convoy::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kVectorBytes = 16;
constexpr std::int64_t kSmall = std::int64_t{1} << 30;  // positions counted with 32 bits
constexpr double kLaunchSeconds = 3.2e-6;               // with the grid's start and end; measured on an H200
constexpr std::size_t kMostOuter = 3;                   // of the transposing kernel, which has two dims more

using Dim = LayoutDesign::Dim;

bool convertible(DataType type) {
  switch (type) {
    case DataType::f64:
    case DataType::f32:
    case DataType::f16:
    case DataType::bf16:
    case DataType::f8_e4m3:
    case DataType::f8_e5m2:
    case DataType::s32:
    case DataType::s8:
    case DataType::u8:
      return true;
    default:
      return false;
  }
}

// Whether the first dim, of size 1, is as another batch's would be: the slowest in both tensors, with strides that
// hinder no vector.
bool is_a_batch_of_one(const TensorDesc& from, const TensorDesc& to) {
  constexpr std::int64_t kMostVector = 16;
  const auto slowest = [](const TensorDesc& desc) {
    return desc.strides[0] % kMostVector == 0 && std::ranges::max(desc.strides) == desc.strides[0];
  };
  return from.dims.size() > 1 && from.dims[0] == 1 && slowest(from) && slowest(to) && from.elements() > 1;
}

// The dims over 1, slowest in the target first, those in one that both tensors walk with one stride. A batch of one is
// a dim, too, so that its kernel is that of other batches.
std::vector<Dim> merged_dims(const TensorDesc& from, const TensorDesc& to) {
  std::vector<Dim> dims;
  for (std::size_t i = 0; i < from.dims.size(); ++i) {
    if (from.dims[i] > 1 || (i == 0 && is_a_batch_of_one(from, to))) {
      dims.push_back({from.dims[i], from.strides[i], to.strides[i]});
    }
  }
  std::stable_sort(dims.begin(), dims.end(), [](const Dim& a, const Dim& b) { return a.to > b.to; });
  std::vector<Dim> merged;
  for (const Dim& dim : dims) {
    if (!merged.empty() && merged.back().from == dim.from * dim.size && merged.back().to == dim.to * dim.size) {
      merged.back() = {merged.back().size * dim.size, dim.from, dim.to};
    } else {
      merged.push_back(dim);
    }
  }
  if (merged.empty()) merged.push_back({1, 1, 1});
  return merged;
}

// The tile of a dim: all of it, or of a few sizes the one that leaves least over.
int tile_of(std::int64_t size, bool wide_elements) {
  const std::array<int, 3> sizes = wide_elements ? std::array{32, 48, 40} : std::array{64, 96, 80};
  if (size <= sizes[1]) return static_cast<int>(size);
  const auto left = [&](int tile) { return (size + tile - 1) / tile * tile - size; };
  return *std::min_element(sizes.begin(), sizes.end(), [&](int a, int b) { return left(a) < left(b); });
}

std::int64_t tiles(std::int64_t size, int tile) { return (size + tile - 1) / tile; }

// The most elements, up to 16 bytes, of an access that `fits` lets through.
template <class Fits>
int widest_vector(std::int64_t element_bytes, const Fits& fits) {
  for (std::int64_t vector = kVectorBytes / element_bytes; vector > 1; vector /= 2) {
    if (fits(vector)) return static_cast<int>(vector);
  }
  return 1;
}

// Whether accesses of `vector` elements stay aligned wherever the outer dims lead.
bool aligned(const TensorDesc& desc, std::int64_t vector, const std::vector<Dim>& outer, std::int64_t Dim::*stride) {
  return desc.alignment % (vector * static_cast<std::int64_t>(size_of(desc.type))) == 0 &&
         std::all_of(outer.begin(), outer.end(), [&](const Dim& dim) { return dim.*stride % vector == 0; });
}

struct Access {
  int vector = 1;
  bool dense = false;
};

// How a side of the transposing kernel is touched, whose runs are along `inner`: whole runs, or the tile as one run.
Access access_of(const TensorDesc& desc, const LayoutDesign& design, std::int64_t Dim::*stride, bool runs_along_b) {
  const Dim& inner = runs_along_b ? design.b : design.a;
  const Dim& across = runs_along_b ? design.a : design.b;
  const int inner_tile = runs_along_b ? design.tile_b : design.tile_a;
  const int across_tile = runs_along_b ? design.tile_a : design.tile_b;
  if (inner.*stride != 1) return {};
  const auto bytes = static_cast<std::int64_t>(size_of(desc.type));
  const bool whole = inner_tile == inner.size;
  const auto runs_fit = [&](std::int64_t vector) {
    return across.*stride % vector == 0 && (whole || inner_tile % vector == 0) &&
           aligned(desc, vector, design.outer, stride);
  };
  const auto tile_fits = [&](std::int64_t vector) {
    return (across_tile == across.size || across_tile * inner.size % vector == 0) &&
           aligned(desc, vector, design.outer, stride);
  };
  const int in_runs = widest_vector(bytes, runs_fit);
  if (!whole || across.*stride != inner.size) return {in_runs, false};
  const int in_tile = widest_vector(bytes, tile_fits);
  return in_tile > in_runs ? Access{in_tile, true} : Access{in_runs, false};
}

void set_strides(Constants& constants, const std::string& name, const Dim& dim) {
  constants.set("FROM_" + name, dim.from).set("TO_" + name, dim.to);
}

}  // namespace

Result<LayoutDesign> layout_design(const TensorDesc& from, const TensorDesc& to, const CudaDevice& device) {
  const auto unsupported = [](std::string text) { return Error{ErrorCode::unsupported, std::move(text)}; };
  if (from.dims != to.dims) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("from.dims={} and to.dims={} differ", to_string(from.dims), to_string(to.dims))};
  }
  if (from.dims.size() > 5) return unsupported(fmt::format("rank {}: at most 5 are converted", from.dims.size()));
  if (from.channel_block > 1 || to.channel_block > 1) return unsupported("channels in blocks are not converted");
  if (from.type != to.type && !(convertible(from.type) && convertible(to.type))) {
    return unsupported(fmt::format("there is no conversion from {} to {}", name_of(from.type), name_of(to.type)));
  }
  LayoutDesign design;
  if (from.elements() == 0) return design;
  std::vector<Dim> dims = merged_dims(from, to);
  const auto closest = [&](std::int64_t Dim::*stride) {
    return std::min_element(dims.begin(), dims.end(),
                            [&](const Dim& p, const Dim& q) { return p.*stride < q.*stride; }) -
           dims.begin();
  };
  const auto a = closest(&Dim::to), b = closest(&Dim::from);
  design.transposed = a != b;
  design.a = dims[static_cast<std::size_t>(a)];
  design.b = dims[static_cast<std::size_t>(b)];
  for (std::ptrdiff_t i = 0; i < std::ssize(dims); ++i) {
    if (i != a && i != b) design.outer.push_back(dims[static_cast<std::size_t>(i)]);
  }
  std::int64_t outer_size = 1;
  for (const Dim& dim : design.outer) outer_size *= dim.size;
  const auto [narrow, wide] = std::minmax<std::int64_t>(
      {static_cast<std::int64_t>(size_of(from.type)), static_cast<std::int64_t>(size_of(to.type))});
  const Dim &da = design.a, &db = design.b;
  if (!design.transposed) {
    const auto fits = [&](std::int64_t vector) {
      return da.size % vector == 0 && da.from == 1 && da.to == 1 && aligned(from, vector, design.outer, &Dim::from) &&
             aligned(to, vector, design.outer, &Dim::to);
    };
    design.from_vector = design.to_vector = widest_vector(wide, fits);
    design.count = da.size / design.from_vector * outer_size;
    design.blocks = std::clamp<std::int64_t>((design.count + kThreads * 4 - 1) / (kThreads * 4), 1,
                                             std::int64_t{std::max(device.sm_count, 1)} * 64);
    return design;
  }
  if (da.size > kSmall || db.size > kSmall) {
    return unsupported(fmt::format("dims={}: at most {} positions are walked together", to_string(from.dims), kSmall));
  }
  design.tile_a = tile_of(da.size, narrow == 8);
  design.tile_b = tile_of(db.size, narrow == 8);
  // A short dim beside a long one: longer tiles of that, up to about 8 KiB.
  const auto grow = [&, bytes = narrow](int& tile, std::int64_t size, int other) {
    while (tile < size && std::int64_t{tile} * other * bytes <= 4096) tile *= 2;
    if (tile > size) tile = static_cast<int>(size);
  };
  grow(design.tile_a, da.size, design.tile_b);
  grow(design.tile_b, db.size, design.tile_a);
  const Access in = access_of(from, design, &Dim::from, true), out = access_of(to, design, &Dim::to, false);
  design.from_vector = in.vector;
  design.from_dense = in.dense;
  design.to_vector = out.vector;
  design.to_dense = out.dense;
  design.blocks = tiles(da.size, design.tile_a) * tiles(db.size, design.tile_b) * outer_size;
  if (design.blocks > std::numeric_limits<std::int32_t>::max()) {
    return unsupported(
        fmt::format("{} tiles of {}x{}: more than a launch may have", design.blocks, design.tile_a, design.tile_b));
  }
  return design;
}

KernelRequest layout_request(const TensorDesc& from, const TensorDesc& to, const LayoutDesign& design, int architecture,
                             int target_sms) {
  Constants constants;
  constants.enumerations();
  constants.set("FROM_TYPE", static_cast<int>(from.type)).set("TO_TYPE", static_cast<int>(to.type));
  constants.set("FROM_BYTES", static_cast<int>(size_of(from.type))).set("TO_BYTES", static_cast<int>(size_of(to.type)));
  constants.set("THREADS", kThreads);
  constants.set("SMALL", from.elements() < kSmall);
  const bool flat = !design.transposed && design.outer.empty();
  constants.set("SIZE_A", flat ? 0 : design.a.size).set("SIZE_B", flat ? 0 : design.b.size);
  constants.set("FROM_STRIDE_A", design.a.from).set("TO_STRIDE_A", design.a.to);
  constants.set("FROM_STRIDE_B", design.b.from).set("TO_STRIDE_B", design.b.to);
  // Those that are missing have one position. The size of the slowest is in no text.
  std::vector<Dim> outer = design.outer;
  outer.resize(kMostOuter + (design.transposed ? 0 : 1));
  for (std::size_t i = 0; i < outer.size(); ++i) {
    const std::string name = fmt::format("OUTER_{}", i);
    if (i > 0) constants.set(name, outer[i].size);
    set_strides(constants, name, outer[i]);
  }
  constants.set("TILE_A", design.tile_a).set("TILE_B", design.tile_b);
  constants.set("FROM_VECTOR", design.from_vector).set("TO_VECTOR", design.to_vector);
  constants.set("FROM_DENSE", design.from_dense).set("TO_DENSE", design.to_dense);
  if (target_sms > 0) constants.work_blocks(design.blocks);
  return {design.transposed ? "layout_transpose.cu" : "layout_copy.cu", constants.text(), architecture};
}

Result<std::vector<LayoutConversion>> LayoutConversion::make_all(std::span<const Placements> placements,
                                                                 const CudaDevice& device, int target_sms) {
  std::vector<LayoutDesign> designs;
  std::vector<KernelRequest> requests;
  for (const auto& [from, to] : placements) {
    CONVOY_TRY(LayoutDesign design, layout_design(from, to, device));
    if (design.blocks > 0) requests.push_back(layout_request(from, to, design, device.architecture, target_sms));
    designs.push_back(std::move(design));
  }
  CONVOY_TRY(const std::vector<KernelImage> images, compile_all(requests));
  std::vector<LayoutConversion> all;
  auto image = images.begin();
  for (const LayoutDesign& design : designs) {
    LayoutConversion& made = all.emplace_back(LayoutConversion());
    made.ordinal_ = device.ordinal;
    if (design.blocks == 0) continue;
    made.code_bytes_ = image->size();
    CONVOY_TRY(Module module, Module::load(device.ordinal, *image++, "layout conversion"));
    made.module_ = std::make_shared<const Module>(std::move(module));
    CONVOY_TRY(made.kernel_, made.module_->kernel(design.transposed ? "transpose" : "copy"));
    made.shape_.grid.x = static_cast<unsigned>(design.blocks);
    made.shape_.block.x = kThreads;
    made.count_ = static_cast<std::uint64_t>(design.count);
    if (target_sms > 0) CONVOY_CHECK(keep_within(device.ordinal, target_sms, made.kernel_, made.shape_));
  }
  return all;
}

Result<LayoutConversion> LayoutConversion::make(const TensorDesc& from, const TensorDesc& to, const CudaDevice& device,
                                                int target_sms) {
  const Placements placements{from, to};
  CONVOY_TRY(std::vector<LayoutConversion> made, make_all({&placements, 1}, device, target_sms));
  return std::move(made.front());
}

Result<void> LayoutConversion::enqueue(const void* from, void* to, CUstream stream) const {
  if (module_ == nullptr) return {};
  CONVOY_CHECK(make_current(ordinal_));
  std::uint64_t count = count_;  // the transposing kernel reads none
  void* arguments[] = {&from, &to, &count};
  return launch(kernel_, shape_, arguments, stream);
}

double predicted_layout_seconds(const TensorDesc& from, const TensorDesc& to, const CudaDevice& device) {
  const double bytes =
      static_cast<double>(from.elements()) * static_cast<double>(size_of(from.type) + size_of(to.type));
  return kLaunchSeconds + bytes / memory_bytes_per_second(device);
}

}  // namespace convoy::cuda
