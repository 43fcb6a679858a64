"""A package with an extension module that needs a BLAS."""
