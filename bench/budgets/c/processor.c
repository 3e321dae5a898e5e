/*
 * The processor's number, as glibc keeps it for each thread where the kernel has rseq(2). Valgrind has not, so without this library a program
 * under it takes paths that it takes nowhere else. `cargo xtask budgets` preloads it.
 */
#include <stddef.h>
#include <stdint.h>

/* struct rseq: the second word is the number. */
static __thread uint32_t area[8] __attribute__((tls_model("initial-exec")));

/* As glibc defines them; the first library in the order of search wins. */
extern const unsigned int __rseq_size;
extern ptrdiff_t __rseq_offset;
const unsigned int __rseq_size = sizeof area;
ptrdiff_t __rseq_offset;

__attribute__((constructor)) static void find_area(void)
{
#ifdef __x86_64__
    char *thread;
    __asm__("movq %%fs:0, %0" : "=r"(thread));
    __rseq_offset = (char *)area - thread;
#endif
}
