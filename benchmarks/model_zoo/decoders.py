"""Decoders of text: what generates one token after another."""

from __future__ import annotations

from model_zoo.entry import VOCABULARY, Entry, Settings, tokens

LLAMA: Settings = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
WITH_HEADS: Settings = {**LLAMA, "head_dim": 8}
WINDOWED: Settings = {**WITH_HEADS, "sliding_window": 4}
MULTI_HEAD: Settings = {k: v for k, v in LLAMA.items() if k != "num_key_value_heads"}
GPT2: Settings = {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
SPECIAL: Settings = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}

_MODELS: dict[str, tuple[str, Settings]] = {
    "apertus": ("ApertusForCausalLM", LLAMA),
    "arcee": ("ArceeForCausalLM", LLAMA),
    "bart_decoder": (
        "BartForCausalLM",
        {**SPECIAL, "vocab_size": VOCABULARY, "d_model": 32, "decoder_layers": 2, "decoder_attention_heads": 4},
    ),
    "biogpt": ("BioGptForCausalLM", {**MULTI_HEAD}),
    "bitnet": ("BitNetForCausalLM", LLAMA),
    "bloom": ("BloomForCausalLM", {**SPECIAL, "vocab_size": VOCABULARY, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
    "codegen": ("CodeGenForCausalLM", {**GPT2, **SPECIAL, "rotary_dim": 4}),
    "cohere": ("CohereForCausalLM", LLAMA),
    "cohere2": ("Cohere2ForCausalLM", WINDOWED),
    "ctrl": ("CTRLLMHeadModel", {**GPT2, "dff": 64}),
    "diffllama": ("DiffLlamaForCausalLM", LLAMA),
    "ernie4_5": ("Ernie4_5ForCausalLM", LLAMA),
    "exaone4": ("Exaone4ForCausalLM", WINDOWED),
    "falcon": ("FalconForCausalLM", {**MULTI_HEAD, "new_decoder_architecture": False}),
    "gemma": ("GemmaForCausalLM", WITH_HEADS),
    "gemma2": ("Gemma2ForCausalLM", {**WINDOWED, "query_pre_attn_scalar": 8}),
    "gemma3": ("Gemma3ForCausalLM", {**WINDOWED, "query_pre_attn_scalar": 8}),
    "glm": ("GlmForCausalLM", WITH_HEADS),
    "glm4": ("Glm4ForCausalLM", WITH_HEADS),
    "gpt2": ("GPT2LMHeadModel", {**GPT2, **SPECIAL}),
    "gpt_bigcode": ("GPTBigCodeForCausalLM", {**GPT2, **SPECIAL}),
    "gpt_neo": (
        "GPTNeoForCausalLM",
        {
            **SPECIAL,
            "vocab_size": VOCABULARY,
            "hidden_size": 32,
            "num_layers": 2,
            "num_heads": 4,
            "attention_types": [[["global", "local"], 1]],
            "window_size": 4,
            "max_position_embeddings": 64,
        },
    ),
    "gpt_neox": ("GPTNeoXForCausalLM", MULTI_HEAD),
    "gptj": ("GPTJForCausalLM", {**GPT2, **SPECIAL, "rotary_dim": 4}),
    "granite": ("GraniteForCausalLM", LLAMA),
    "helium": ("HeliumForCausalLM", WITH_HEADS),
    "hunyuan_dense": ("HunYuanDenseV1ForCausalLM", WITH_HEADS),
    "llama": ("LlamaForCausalLM", LLAMA),
    "llama_classifier": ("LlamaForSequenceClassification", LLAMA),
    "ministral": ("MinistralForCausalLM", WINDOWED),
    "mistral": ("MistralForCausalLM", WINDOWED),
    "modernbert_decoder": ("ModernBertDecoderForCausalLM", {**MULTI_HEAD, "local_attention": 4}),
    "mpt": (
        "MptForCausalLM",
        {"vocab_size": VOCABULARY, "d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 64},
    ),
    "nanochat": ("NanoChatForCausalLM", LLAMA),
    "nemotron": ("NemotronForCausalLM", LLAMA),
    "olmo": ("OlmoForCausalLM", LLAMA),
    "olmo2": ("Olmo2ForCausalLM", LLAMA),
    "olmo3": ("Olmo3ForCausalLM", {**LLAMA, "sliding_window": 4}),
    "openai_gpt": ("OpenAIGPTLMHeadModel", GPT2),
    "opt": (
        "OPTForCausalLM",
        {
            **SPECIAL,
            "vocab_size": VOCABULARY,
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "ffn_dim": 64,
            "word_embed_proj_dim": 32,
            "max_position_embeddings": 64,
        },
    ),
    "persimmon": ("PersimmonForCausalLM", MULTI_HEAD),
    "phi": ("PhiForCausalLM", LLAMA),
    "phi3": ("Phi3ForCausalLM", LLAMA),
    "qwen2": ("Qwen2ForCausalLM", LLAMA),
    "qwen3": ("Qwen3ForCausalLM", WITH_HEADS),
    "seed_oss": ("SeedOssForCausalLM", WITH_HEADS),
    "smollm3": ("SmolLM3ForCausalLM", LLAMA),
    "stablelm": ("StableLmForCausalLM", LLAMA),
    "starcoder2": ("Starcoder2ForCausalLM", LLAMA),
    "vaultgemma": ("VaultGemmaForCausalLM", {**WINDOWED, "query_pre_attn_scalar": 8}),
    "xglm": (
        "XGLMForCausalLM",
        {**SPECIAL, "vocab_size": VOCABULARY, "d_model": 32, "num_layers": 2, "attention_heads": 4, "ffn_dim": 64},
    ),
}

_DO_NOT_GENERATE = {"llama_classifier"}

ENTRIES = [
    Entry(name, "decoder", class_name, settings, tokens, generates=name not in _DO_NOT_GENERATE)
    for name, (class_name, settings) in _MODELS.items()
]
