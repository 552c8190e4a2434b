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
static char *others, *others_end;
static void (*next)(void);

static char *page_of(const void *at)
{
    return (char *)((uintptr_t)at & ~(getauxval(AT_PAGESZ) - 1));
}

/* Of what answers for the kernel. */
static char *vdso_end(void)
{
    const char *at = (const char *)getauxval(AT_SYSINFO_EHDR);
    const ElfW(Ehdr) *head = (const void *)at;
    const char *end = at;
    for (int i = 0; at && i < head->e_phnum; i++) {
        const ElfW(Phdr) *part = (const ElfW(Phdr) *)(const void *)(at + head->e_phoff) + i;
        if (part->p_type == PT_LOAD && at + part->p_vaddr + part->p_memsz > end)
            end = at + part->p_vaddr + part->p_memsz;
    }
    return end > at ? page_of(end - 1) + getauxval(AT_PAGESZ) : NULL;
}

static void CAY_NORETURN moved(void)
{
    (void)munmap(others, (size_t)(others_end - others)); /* if not, it only costs */
    next();
    _exit(6);
}

void cay_stack_move(void (*go_on)(void))
{
    size_t page = getauxval(AT_PAGESZ);
    const char *last = (const char *)getauxval(AT_EXECFN); /* behind it is a word at most */
    others = page_of(_end) + page;
    others_end = page_of(last + strlen(last) + sizeof last) + page;
    if (vdso_end() > others_end)
        others_end = vdso_end();
    next = go_on;
    if (mprotect(page_of(stack) + page, page, PROT_NONE) < 0) /* whoever runs over it dies there */
        _exit(6);
    /* in registers that are not the frame's, which is cleared before the call */
    register char *top __asm__(TOP) = page_of(stack + sizeof stack);
    register void (*to)(void) __asm__(GO_ON) = moved;
    __asm__ volatile(CHANGE : : "r"(top), "r"(to) : "memory");
    __builtin_unreachable();
}
