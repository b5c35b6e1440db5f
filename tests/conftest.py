"""Every test runs on one thread with the same random numbers, and keeps compiled code in a folder of the session."""

import os

import pytest
import torch

from segue import config


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The user's cache is not touched, nor what is in it used; nor by processes that tests start."""
    config.cache_dir = os.environ["SEGUE_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(autouse=True)
def deterministic() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
