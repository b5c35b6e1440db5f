"""Decoders with a mixture of experts."""

from __future__ import annotations

from model_zoo.decoders import LLAMA, WINDOWED, WITH_HEADS
from model_zoo.entry import Entry, Settings, tokens

EXPERTS: Settings = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
LOCAL: Settings = {"num_local_experts": 4, "num_experts_per_tok": 2}
DEEPSEEK: Settings = {
    **LLAMA,
    "num_key_value_heads": 4,
    "moe_intermediate_size": 16,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "first_k_dense_replace": 1,
    "kv_lora_rank": 16,
    "q_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "v_head_dim": 8,
    "n_group": 2,
    "topk_group": 1,
}

_MODELS: dict[str, tuple[str, Settings]] = {
    "afmoe": ("AfmoeForCausalLM", {**WINDOWED, **EXPERTS}),
    "dbrx": (
        "DbrxForCausalLM",
        {
            "vocab_size": 100,
            "d_model": 32,
            "n_heads": 4,
            "n_layers": 2,
            "max_seq_len": 64,
            "attn_config": {"kv_n_heads": 2, "clip_qkv": 8, "rope_theta": 10000.0},
            "ffn_config": {"ffn_hidden_size": 32, "moe_num_experts": 4, "moe_top_k": 2, "hidden_size": 32},
        },
    ),
    "deepseek_v2": ("DeepseekV2ForCausalLM", {**DEEPSEEK, "topk_method": "greedy"}),
    "deepseek_v3": ("DeepseekV3ForCausalLM", DEEPSEEK),
    "dots1": (
        "Dots1ForCausalLM",
        {**WITH_HEADS, **EXPERTS, "n_routed_experts": 4, "n_shared_experts": 1, "n_group": 1},
    ),
    "ernie4_5_moe": ("Ernie4_5_MoeForCausalLM", {**LLAMA, **EXPERTS, "moe_num_experts": 4, "moe_k": 2}),
    "flex_olmo": ("FlexOlmoForCausalLM", {**LLAMA, **EXPERTS}),
    "glm4_moe": (
        "Glm4MoeForCausalLM",
        {**WITH_HEADS, **EXPERTS, "n_routed_experts": 4, "n_shared_experts": 1, "first_k_dense_replace": 1},
    ),
    "gpt_oss": ("GptOssForCausalLM", {**WINDOWED, **LOCAL}),
    "granitemoe": ("GraniteMoeForCausalLM", {**LLAMA, **LOCAL}),
    "granitemoeshared": ("GraniteMoeSharedForCausalLM", {**LLAMA, **LOCAL, "shared_intermediate_size": 32}),
    "hunyuan_moe": ("HunYuanMoEV1ForCausalLM", {**WITH_HEADS, "num_experts": 4, "moe_topk": 2}),
    "jetmoe": (
        "JetMoeForCausalLM",
        {
            "vocab_size": 100,
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_key_value_heads": 2,
            "kv_channels": 8,
            "intermediate_size": 32,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "max_position_embeddings": 64,
        },
    ),
    "lfm2_moe": (
        "Lfm2MoeForCausalLM",
        {**LLAMA, **EXPERTS, "layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    ),
    "llama4": (
        "Llama4ForCausalLM",
        {
            **WITH_HEADS,
            **LOCAL,
            "intermediate_size_mlp": 64,
            "interleave_moe_layer_step": 1,
            "attention_chunk_size": 16,
        },
    ),
    "minimax": ("MiniMaxForCausalLM", {**WITH_HEADS, **LOCAL, "block_size": 4}),
    "mixtral": ("MixtralForCausalLM", {**LLAMA, **LOCAL}),
    "olmoe": ("OlmoeForCausalLM", {**LLAMA, **EXPERTS}),
    "phimoe": ("PhimoeForCausalLM", {**LLAMA, **LOCAL}),
    "qwen2_moe": ("Qwen2MoeForCausalLM", {**LLAMA, **EXPERTS, "shared_expert_intermediate_size": 32}),
    "qwen3_moe": ("Qwen3MoeForCausalLM", {**WITH_HEADS, **EXPERTS}),
}

ENTRIES = [
    Entry(name, "mixture", class_name, settings, tokens, generates=True)
    for name, (class_name, settings) in _MODELS.items()
]
