/* Loop over states through a function that CasADi generated (its C calling convention).
 *
 * Rows: q (n, nq), v (n, nv), x (n, nv); answers `stride` numbers apart. Runs over the states
 * `repeats` times. */
#include <stddef.h>

typedef int (*casadi_function)(const double **arg, double **res, long long *iw, double *w, int mem);

void peer_casadi_run(void *address, long n, long repeats, long nq, long nv, long stride, const double *q,
                     const double *v, const double *x, double *out, const double **arg, double **res,
                     long long *iw, double *w)
{
    const casadi_function evaluate = (casadi_function)(size_t)address;
    for (long r = 0; r < repeats; ++r)
        for (long k = 0; k < n; ++k) {
            arg[0] = q + k * nq;
            arg[1] = v + k * nv;
            arg[2] = x + k * nv;
            res[0] = out + k * stride;
            evaluate(arg, res, iw, w, 0);
        }
}
