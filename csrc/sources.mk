# Which kernel sources are compiled once, and the compiler flags, for setup.py and for csrc/Makefile.
# Each line is NAME = value; $(NAME) refers to an earlier line.

# Compiled once. Every other file of a folder, and table.c, is compiled once for each instruction set.
COMMON_SOURCES = dispatch.c status.c noise/gaussian_exact.c noise/os_random.c text/cells.c text/tokens.c

# -ffp-contract=off: a multiply-add is fused only where the source says so, so
# that error bounds hold as written. No -ffast-math, no -march=native.
FLAGS = -O3 -std=c11 -fPIC -fvisibility=hidden -ffp-contract=off -fno-math-errno -fno-trapping-math -Wall

# x86: each instruction set contains the one before. dispatch.c asks the processor for each of these.
BASELINE = -msse3 -mssse3 -msse4.1 -msse4.2 -mpopcnt
AVX2 = $(BASELINE) -mavx -mavx2 -mfma -mbmi -mbmi2
AVX512 = $(AVX2) -mavx512f -mavx512dq -mavx512bw -mavx512vl -mprefer-vector-width=512
X86_SETS = BASELINE AVX2 AVX512
