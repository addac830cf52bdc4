// Loops over states through Pinocchio's routes to Lambda^-1, M^-1 and the factors of M, compiled
// from its headers, behind a C interface.
//
// States are rows q (n, nq). A loop runs over them `repeats` times. Where `out` is not null, the
// results of every state are copied there, by rows; leave it null when timing. Frames are in their
// own coordinates, linear part first, as everywhere in Pinocchio.
#include "pinocchio_limits.hpp"

#include <pinocchio/multibody.hpp>
#include <pinocchio/algorithm/cholesky.hpp>
#include <pinocchio/algorithm/constraint-cholesky.hpp>
#include <pinocchio/algorithm/crba.hpp>
#include <pinocchio/algorithm/delassus.hpp>
#include <pinocchio/algorithm/jacobian.hpp>
#include <pinocchio/algorithm/pv.hpp>

#include <exception>
#include <memory>
#include <vector>

#include "robot_file.hpp"

namespace {

using Matrix = Eigen::MatrixXd;
using Rows = Eigen::Map<const Eigen::VectorXd>;
using Square = Eigen::Map<Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;

struct Frame {
  pinocchio::JointIndex joint;
  pinocchio::SE3 placement;
};

template <class Upper>
Matrix symmetric(const Upper& m) {
  return m.template selfadjointView<Eigen::Upper>();
}

// One robot with its operational frames. Each member function is one route; those to Lambda^-1
// leave it in `lambda`, its upper triangle at least.
struct Space {
  Space(const pinocchio::Model& m, const std::vector<Frame>& f)
      : model(m), data(model), pv_data(model), frames(f), models(constraints()), datas(models.begin(), models.end()),
        kkt(model, data, models, datas), rows(6 * static_cast<long>(f.size())), lambda(Matrix::Zero(rows, rows)),
        J(Matrix::Zero(rows, model.nv)), JMinv(rows, model.nv), Jt(model.nv, rows), J6(6, model.nv) {
    pinocchio::initPvDelassus(model, pv_data, models);
    for (const auto& frame : frames) to_frame.push_back(frame.placement.toActionMatrixInverse());
  }

  std::vector<pinocchio::RigidConstraintModel> constraints() const {
    std::vector<pinocchio::RigidConstraintModel> out;
    for (const auto& frame : frames)
      out.emplace_back(pinocchio::CONTACT_6D, model, frame.joint, frame.placement, pinocchio::LOCAL);
    return out;
  }

  void fill_jacobian() {  // from data.J; the entries that are zero at all q are never touched
    for (std::size_t k = 0; k < frames.size(); ++k) {
      J6.setZero();
      pinocchio::getJointJacobian(model, data, frames[k].joint, pinocchio::LOCAL, J6);
      J.middleRows<6>(6 * static_cast<long>(k)).noalias() = to_frame[k] * J6;
    }
  }

  void by_factors(const Rows& q) {  // Y = D^-1/2 U^-1 J^T, Y^T Y
    pinocchio::crba(model, data, q, pinocchio::Convention::WORLD);  // leaves data.J, too
    fill_jacobian();
    pinocchio::cholesky::decompose(model, data);
    Jt = J.transpose();
    pinocchio::cholesky::Uiv(model, data, Jt);
    for (long i = 0; i < model.nv; ++i) Jt.row(i) *= std::sqrt(data.Dinv[i]);
    lambda.noalias() = Jt.transpose() * Jt;
  }

  void by_inverse(const Rows& q) {  // J M^-1 J^T
    pinocchio::computeMinverse(model, data, q);
    pinocchio::computeJointJacobians(model, data, q);
    fill_jacobian();
    data.Minv.triangularView<Eigen::StrictlyLower>() = data.Minv.transpose().triangularView<Eigen::StrictlyLower>();
    JMinv.noalias() = J * data.Minv;
    lambda.noalias() = JMinv * J.transpose();
  }

  void by_constraint_cholesky(const Rows& q) {
    pinocchio::crba(model, data, q, pinocchio::Convention::WORLD);
    pinocchio::calc(model, data, models, datas);
    kkt.compute(model, data, models, datas, 0.);
    kkt.getInverseOperationalSpaceInertiaMatrix(lambda);
  }

  void by_force_propagation(const Rows& q) {
    pinocchio::computeDelassusMatrix(model, data, q, models, datas, lambda);
  }

