/* A loop at a fixed rate that calls exported kernels, and how long each call took.
 *
 *     loop STATES RESULT TICKS RATE CORE FIFO
 *
 * kernels.h, generated, lists them: KERNELS(X) expands X(function, nq, nv, number). STATES holds,
 * per kernel, N_STATES rows of q, qd and the third input. RESULT receives TICKS rows of the
 * lateness of the wake-up and the time of every kernel, in ns, then the checksums. stdout tells
 * the calls of malloc and the page faults within the loop.
 */
#define _GNU_SOURCE
#include <math.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include "kernels.h"

long malloc_calls(void);

#define COUNT(function, nq, nv, number) +1
enum { N_KERNELS = 0 KERNELS(COUNT), COLUMNS = 1 + N_KERNELS };
static double sums[N_KERNELS];

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void sleep_until(int64_t when) {
    struct timespec t = {when / 1000000000, when % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL)) {
    }
}

static void tick(double **states, long row, int64_t *spent) {
#define CALL(function, nq, nv, number)                                        \
    {                                                                         \
        const double *x = states[number] + (row % N_STATES) * (nq + 2 * nv);  \
        double out[nv];                                                       \
        const int64_t begin = now();                                          \
        function(x, x + nq, x + nq + nv, out);                                \
        spent[number] = now() - begin;                                        \
        sums[number] += out[nv - 1];                                          \
    }
    KERNELS(CALL)
}

int main(int argc, char **argv) {
    if (argc != 7) return 2;
    const long ticks = atol(argv[3]);
    const int64_t period = 1000000000 / atol(argv[4]);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(atoi(argv[5]), &one);
    const int pinned = !sched_setaffinity(0, sizeof one, &one);
    const struct sched_param priority = {.sched_priority = 50};
    const int fifo = atoi(argv[6]) && !sched_setscheduler(0, SCHED_FIFO, &priority);
    FILE *file = fopen(argv[1], "rb");
    if (!file) return 2;
    double *states[N_KERNELS];
#define READ(function, nq, nv, number)                                            \
    {                                                                             \
        const size_t size = (size_t)N_STATES * (nq + 2 * nv);                     \
        states[number] = malloc(size * sizeof(double));                           \
        if (fread(states[number], sizeof(double), size, file) != size) return 2;  \
    }
    KERNELS(READ)
    fclose(file);
    int64_t *result = calloc((size_t)ticks * COLUMNS, sizeof *result);
    const int locked = !mlockall(MCL_CURRENT | MCL_FUTURE);
    for (long k = 0; k < N_STATES; k++) tick(states, k, result + 1);

    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    const long calls = malloc_calls();
    const int64_t start = now() + period;
    for (long k = 0; k < ticks; k++) {
        const int64_t due = start + k * period;
        sleep_until(due);
        result[k * COLUMNS] = now() - due;
        tick(states, k, result + k * COLUMNS + 1);
    }
    const long allocated = malloc_calls() - calls;
    getrusage(RUSAGE_SELF, &after);

    file = fopen(argv[2], "wb");
    if (!file) return 2;
    fwrite(result, sizeof *result, (size_t)ticks * COLUMNS, file);
    fwrite(sums, sizeof(double), N_KERNELS, file);
    if (fclose(file)) return 2;
    printf("{\"malloc_calls\": %ld, \"page_faults\": %ld, \"preempted\": %ld, \"pinned\": %s, "
           "\"fifo\": %s, \"locked\": %s}\n",
           allocated, after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt,
           after.ru_nivcsw - before.ru_nivcsw, pinned ? "true" : "false", fifo ? "true" : "false",
           locked ? "true" : "false");
    return 0;
}
