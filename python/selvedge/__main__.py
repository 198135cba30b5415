"""``python -m selvedge`` is the program."""

import os
import sys

from ._program import program

if __name__ == "__main__":
    binary = str(program())
    os.execv(binary, [binary, *sys.argv[1:]])
