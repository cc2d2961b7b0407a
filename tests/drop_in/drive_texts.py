"""Calls text_operators.c inside of Python, whose functions the library of onnxruntime-extensions needs.

    drive_texts.py TEXT_OPERATORS LIBRARY MODELS OPERATORS NAME..."""
import ctypes
import sys

words = [word.encode() for word in sys.argv[1:]]
program = ctypes.CDLL(sys.argv[1])
sys.exit(program.main(len(words), (ctypes.c_char_p * len(words))(*words)))
