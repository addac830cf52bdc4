/* Counts every call of malloc, calloc, realloc and free's counterparts in a process.
 *
 * Preloaded (LD_PRELOAD) or linked in: the definitions here stand in front of the C library's.
 */
#include <stddef.h>
#include <stdatomic.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static atomic_long calls;

long malloc_calls(void) { return atomic_load(&calls); }

void *malloc(size_t size) {
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size) {
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    return __libc_realloc(old, size);
}

int posix_memalign(void **place, size_t alignment, size_t size) {
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    *place = __libc_memalign(alignment, size);
    return *place ? 0 : 12;
}

void *aligned_alloc(size_t alignment, size_t size) {
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    return __libc_memalign(alignment, size);
}
