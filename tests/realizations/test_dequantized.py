"""Numbers of quantised tensors, exactly: against integers taken out of the bytes one by one."""

from __future__ import annotations

import warnings
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import suffice as sf


def as_torchao(rows: int, columns: int, block: tuple[int, int], seed: int = 1) -> SimpleNamespace:
    g = torch.Generator().manual_seed(seed)
    shape = (rows // block[0], columns // block[1])
    return SimpleNamespace(
        qdata=torch.randint(-128, 128, (rows, columns), generator=g, dtype=torch.int8),
        scale=torch.rand(shape, generator=g),
        zero_point=torch.randint(-9, 9, shape, generator=g, dtype=torch.int8),
        block_size=block,
    )


@pytest.mark.parametrize("block", [(1, 8), (1, 4), (2, 4), (6, 8)])
def test_torchao_words_and_scales(block: tuple[int, int]) -> None:
    made = as_torchao(6, 8, block)
    found = sf.dequantized(made)
    for i in range(6):
        for j in range(8):
            at = (i // block[0], j // block[1])
            exact = (int(made.qdata[i, j]) - int(made.zero_point[at])) * Fraction(made.scale[at].item())
            assert Fraction(found[i, j].item()) == exact
    made.zero_point = None
    assert torch.equal(sf.dequantized(made)[0, 0], made.qdata[0, 0].double() * made.scale[0, 0].double())


def test_torchao_itself() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torchao = pytest.importorskip("torchao.quantization")
    weight = torch.randn(8, 64, generator=torch.Generator().manual_seed(2))
    made = torchao.IntxUnpackedToInt8Tensor.from_hp(weight, (1, 32), torch.int4)
    found = sf.dequantized(made)
    assert torch.allclose(found.float(), made.dequantize())
    screen = sf.Quantized(sf.LinearHead(weight), found)
    hidden = torch.randn(4, 64, generator=torch.Generator().manual_seed(3))
    assert torch.equal(screen.argmax(hidden).index, (hidden.double() @ weight.double().T).argmax(dim=1))


def test_torchao_that_is_not_weights_alone() -> None:
    made = as_torchao(4, 8, (1, 8))
    made.zero_point = made.zero_point.float() + 0.5
    with pytest.raises(ValueError, match="Expected zero points to be integers"):
        sf.dequantized(made)
    made = as_torchao(4, 8, (1, 8))
    made.act_pre_scale = torch.ones(1)
    with pytest.raises(ValueError, match="act_pre_scale"):
        sf.dequantized(made)
    made = as_torchao(4, 8, (1, 8))
    made.block_size = (1, 5)
    with pytest.raises(ValueError, match="Expected int8 words in whole blocks"):
        sf.dequantized(made)


def gguf_tensor(name: str, rows: int, size: int, seed: int = 1) -> Any:
    """Random bytes, with scales that are finite and of several sizes."""
    gguf = pytest.importorskip("gguf")
    g = np.random.default_rng(seed)
    data = g.integers(0, 256, (rows, size), dtype=np.uint8)
    width, places = {"Q8_0": (34, (0,)), "Q4_K": (144, (0, 2)), "Q6_K": (210, (208,))}[name]
    blocks = data.reshape(-1, width)
    for place in places:
        scales = (g.standard_normal(len(blocks)) * 10.0 ** g.integers(-6, 3, len(blocks))).astype(np.float16)
        blocks[:, place : place + 2] = scales[:, None].view(np.uint8)
    return SimpleNamespace(tensor_type=gguf.GGMLQuantizationType[name], data=blocks.reshape(rows, size))


def half(block: Any, at: int) -> Fraction:
    return Fraction(float(np.frombuffer(bytes(block[at : at + 2].tolist()), dtype="<f2")[0]))


def exact_block(name: str, block: Any) -> list[Fraction]:
    """One block's numbers, from the description of the format."""
    b = [int(x) for x in block]
    if name == "Q8_0":
        return [half(block, 0) * (x - 256 if x > 127 else x) for x in b[2:]]
    if name == "Q4_K":
        packed, words, out = b[4:16], b[16:], []
        for j in range(8):
            if j < 4:
                scale, least = packed[j] & 63, packed[j + 4] & 63
            else:
                scale = (packed[j + 4] & 15) | ((packed[j - 4] >> 6) << 4)
                least = (packed[j + 4] >> 4) | ((packed[j] >> 6) << 4)
            for i in range(32):
                word = (words[32 * (j // 2) + i] >> (4 * (j % 2))) & 15
                out.append(half(block, 0) * scale * word - half(block, 2) * least)
        return out
    low, high, scales, out = b[:128], b[128:192], b[192:208], []
    for i in range(256):
        part, rest = divmod(i, 128)
        quarter, column = divmod(rest, 32)
        nibble = low[64 * part + 32 * (quarter % 2) + column] >> (4 * (quarter // 2)) & 15
        word = (nibble | ((high[32 * part + column] >> (2 * quarter) & 3) << 4)) - 32
        scale = scales[i // 16]
        out.append(half(block, 208) * (scale - 256 if scale > 127 else scale) * word)
    return out


@pytest.mark.parametrize(("name", "size"), [("Q8_0", 68), ("Q4_K", 288), ("Q6_K", 420)])
def test_gguf_numbers_are_exact(name: str, size: int) -> None:
    tensor = gguf_tensor(name, 3, size)
    found = sf.dequantized(tensor)
    width = {"Q8_0": 34, "Q4_K": 144, "Q6_K": 210}[name]
    for row, values in zip(tensor.data, found.tolist(), strict=True):
        exact = [x for block in row.reshape(-1, width) for x in exact_block(name, block)]
        assert [Fraction(x) for x in values] == exact
    assert found.dtype == (torch.float32 if name == "Q8_0" else torch.float64)


def test_what_is_not_known_is_refused() -> None:
    gguf = pytest.importorskip("gguf")
    with pytest.raises(TypeError, match="Expected a torchao tensor"):
        sf.dequantized(torch.ones(2, 2))
    other = SimpleNamespace(tensor_type=gguf.GGMLQuantizationType.Q2_K, data=np.zeros((1, 84), dtype=np.uint8))
    with pytest.raises(ValueError, match="Expected a tensor in F32, F16, Q8_0, Q4_K or Q6_K, but got Q2_K"):
        sf.dequantized(other)
    plain = SimpleNamespace(tensor_type=gguf.GGMLQuantizationType.F16, data=np.ones((2, 3), dtype=np.float16))
    assert sf.dequantized(plain).dtype == torch.float16
