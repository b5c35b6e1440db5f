"""Encoders with decoders of text."""

from __future__ import annotations

from model_zoo.entry import TOWERS, VOCABULARY, Entry, Settings, two_texts

SPECIAL: Settings = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}
BART: Settings = {
    **SPECIAL,
    **TOWERS,
    "max_position_embeddings": 64,
    "forced_eos_token_id": None,
}
T5: Settings = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 2,
    "num_heads": 4,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "decoder_start_token_id": 0,
}

_MODELS: dict[str, tuple[str, Settings]] = {
    "bart": ("BartForConditionalGeneration", BART),
    "bigbird_pegasus": ("BigBirdPegasusForConditionalGeneration", {**BART, "attention_type": "original_full"}),
    "blenderbot": ("BlenderbotForConditionalGeneration", BART),
    "blenderbot_small": ("BlenderbotSmallForConditionalGeneration", BART),
    "fsmt": (
        "FSMTForConditionalGeneration",
        {**BART, "src_vocab_size": VOCABULARY, "tgt_vocab_size": VOCABULARY, "langs": ["ru", "en"]},
    ),
    "led": ("LEDForConditionalGeneration", {**BART, "attention_window": 4, "max_encoder_position_embeddings": 64}),
    "longt5": ("LongT5ForConditionalGeneration", {**T5, "local_radius": 3}),
    "m2m_100": ("M2M100ForConditionalGeneration", BART),
    "marian": ("MarianMTModel", BART),
    "mbart": ("MBartForConditionalGeneration", BART),
    "mt5": ("MT5ForConditionalGeneration", T5),
    "mvp": ("MvpForConditionalGeneration", BART),
    "nllb_moe": ("NllbMoeForConditionalGeneration", {**BART, "num_experts": 4, "encoder_sparse_step": 2}),
    "pegasus": ("PegasusForConditionalGeneration", BART),
    "pegasus_x": ("PegasusXForConditionalGeneration", {**BART, "num_global_tokens": 4, "block_size": 4}),
    "plbart": ("PLBartForConditionalGeneration", BART),
    "prophetnet": (
        "ProphetNetForConditionalGeneration",
        {
            **SPECIAL,
            "vocab_size": VOCABULARY,
            "hidden_size": 32,
            "num_encoder_layers": 2,
            "num_decoder_layers": 2,
            "num_encoder_attention_heads": 4,
            "num_decoder_attention_heads": 4,
            "encoder_ffn_dim": 64,
            "decoder_ffn_dim": 64,
            "max_position_embeddings": 64,
        },
    ),
    "switch_transformers": (
        "SwitchTransformersForConditionalGeneration",
        {
            **T5,
            "num_decoder_layers": 2,
            "num_experts": 4,
            "num_sparse_encoder_layers": 1,
            "num_sparse_decoder_layers": 1,
        },
    ),
    "t5": ("T5ForConditionalGeneration", T5),
    "umt5": ("UMT5ForConditionalGeneration", T5),
}

_DO_NOT_GENERATE = {"prophetnet"}
"""Its `generate` fails with every kind of cache."""

ENTRIES = [
    Entry(
        name,
        "seq2seq",
        class_name,
        settings,
        two_texts,
        generates=name not in _DO_NOT_GENERATE,
    )
    for name, (class_name, settings) in _MODELS.items()
]
