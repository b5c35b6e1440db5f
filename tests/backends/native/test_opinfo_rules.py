"""Rules against eager on samples of PyTorch's operator database; `python -m tests.backends.native.opinfo` runs all."""

from functools import partial

import pytest
import torch

from tests.backends.native.opinfo import Tally, check_all, interpreted

NAMES = """
abs add addcdiv addcmul all amax amin any arange argmax argmin atan2 bitwise_and bitwise_left_shift bitwise_xor cat
clamp clone constant_pad_nd copysign div eq exp flip floor_divide fmod gather heaviside index_put index_select lerp
log_softmax logaddexp logical_and logsumexp masked_fill max mean mul nan_to_num native_batch_norm
nn.functional.batch_norm nn.functional.binary_cross_entropy_with_logits nn.functional.cross_entropy
nn.functional.embedding nn.functional.gelu nn.functional.glu nn.functional.group_norm nn.functional.hardtanh
nn.functional.huber_loss nn.functional.layer_norm nn.functional.leaky_relu nn.functional.logsigmoid
nn.functional.mse_loss nn.functional.nll_loss nn.functional.pad nn.functional.softplus pow prod remainder repeat roll
round rsub sign slice_scatter softmax stack std sub sum tril var_mean where xlogy
""".split()


@pytest.mark.parametrize("name", NAMES)
def test_samples(name):
    tally = Tally()
    dtypes = (torch.float32, torch.bfloat16, torch.int64, torch.bool)
    check_all(partial(interpreted, tally=tally), tally, [name], dtypes, n_samples=2)
    assert tally.tried > 0
    assert tally.failures == []