  void by_popov_vereshchagin(const Rows& q) {
    pinocchio::computePvDelassusMatrix(model, pv_data, q, models, datas, lambda, 0.);
  }

  void invert(const Rows& q) { pinocchio::computeMinverse(model, data, q); }

  pinocchio::Model model;
  pinocchio::Data data, pv_data;
  std::vector<Frame> frames;
  std::vector<pinocchio::RigidConstraintModel> models;
  std::vector<pinocchio::RigidConstraintData> datas;
  pinocchio::ConstraintCholeskyDecomposition kkt;
  long rows;
  Matrix lambda, J, JMinv, Jt;
  Eigen::Matrix<double, 6, Eigen::Dynamic> J6;
  std::vector<pinocchio::SE3::ActionMatrixType> to_frame;
  std::vector<pinocchio::Data> factored;
};

using Route = void (Space::*)(const Rows&);
constexpr Route ROUTES[] = {&Space::by_factors,           &Space::by_inverse,
                            &Space::by_constraint_cholesky, &Space::by_force_propagation,
                            &Space::by_popov_vereshchagin,  &Space::invert};
constexpr int N_ROUTES = sizeof(ROUTES) / sizeof(ROUTES[0]), INVERT = N_ROUTES - 1;

}  // namespace

#define PEER_API __attribute__((visibility("default")))  // all else stays hidden from the wheel's library

extern "C" {

// Frame k: its joint's number and 12 numbers, rotation by rows and translation. Null if it fails.
PEER_API void* space_open(const char* path, long n_frames, const long* joints, const double* placements) {
  try {
    std::vector<Frame> frames;
    for (long k = 0; k < n_frames; ++k) {
      const double* p = placements + 12 * k;
      const Eigen::Matrix3d rotation = Eigen::Map<const peer::Matrix3>(p);
      frames.push_back({static_cast<pinocchio::JointIndex>(joints[k]),
                        pinocchio::SE3(rotation, Eigen::Map<const peer::Vector3>(p + 9))});
    }
    return std::make_unique<Space>(peer::read_robot(path), frames).release();
  } catch (const std::exception&) {
    return nullptr;
  }
}

PEER_API void space_close(void* handle) { delete static_cast<Space*>(handle); }

// route: number in ROUTES. out: (n, 6 n_frames, 6 n_frames), for the last route (n, nv, nv).
// Returns 0, or 1 for an unknown route.
PEER_API int space_run(void* handle, int route, long n, long repeats, const double* q, double* out) {
  if (route < 0 || route >= N_ROUTES) return 1;
  auto& space = *static_cast<Space*>(handle);
  const Route compute = ROUTES[route];
  const long nq = space.model.nq, size = route == INVERT ? space.model.nv : space.rows;
  for (long r = 0; r < repeats; ++r)
    for (long k = 0; k < n; ++k) {
      (space.*compute)(Rows(q + k * nq, nq));
      if (!out) continue;
      Square place(out + k * size * size, size, size);
      if (route == INVERT) place = symmetric(space.data.Minv);
      else place = symmetric(space.lambda);
    }
  return 0;
}

// Inertia matrices M (n, nv, nv) that space_factor is to decompose.
PEER_API void space_give(void* handle, long n, const double* M) {
  auto& space = *static_cast<Space*>(handle);
  const long nv = space.model.nv;
  space.factored.assign(static_cast<std::size_t>(n), pinocchio::Data(space.model));
  for (long k = 0; k < n; ++k)
    space.factored[static_cast<std::size_t>(k)].M = Square(const_cast<double*>(M) + k * nv * nv, nv, nv);
}

// M = U D U^T of all matrices given. out: per matrix U (nv, nv) and D (nv).
PEER_API void space_factor(void* handle, long repeats, double* out) {
  auto& space = *static_cast<Space*>(handle);
  const long nv = space.model.nv;
  for (long r = 0; r < repeats; ++r) {
    double* place = out;
    for (auto& data : space.factored) {
      pinocchio::cholesky::decompose(space.model, data);
      if (!out) continue;
      Square(place, nv, nv) = data.U;
      Eigen::Map<Eigen::VectorXd>(place + nv * nv, nv) = data.D;
      place += nv * nv + nv;
    }
  }
}
}
