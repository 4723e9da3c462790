"""Environment variables that select the kernels of numerical libraries.

Other kernels change the last digits, so these variables must be equal in all functions of a run. The number of threads
is set for each function.
"""

# Of the CPU.
VARIABLES = (
    "GLIBC_TUNABLES",
    "MKL_CBWR",
    "MKL_DEBUG_CPU_TYPE",
    "MKL_ENABLE_INSTRUCTIONS",
    "NPY_DISABLE_CPU_FEATURES",
    "NPY_ENABLE_CPU_FEATURES",
    "OPENBLAS_CORETYPE",
    "OPENBLAS_L2_SIZE",
)

CUBLAS_WORKSPACE, CUBLAS_WORKSPACE_DEFAULT = "CUBLAS_WORKSPACE_CONFIG", ":4096:8"
"""cuBLAS repeats a product bit by bit only with a workspace of its own (docs of torch.use_deterministic_algorithms);
and the one that a run has unless its user sets another."""
