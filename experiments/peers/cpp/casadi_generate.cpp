// Writes C for one robot: Pinocchio's algorithms run on CasADi's symbols, CasADi prints the result.
//
// Usage: casadi_generate robot-file folder      writes folder/{rnea,aba,crba,minverse}.c
// Arguments of every function: q, v, x. Symmetric results hold the upper triangle, by rows.
#include "pinocchio_limits.hpp"

#include <pinocchio/autodiff/casadi.hpp>
#include <pinocchio/multibody.hpp>
#include <pinocchio/algorithm/aba.hpp>
#include <pinocchio/algorithm/crba.hpp>
#include <pinocchio/algorithm/rnea.hpp>

#include <cstdio>
#include <filesystem>

#include "robot_file.hpp"

namespace {

using casadi::SX;
using Symbols = Eigen::Matrix<SX, Eigen::Dynamic, 1>;
using pinocchio::Convention;

Symbols entries(const SX& column) {
  Symbols out(column.size1());
  for (Eigen::Index i = 0; i < out.size(); ++i) out(i) = column(i);
  return out;
}

SX column(const Symbols& vector) {
  SX out(vector.size(), 1);
  for (Eigen::Index i = 0; i < vector.size(); ++i) out(i) = vector(i);
  return SX::densify(out);
}

template <class Matrix>
SX upper_triangle(const Matrix& m) {
  SX out(m.rows() * (m.rows() + 1) / 2, 1);
  casadi_int k = 0;
  for (Eigen::Index i = 0; i < m.rows(); ++i)
    for (Eigen::Index j = i; j < m.cols(); ++j) out(k++) = m(i, j);
  return SX::densify(out);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const auto model = peer::read_robot(argv[1]).cast<SX>();
  pinocchio::DataTpl<SX> data(model);
  const SX q = SX::sym("q", model.nq), v = SX::sym("v", model.nv), x = SX::sym("x", model.nv);
  const Symbols qs = entries(q), vs = entries(v), xs = entries(x);

  std::filesystem::current_path(argv[2]);  // CasADi writes into the working directory only
  const auto write = [&](const char* name, const SX& out) {
    const casadi::Function f(name, {q, v, x}, {out}, casadi::Dict{{"cse", true}});
    f.generate(std::string(name) + ".c", casadi::Dict{{"with_header", false}});
    std::printf("%s %lld instructions\n", name, static_cast<long long>(f.n_instructions()));
    std::fflush(stdout);
  };
  write("rnea", column(pinocchio::rnea(model, data, qs, vs, xs)));
  write("aba", column(pinocchio::aba(model, data, qs, vs, xs, Convention::LOCAL)));
  write("crba", upper_triangle(pinocchio::crba(model, data, qs, Convention::LOCAL)));
  write("minverse", upper_triangle(pinocchio::computeMinverse(model, data, qs)));
}
