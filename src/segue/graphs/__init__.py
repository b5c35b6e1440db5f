"""From a captured FX graph to plain data about ATen operations on strided memory."""
