"""Programs as LLVM text and machine code: one state, and batches in vectors."""
