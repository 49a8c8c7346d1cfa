# The kernel sources and their compiler flags, for setup.py and for csrc/Makefile.
# One NAME = value a line; $(NAME) refers to an earlier line.

# Compiled once per instruction set.
KERNEL_SOURCES = lda_estep.c shrink.c pg_mean.c blr_estep.c sbn_estep.c chacha20.c gaussian.c symmetric.c table.c
# Compiled once.
COMMON_SOURCES = dispatch.c gaussian_exact.c os_random.c

# -ffp-contract=off: a multiply-add is fused only where the source says so, so
# that error bounds hold as written. No -ffast-math, no -march=native.
FLAGS = -O3 -std=c11 -fPIC -fvisibility=hidden -ffp-contract=off -fno-math-errno -fno-trapping-math -Wall

# x86: each instruction set contains the one before. dispatch.c asks the processor for each of these.
BASELINE = -msse3 -mssse3 -msse4.1 -msse4.2 -mpopcnt
AVX2 = $(BASELINE) -mavx -mavx2 -mfma -mbmi -mbmi2
AVX512 = $(AVX2) -mavx512f -mavx512dq -mavx512bw -mavx512vl -mprefer-vector-width=512
X86_SETS = BASELINE AVX2 AVX512
