"""Running: the normal form of bytecode, versions of code, gates and exits."""
