// Loops over states through Pinocchio's algorithms, compiled from its headers, behind a C interface.
//
// States are rows: q (n, nq), v (n, nv), x (n, nv) with x the acceleration or the torque. Each loop
// runs over the states `repeats` times. Where `out` is not null, the results of every state are
// copied there: (n, nv) or (n, nv, nv); leave it null when timing.
#include "pinocchio_limits.hpp"

#include <pinocchio/multibody.hpp>
#include <pinocchio/algorithm/aba.hpp>
#include <pinocchio/algorithm/crba.hpp>
#include <pinocchio/algorithm/rnea.hpp>

#include <exception>
#include <memory>

#include "robot_file.hpp"

namespace {

using pinocchio::Convention;
using Rows = Eigen::Map<const Eigen::VectorXd>;

struct Robot {
  explicit Robot(const pinocchio::Model& m) : model(m), data(model) {}
  pinocchio::Model model;
  pinocchio::Data data;
};

template <class Compute, class Result>
void loop(long n, long repeats, double* out, long size, Compute compute, Result result) {
  for (long r = 0; r < repeats; ++r)
    for (long k = 0; k < n; ++k) {
      compute(k);
      if (out) Eigen::Map<Eigen::VectorXd>(out + k * size, size) = result();
    }
}

}  // namespace

#define PEER_API __attribute__((visibility("default")))  // all else stays hidden from the wheel's library

extern "C" {

// Null if the file cannot be read.
PEER_API void* peer_open(const char* path) {
  try {
    return std::make_unique<Robot>(peer::read_robot(path)).release();
  } catch (const std::exception&) {
    return nullptr;
  }
}

PEER_API void peer_close(void* robot) { delete static_cast<Robot*>(robot); }

PEER_API long peer_nq(const void* robot) { return static_cast<const Robot*>(robot)->model.nq; }

// route: 0 RNEA; 1, 2 ABA in local and world frames; 3, 4 CRBA likewise; 5 computeMinverse.
// Returns 0, or 1 for an unknown route.
PEER_API int peer_run(void* robot, int route, long n, long repeats, const double* q, const double* v,
             const double* x, double* out) {
  auto& model = static_cast<Robot*>(robot)->model;
  auto& data = static_cast<Robot*>(robot)->data;
  const long nq = model.nq, nv = model.nv;
  const auto at = [](const double* rows, long k, long size) { return Rows(rows + k * size, size); };
  const auto flat = [nv](pinocchio::Data::RowMatrixXs m) -> Eigen::VectorXd {
    m.triangularView<Eigen::StrictlyLower>() = m.transpose().triangularView<Eigen::StrictlyLower>();
    return Eigen::Map<const Eigen::VectorXd>(m.data(), nv * nv);
  };
  switch (route) {
    case 0:
      loop(n, repeats, out, nv,
           [&](long k) { pinocchio::rnea(model, data, at(q, k, nq), at(v, k, nv), at(x, k, nv)); },
           [&]() -> const auto& { return data.tau; });
      return 0;
    case 1:
    case 2: {
      const auto frames = route == 1 ? Convention::LOCAL : Convention::WORLD;
      loop(n, repeats, out, nv,
           [&](long k) {
             pinocchio::aba(model, data, at(q, k, nq), at(v, k, nv), at(x, k, nv), frames);
           },
           [&]() -> const auto& { return data.ddq; });
      return 0;
    }
    case 3:
    case 4: {
      const auto frames = route == 3 ? Convention::LOCAL : Convention::WORLD;
      loop(n, repeats, out, nv * nv,
           [&](long k) { pinocchio::crba(model, data, at(q, k, nq), frames); },
           [&] { return flat(data.M); });
      return 0;
    }
    case 5:
      loop(n, repeats, out, nv * nv,
           [&](long k) { pinocchio::computeMinverse(model, data, at(q, k, nq)); },
           [&] { return flat(data.Minv); });
      return 0;
    default:
      return 1;
  }
}
}
