// A loop over states through Pinocchio's route to a task controller, compiled from its headers,
// behind a C interface: J, Jdot v, Lambda, Jbar and torque of frames in their own coordinates,
// linear part first, as everywhere in Pinocchio.
//
// crba (which leaves the joint Jacobians), its sparse Cholesky factors, U^-1 J^T, Eigen's LLT of
// Lambda^-1; rnea at zero acceleration for the bias, whose kinematics give Jdot v.
#include "pinocchio_limits.hpp"

#include <pinocchio/multibody.hpp>
#include <pinocchio/algorithm/cholesky.hpp>
#include <pinocchio/algorithm/crba.hpp>
#include <pinocchio/algorithm/jacobian.hpp>
#include <pinocchio/algorithm/kinematics.hpp>
#include <pinocchio/algorithm/rnea.hpp>

#include <exception>
#include <memory>
#include <vector>

#include "robot_file.hpp"

namespace {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;
using Rows = Eigen::Map<const Eigen::VectorXd>;
using Place = Eigen::Map<Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;

struct Tasks {
  Tasks(const pinocchio::Model& m, const std::vector<pinocchio::JointIndex>& j,
        const std::vector<pinocchio::SE3>& p)
      : model(m), data(model), joints(j), places(p), rows(6 * static_cast<long>(j.size())),
        J(Matrix::Zero(rows, model.nv)), Jt(model.nv, rows), Y(model.nv, rows), Jbar(model.nv, rows),
        inverse(rows, rows), Lambda(rows, rows), one(Matrix::Identity(rows, rows)), J6(6, model.nv),
        still(Vector::Zero(model.nv)), bias(rows), torque(model.nv), llt(rows) {
    for (const auto& place : places) to_frame.push_back(place.toActionMatrixInverse());
  }

  void control(const Rows& q, const Rows& v, const Rows& acceleration, const Rows& posture) {
    pinocchio::crba(model, data, q, pinocchio::Convention::WORLD);  // leaves data.J, too
    pinocchio::cholesky::decompose(model, data);
    pinocchio::forwardKinematics(model, data, q, v, still);
    for (std::size_t k = 0; k < joints.size(); ++k) {
      const long row = 6 * static_cast<long>(k);
      J6.setZero();
      pinocchio::getJointJacobian(model, data, joints[k], pinocchio::LOCAL, J6);
      J.middleRows<6>(row).noalias() = to_frame[k] * J6;
      bias.segment<6>(row) = places[k].actInv(data.a[joints[k]]).toVector();
    }
    pinocchio::nonLinearEffects(model, data, q, v);
    Jt = J.transpose();
    pinocchio::cholesky::Uiv(model, data, Jt);
    Y = data.Dinv.asDiagonal() * Jt;
    inverse.noalias() = Jt.transpose() * Y;
    llt.compute(inverse);
    Lambda = llt.solve(one);
    pinocchio::cholesky::Utiv(model, data, Y);  // M^-1 J^T
    Jbar.noalias() = Y * Lambda;
    const Vector moved = bias + Y.transpose() * (posture - data.nle);
    torque = posture;
    torque.noalias() += J.transpose() * (Lambda * (acceleration - moved));
  }

  pinocchio::Model model;
  pinocchio::Data data;
  std::vector<pinocchio::JointIndex> joints;
  std::vector<pinocchio::SE3> places;
  long rows;
  Matrix J, Jt, Y, Jbar, inverse, Lambda, one;
  Eigen::Matrix<double, 6, Eigen::Dynamic> J6;
  Vector still, bias, torque;
  Eigen::LLT<Matrix> llt;
  std::vector<pinocchio::SE3::ActionMatrixType> to_frame;
};

}  // namespace

#define PEER_API __attribute__((visibility("default")))  // all else stays hidden from the wheel's library

extern "C" {

// Frame k: its joint's number and 12 numbers, rotation by rows and translation. Null if it fails.
PEER_API void* tasks_open(const char* path, long n_frames, const long* joints, const double* placements) {
  try {
    std::vector<pinocchio::JointIndex> of;
    std::vector<pinocchio::SE3> places;
    for (long k = 0; k < n_frames; ++k) {
      const double* p = placements + 12 * k;
      const Eigen::Matrix3d rotation = Eigen::Map<const peer::Matrix3>(p);
      of.push_back(static_cast<pinocchio::JointIndex>(joints[k]));
      places.emplace_back(rotation, Eigen::Map<const peer::Vector3>(p + 9));
    }
    return std::make_unique<Tasks>(peer::read_robot(path), of, places).release();
  } catch (const std::exception&) {
    return nullptr;
  }
}

// States by rows: q (n, nq), v and posture (n, nv), acceleration (n, 6 n_frames). Where out is not
// null: per state J, Jdot v, Lambda, Jbar and torque, one after the other, matrices by rows.
PEER_API void tasks_run(void* handle, long n, long repeats, const double* q, const double* v,
                        const double* acceleration, const double* posture, double* out) {
  auto& tasks = *static_cast<Tasks*>(handle);
  const long nq = tasks.model.nq, nv = tasks.model.nv, m = tasks.rows;
  for (long r = 0; r < repeats; ++r)
    for (long k = 0; k < n; ++k) {
      tasks.control(Rows(q + k * nq, nq), Rows(v + k * nv, nv), Rows(acceleration + k * m, m),
                    Rows(posture + k * nv, nv));
      if (!out) continue;
      double* place = out + k * (2 * m * nv + m * m + m + nv);
      Place(place, m, nv) = tasks.J;
      Eigen::Map<Vector>(place += m * nv, m) = tasks.bias;
      Place(place += m, m, m) = tasks.Lambda;
      Place(place += m * m, nv, m) = tasks.Jbar;
      Eigen::Map<Vector>(place += m * nv, nv) = tasks.torque;
    }
}
}
