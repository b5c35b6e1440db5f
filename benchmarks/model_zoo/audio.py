"""Models of sound."""

from __future__ import annotations

from typing import Any

import torch

from model_zoo.entry import BATCH, TOWERS, VOCABULARY, Entry, Inputs, Settings, sound, token_ids

FRAMES, BINS = 32, 16

WAV2VEC2: Settings = {
    "vocab_size": 32,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "conv_dim": [16, 16, 16],
    "conv_kernel": [8, 3, 3],
    "conv_stride": [4, 4, 4],
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 2,
    "feat_extract_norm": "layer",
}
SPEECH: Settings = {
    **TOWERS,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}


def spectrogram(_: Any) -> Inputs:
    """Frames by bins, as `input_values`."""
    return {"input_values": torch.randn(BATCH, FRAMES, BINS)}


def speech_and_text(_: Any) -> Inputs:
    """Frames by bins for an encoder, tokens for a decoder."""
    return {"input_features": torch.randn(BATCH, FRAMES, BINS), "decoder_input_ids": token_ids(6)}


def whisper_inputs(_: Any) -> Inputs:
    """Bins by frames for an encoder, tokens for a decoder."""
    return {"input_features": torch.randn(BATCH, BINS, FRAMES), "decoder_input_ids": token_ids(6)}


def raw_speech_and_text(_: Any) -> Inputs:
    """Sound for an encoder, tokens for a decoder."""
    return {"input_values": torch.randn(BATCH, 6400), "decoder_input_ids": token_ids(6)}


def features(_: Any) -> Inputs:
    """Frames by bins, as `input_features`."""
    return {"input_features": torch.randn(BATCH, FRAMES, BINS)}


def one_channel(_: Any) -> Inputs:
    """Raw sound with a dimension for its channel."""
    return {"input_values": torch.randn(BATCH, 1, 1600)}


def phonemes(_: Any) -> Inputs:
    """Tokens to be spoken."""
    return {"input_ids": token_ids()}


_ENCODERS: dict[str, tuple[str, Settings]] = {
    "data2vec_audio": ("Data2VecAudioForCTC", {**WAV2VEC2, "num_conv_pos_embeddings": 2, "conv_pos_kernel_size": 5}),
    "hubert": ("HubertForCTC", WAV2VEC2),
    "sew": ("SEWForCTC", {**WAV2VEC2, "squeeze_factor": 2}),
    "sew_d": ("SEWDForCTC", {**WAV2VEC2, "squeeze_factor": 2, "position_buckets": 16, "max_position_embeddings": 64}),
    "unispeech": ("UniSpeechForCTC", WAV2VEC2),
    "unispeech_sat": ("UniSpeechSatForCTC", WAV2VEC2),
    "wav2vec2": ("Wav2Vec2ForCTC", WAV2VEC2),
    "wav2vec2_classifier": ("Wav2Vec2ForSequenceClassification", {**WAV2VEC2, "classifier_proj_size": 16}),
    "wav2vec2_conformer": ("Wav2Vec2ConformerForCTC", {**WAV2VEC2, "position_embeddings_type": "rotary"}),
    "wavlm": ("WavLMForCTC", {**WAV2VEC2, "num_buckets": 16, "max_bucket_distance": 32}),
}

ENTRIES = [
    *(Entry(name, "audio", class_name, settings, sound) for name, (class_name, settings) in _ENCODERS.items()),
    Entry(
        "audio_spectrogram",
        "audio",
        "ASTForAudioClassification",
        {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 64,
            "patch_size": 4,
            "max_length": FRAMES,
            "num_mel_bins": BINS,
            "frequency_stride": 4,
            "time_stride": 4,
        },
        spectrogram,
    ),
    Entry(
        "encodec",
        "audio",
        "EncodecModel",
        {
            "num_filters": 4,
            "hidden_size": 16,
            "codebook_size": 32,
            "codebook_dim": 16,
            "upsampling_ratios": [4, 2],
            "num_lstm_layers": 1,
        },
        one_channel,
    ),
    Entry(
        "dac",
        "audio",
        "DacModel",
        {
            "encoder_hidden_size": 4,
            "downsampling_ratios": [2, 4],
            "decoder_hidden_size": 16,
            "n_codebooks": 2,
            "codebook_size": 32,
            "codebook_dim": 4,
            "hidden_size": 16,
        },
        one_channel,
    ),
    Entry(
        "moonshine",
        "audio",
        "MoonshineForConditionalGeneration",
        {
            "vocab_size": VOCABULARY,
            "hidden_size": 32,
            "intermediate_size": 64,
            "encoder_num_hidden_layers": 2,
            "decoder_num_hidden_layers": 2,
            "encoder_num_attention_heads": 4,
            "decoder_num_attention_heads": 4,
        },
        raw_speech_and_text,
        generates=True,
    ),
    Entry(
        "speech_to_text",
        "audio",
        "Speech2TextForConditionalGeneration",
        {
            **SPEECH,
            "input_feat_per_channel": BINS,
            "input_channels": 1,
            "conv_channels": 16,
            "num_conv_layers": 2,
            "max_source_positions": 64,
            "max_target_positions": 64,
        },
        speech_and_text,
        generates=True,
    ),
    Entry(
        "vits",
        "audio",
        "VitsModel",
        {
            "vocab_size": VOCABULARY,
            "hidden_size": 16,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "ffn_dim": 32,
            "flow_size": 16,
            "spectrogram_bins": 9,
            "duration_predictor_num_flows": 2,
            "prior_encoder_num_flows": 2,
            "upsample_initial_channel": 16,
            "upsample_rates": [8, 2],
            "upsample_kernel_sizes": [16, 4],
            "resblock_kernel_sizes": [3],
            "resblock_dilation_sizes": [[1, 3]],
        },
        phonemes,
    ),
    Entry(
        "wav2vec2_bert",
        "audio",
        "Wav2Vec2BertForCTC",
        {
            "vocab_size": 32,
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 64,
            "feature_projection_input_dim": BINS,
        },
        features,
    ),
    Entry(
        "whisper",
        "audio",
        "WhisperForConditionalGeneration",
        {**SPEECH, "num_mel_bins": BINS, "max_source_positions": FRAMES // 2, "max_target_positions": 64},
        whisper_inputs,
        generates=True,
    ),
    Entry(
        "whisper_classifier",
        "audio",
        "WhisperForAudioClassification",
        {**SPEECH, "num_mel_bins": BINS, "max_source_positions": FRAMES // 2, "max_target_positions": 64},
        lambda _: {"input_features": torch.randn(BATCH, BINS, FRAMES)},
    ),
]
