"""Environment variables by which numerical libraries select their CPU instructions.

Other instructions change the last digits, so these variables must be equal in all functions of a run. The number of
threads is set for each function.
"""

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
