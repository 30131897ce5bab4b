"""What a network may compute in, by the names that users write; known without torch, for help."""

DTYPES = ("float64", "float32", "bfloat16", "float16")
DTYPE_NAMES = f"{', '.join(DTYPES[:-1])} or {DTYPES[-1]}"
