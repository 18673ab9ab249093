// fprop, dgrad and wgrad are one trilinear form: <conv(x, w), y> = <x, dgrad(y, w)> = <w, wgrad(x, y)>. With small
// integers all three are equal exactly.
#include "engines/reference/testing/literals.h"
#include "engines/testing/conv_data.h"
#include "engines/testing/problem_generator.h"

namespace convoy::reference_testing {
namespace {

double dot(const HostTensor& a, const HostTensor& b) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.desc.elements(); ++i) sum += a.at(i) * b.at(i);
  return sum;
}

HostTensor computed(ConvProblem problem, Pass pass, const HostTensor& x, const HostTensor& w, const HostTensor& y,
                    ThreadTeam& team) {
  problem.pass = pass;
  EXPECT_TRUE(validate(problem).ok()) << print(problem);
  HostTensor out = *HostTensor::allocate(problem.out());
  std::memset(out.data.get(), 0xFF, out.desc.bytes());
  ConvArgs args;
  args.x = x.data.get();
  args.w = w.data.get();
  args.y = y.data.get();
  args.out = out.data.get();
  EXPECT_TRUE((*reference_engine().plan(problem, {}, {}))->execute(args, {team}).ok());
  return out;
}

TEST(OracleAdjoint, ThreePassesAreOneForm) {
  testing::Random random(11);
  testing::ProblemOptions options;
  options.types = {{DataType::f64, DataType::f64, DataType::f64, DataType::f64}};
  options.alpha_beta = options.bias = options.residual = false;
  options.activations = {ActivationKind::identity};
  options.max_products = 50'000;
  const auto team = make_cpu_team(1);
  for (int i = 0; i < 300; ++i) {
    const ConvProblem problem = testing::random_problem(random, options);
    const auto filled = [&](const TensorDesc& desc) {
      HostTensor tensor = *HostTensor::zeros(desc);
      testing::fill_tensor(desc, tensor.data.get(), random, testing::Fill::small_integers);
      return tensor;
    };
    const HostTensor x = filled(problem.x);
    const HostTensor w = filled(problem.w);
    const HostTensor y = filled(problem.y);
    const double forward = dot(computed(problem, Pass::fprop, x, w, y, *team), y);
    EXPECT_EQ(forward, dot(computed(problem, Pass::dgrad, x, w, y, *team), x)) << print(problem);
    EXPECT_EQ(forward, dot(computed(problem, Pass::wgrad, x, w, y, *team), w)) << print(problem);
  }
}

}  // namespace
}  // namespace convoy::reference_testing
