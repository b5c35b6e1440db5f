"""State-space and recurrent models, alone and mixed with attention."""

from __future__ import annotations

from model_zoo.decoders import LLAMA, WITH_HEADS
from model_zoo.entry import VOCABULARY, Entry, Settings, tokens, tokens_alone

MAMBA: Settings = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "state_size": 8,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
MAMBA2: Settings = {"mamba_d_state": 8, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_chunk_size": 4}

_MODELS: dict[str, tuple[str, Settings]] = {
    "bamba": (
        "BambaForCausalLM",
        {**LLAMA, **MAMBA2, "mamba_n_heads": 4, "mamba_n_groups": 1, "mamba_d_head": 16, "attn_layer_indices": [1]},
    ),
    "falcon_h1": (
        "FalconH1ForCausalLM",
        {**LLAMA, **MAMBA2, "mamba_n_heads": 4, "mamba_n_groups": 1, "mamba_d_head": 16, "mamba_d_ssm": 64},
    ),
    "falcon_mamba": ("FalconMambaForCausalLM", MAMBA),
    "granitemoehybrid": (
        "GraniteMoeHybridForCausalLM",
        {
            **LLAMA,
            **MAMBA2,
            "mamba_n_heads": 4,
            "mamba_n_groups": 1,
            "mamba_d_head": 16,
            "layer_types": ["mamba", "attention"],
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "shared_intermediate_size": 32,
        },
    ),
    "jamba": (
        "JambaForCausalLM",
        {
            **LLAMA,
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "expert_layer_period": 2,
            "expert_layer_offset": 1,
            "use_mamba_kernels": False,
            "mamba_d_state": 8,
            "mamba_dt_rank": 4,
        },
    ),
    "lfm2": ("Lfm2ForCausalLM", {**LLAMA, "layer_types": ["conv", "full_attention"]}),
    "mamba": ("MambaForCausalLM", MAMBA),
    "mamba2": ("Mamba2ForCausalLM", {**MAMBA, "num_heads": 8, "head_dim": 8, "n_groups": 1, "chunk_size": 4}),
    "nemotron_h": (
        "NemotronHForCausalLM",
        {
            **WITH_HEADS,
            "mamba_num_heads": 8,
            "mamba_head_dim": 8,
            "n_groups": 1,
            "ssm_state_size": 8,
            "chunk_size": 4,
            "layers_block_type": ["mamba", "attention"],
        },
    ),
    "qwen3_next": (
        "Qwen3NextForCausalLM",
        {
            **WITH_HEADS,
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 16,
            "shared_expert_intermediate_size": 16,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 8,
            "layer_types": ["linear_attention", "full_attention"],
        },
    ),
    "recurrent_gemma": (
        "RecurrentGemmaForCausalLM",
        {**LLAMA, "num_hidden_layers": 3, "lru_width": 32, "attention_window_size": 16},
    ),
    "rwkv": (
        "RwkvForCausalLM",
        {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "attention_hidden_size": 32},
    ),
    "xlstm": (
        "xLSTMForCausalLM",
        {"vocab_size": VOCABULARY, "hidden_size": 64, "num_hidden_layers": 2, "num_heads": 4, "qk_dim_factor": 1.0},
    ),
    "zamba": (
        "ZambaForCausalLM",
        {
            **LLAMA,
            "num_hidden_layers": 3,
            "num_key_value_heads": 4,
            "use_mamba_kernels": False,
            "mamba_d_state": 8,
            "mamba_dt_rank": 4,
            "n_mamba_heads": 2,
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "layers_block_type": ["mamba", "hybrid", "hybrid"],
        },
    ),
    "zamba2": (
        "Zamba2ForCausalLM",
        {
            **LLAMA,
            "num_hidden_layers": 3,
            "num_key_value_heads": 4,
            "mamba_d_state": 8,
            "n_mamba_heads": 8,
            "mamba_headdim": 8,
            "mamba_ngroups": 1,
            "chunk_size": 4,
            "adapter_rank": 4,
            "num_mem_blocks": 1,
            "use_mem_rope": False,
            "layers_block_type": ["mamba", "hybrid", "mamba"],
        },
    ),
}

_WITHOUT_MASK = {"rwkv", "xlstm"}
_WITHOUT_STATIC_CACHE = {"falcon_mamba", "mamba", "mamba2", "recurrent_gemma", "rwkv", "xlstm"}

ENTRIES = [
    Entry(
        name,
        "state_space",
        class_name,
        settings,
        tokens_alone if name in _WITHOUT_MASK else tokens,
        generates=True,
        static_cache=name not in _WITHOUT_STATIC_CACHE,
    )
    for name, (class_name, settings) in _MODELS.items()
]
