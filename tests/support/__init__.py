"""What of Python and PyTorch is captured: one small test per construct, and the page that is made of them.

PYTHONPATH=src python -m tests.support > docs/python-support.md
PYTHONPATH=src python -m tests.support --failing              # the rows that are not as they should be
PYTHONPATH=src python -m tests.support --only "generators"    # rows whose area or name has this text
PYTHONPATH=src python -m tests.support --torture              # forced breaks, and purity of capture
"""
