/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel puts a stack at the far end of the address space, with page tables of its own: 12 KiB
 * of each sandbox's memory, and more to copy for each process that it starts. This one lies with
 * the data; the other is given back, and with it all else that lies beyond our data: the arguments
 * (/proc/1/cmdline is empty) and what answers for the kernel, which older kernels put behind them.
 */
#include "init/init.h"
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#define STACK_BYTES (256 << 10) /* what is never touched is no memory */

#if defined __x86_64__
#define CHANGE "mov %0, %%rsp; xor %%ebp, %%ebp; call *%1; hlt"
#define TOP "rax"
#define GO_ON "rdx"
#elif defined __aarch64__
#define CHANGE "mov sp, %0; mov x29, xzr; blr %1; brk 0"
#define TOP "x0"
#define GO_ON "x1"
#else
#error "how to change the stack of this processor?"
#endif

extern char _end[];                          /* of our data; by the linker */
static _Alignas(16) char stack[STACK_BYTES]; /* by the page it would push others onto theirs */
static char *others, *others_end, *behind;
static void (*next)(void);

static char *page_of(const void *at)
{
    return (char *)((uintptr_t)at & ~(getauxval(AT_PAGESZ) - 1));
}

/* Of what answers for the kernel: a whole file, whose table of sections is the last thing in it. It
 * is given back whole, or not at all. */
static char *vdso_end(void)
{
    const char *at = (const char *)getauxval(AT_SYSINFO_EHDR);
    const ElfW(Ehdr) *head = (const void *)at;
    if (!at)
        return NULL;
    return page_of(at + head->e_shoff + (size_t)head->e_shnum * head->e_shentsize - 1) +
           getauxval(AT_PAGESZ);
}

static void CAY_NORETURN moved(void)
{
    (void)munmap(others, (size_t)(others_end - others)); /* if not, it only costs */
    if (behind > others_end)
        (void)munmap(others_end, (size_t)(behind - others_end));
    next();
    _exit(6);
}

void cay_stack_move(void (*go_on)(void))
{
    size_t page = getauxval(AT_PAGESZ);
    const char *last = (const char *)getauxval(AT_EXECFN); /* behind it is a word at most */
    others = page_of(_end) + page;
    others_end = page_of(last + strlen(last) + sizeof last) + page;
    behind = vdso_end();
    next = go_on;
    if (mprotect(page_of(stack) + page, page, PROT_NONE) < 0) /* whoever runs over it dies there */
        _exit(6);
    /* in registers that are not the frame's, which is cleared before the call */
    register char *top __asm__(TOP) = page_of(stack + sizeof stack);
    register void (*to)(void) __asm__(GO_ON) = moved;
    __asm__ volatile(CHANGE : : "r"(top), "r"(to) : "memory");
    __builtin_unreachable();
}
