"""The version of the package."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("tenon")
except PackageNotFoundError:  # a build tree on the path
    __version__ = "0+unknown"
