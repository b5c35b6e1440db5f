"""Encoders of text."""

from __future__ import annotations

from model_zoo.entry import VOCABULARY, Entry, Settings, tokens, tokens_alone

BERT: Settings = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "pad_token_id": 1,
}

_MODELS: dict[str, tuple[str, Settings]] = {
    "albert": ("AlbertForMaskedLM", {**BERT, "embedding_size": 16}),
    "bert": ("BertForMaskedLM", BERT),
    "bert_classifier": ("BertForSequenceClassification", BERT),
    "bert_questions": ("BertForQuestionAnswering", BERT),
    "big_bird": ("BigBirdForMaskedLM", {**BERT, "attention_type": "original_full"}),
    "camembert": ("CamembertForMaskedLM", BERT),
    "canine": ("CanineModel", {**BERT, "num_hash_functions": 2, "num_hash_buckets": 16, "local_transformer_stride": 4}),
    "convbert": ("ConvBertForMaskedLM", {**BERT, "embedding_size": 16, "head_ratio": 2, "conv_kernel_size": 3}),
    "data2vec_text": ("Data2VecTextForMaskedLM", BERT),
    "deberta": ("DebertaForMaskedLM", {**BERT, "relative_attention": True, "pos_att_type": "p2c|c2p"}),
    "deberta_v2": ("DebertaV2ForMaskedLM", {**BERT, "relative_attention": True, "pos_att_type": "p2c|c2p"}),
    "distilbert": (
        "DistilBertForMaskedLM",
        {"vocab_size": VOCABULARY, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64},
    ),
    "electra": ("ElectraForPreTraining", {**BERT, "embedding_size": 16}),
    "ernie": ("ErnieForMaskedLM", BERT),
    "esm": ("EsmForMaskedLM", {**BERT, "position_embedding_type": "rotary", "mask_token_id": 3}),
    "eurobert": ("EuroBertForMaskedLM", BERT),
    "fnet": ("FNetForMaskedLM", {k: v for k, v in BERT.items() if k != "num_attention_heads"}),
    "funnel": (
        "FunnelForMaskedLM",
        {"vocab_size": VOCABULARY, "block_sizes": [1, 1], "d_model": 32, "n_head": 4, "d_head": 8, "d_inner": 64},
    ),
    "ibert": ("IBertForMaskedLM", BERT),
    "layoutlm": ("LayoutLMForMaskedLM", BERT),
    "longformer": ("LongformerForMaskedLM", {**BERT, "attention_window": 4}),
    "luke": ("LukeModel", {**BERT, "entity_vocab_size": 10, "entity_emb_size": 16}),
    "megatron_bert": ("MegatronBertForMaskedLM", BERT),
    "mobilebert": (
        "MobileBertForMaskedLM",
        {**BERT, "embedding_size": 16, "intra_bottleneck_size": 16, "true_hidden_size": 16},
    ),
    "modernbert": ("ModernBertForMaskedLM", {**BERT, "global_attn_every_n_layers": 2, "local_attention": 4}),
    "mpnet": ("MPNetForMaskedLM", BERT),
    "mra": ("MraForMaskedLM", BERT),
    "nomic_bert": ("NomicBertForMaskedLM", BERT),
    "nystromformer": ("NystromformerForMaskedLM", {**BERT, "num_landmarks": 8, "segment_means_seq_len": 8}),
    "rembert": ("RemBertForMaskedLM", {**BERT, "input_embedding_size": 16, "output_embedding_size": 16}),
    "roberta": ("RobertaForMaskedLM", BERT),
    "roc_bert": ("RoCBertForMaskedLM", BERT),
    "roformer": ("RoFormerForMaskedLM", {**BERT, "embedding_size": 32}),
    "splinter": ("SplinterForQuestionAnswering", BERT),
    "squeezebert": ("SqueezeBertForMaskedLM", {**BERT, "embedding_size": 32}),
    "xlm_roberta": ("XLMRobertaForMaskedLM", BERT),
    "xlm": ("XLMModel", {"vocab_size": VOCABULARY, "emb_dim": 32, "n_layers": 2, "n_heads": 4}),
    "xlnet": ("XLNetLMHeadModel", {"vocab_size": VOCABULARY, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64}),
    "yoso": ("YosoForMaskedLM", {**BERT, "hash_code_len": 4, "num_hash": 4}),
}

_WITHOUT_MASK = {"fnet"}

ENTRIES = [
    Entry(name, "text", class_name, settings, tokens_alone if name in _WITHOUT_MASK else tokens)
    for name, (class_name, settings) in _MODELS.items()
]
