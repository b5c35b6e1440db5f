"""Every test runs on one thread with the same random numbers."""

import pytest
import torch


@pytest.fixture(autouse=True)
def deterministic() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
