"""The version of pointglue, where modules of the package can import it: runs and caches note it."""

__all__ = ["__version__"]

__version__ = "0.1.0"
