/* dlsym and dlvsym: ask C, then jump or return. See symbol_hook.h.
   The arguments survive the question on the stack; the jump leaves the caller's return address
   where the real function looks for it. */

#if defined(__x86_64__)

#if defined(__CET__)
#define LANDING endbr64
#else
#define LANDING
#endif

        .text
        .globl  dlsym
        .type   dlsym, @function
        .p2align 4
dlsym:
        .cfi_startproc
        LANDING
        subq    $24, %rsp
        .cfi_adjust_cfa_offset 24
        movq    %rdi, 8(%rsp)
        movq    %rsi, 16(%rsp)
        call    rollcall_dlsym_decide
        movq    8(%rsp), %rdi
        movq    16(%rsp), %rsi
        addq    $24, %rsp
        .cfi_adjust_cfa_offset -24
        testq   %rax, %rax
        je      1f
        jmp     *%rax
1:      movq    %rdx, %rax
        ret
        .cfi_endproc
        .size   dlsym, .-dlsym

        .globl  dlvsym
        .type   dlvsym, @function
        .p2align 4
dlvsym:
        .cfi_startproc
        LANDING
        subq    $24, %rsp
        .cfi_adjust_cfa_offset 24
        movq    %rdi, (%rsp)
        movq    %rsi, 8(%rsp)
        movq    %rdx, 16(%rsp)
        call    rollcall_dlvsym_decide
        movq    %rdx, %rcx
        movq    (%rsp), %rdi
        movq    8(%rsp), %rsi
        movq    16(%rsp), %rdx
        addq    $24, %rsp
        .cfi_adjust_cfa_offset -24
        testq   %rax, %rax
        je      1f
        jmp     *%rax
1:      movq    %rcx, %rax
        ret
        .cfi_endproc
        .size   dlvsym, .-dlvsym

#elif defined(__aarch64__)

        .text
        .globl  dlsym
        .type   dlsym, %function
        .p2align 4
dlsym:
        .cfi_startproc
        hint    34                      /* bti c */
        stp     x29, x30, [sp, #-32]!
        .cfi_adjust_cfa_offset 32
        .cfi_offset x29, -32
        .cfi_offset x30, -24
        mov     x29, sp
        stp     x0, x1, [sp, #16]
        bl      rollcall_dlsym_decide
        mov     x16, x0
        mov     x17, x1
        ldp     x0, x1, [sp, #16]
        ldp     x29, x30, [sp], #32
        .cfi_adjust_cfa_offset -32
        .cfi_restore x29
        .cfi_restore x30
        cbz     x16, 1f
        br      x16
1:      mov     x0, x17
        ret
        .cfi_endproc
        .size   dlsym, .-dlsym

        .globl  dlvsym
        .type   dlvsym, %function
        .p2align 4
dlvsym:
        .cfi_startproc
        hint    34
        stp     x29, x30, [sp, #-48]!
        .cfi_adjust_cfa_offset 48
        .cfi_offset x29, -48
        .cfi_offset x30, -40
        mov     x29, sp
        stp     x0, x1, [sp, #16]
        str     x2, [sp, #32]
        bl      rollcall_dlvsym_decide
        mov     x16, x0
        mov     x17, x1
        ldp     x0, x1, [sp, #16]
        ldr     x2, [sp, #32]
        ldp     x29, x30, [sp], #48
        .cfi_adjust_cfa_offset -48
        .cfi_restore x29
        .cfi_restore x30
        cbz     x16, 1f
        br      x16
1:      mov     x0, x17
        ret
        .cfi_endproc
        .size   dlvsym, .-dlvsym

#else
#error "symbol_hook.S: no code for this processor; add the same two functions for it"
#endif

        .section .note.GNU-stack, "", %progbits
