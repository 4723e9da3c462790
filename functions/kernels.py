"""What numerical libraries choose their instructions by, beside the processor.

With other instructions the last digits differ, so that every function of a run has to find the same here. How many
threads there are is another matter: it is set for each function.
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
