"""Small models of every kind in `transformers`, made from configurations, with random weights."""

from __future__ import annotations

from model_zoo import audio, decoders, mixture, multimodal, seq2seq, state_space, text, vision
from model_zoo.entry import Entry

_PARTS = (text, decoders, seq2seq, mixture, state_space, vision, audio, multimodal)

MODELS: dict[str, Entry] = {entry.name: entry for part in _PARTS for entry in part.ENTRIES}
FAMILIES = tuple(dict.fromkeys(entry.family for entry in MODELS.values()))
