"""Models of text together with images or sound."""

from __future__ import annotations

from typing import Any

import torch

from model_zoo.decoders import LLAMA, WITH_HEADS
from model_zoo.entry import BATCH, LENGTH, SIDE, Entry, Inputs, Settings, token_ids
from model_zoo.text import BERT
from model_zoo.vision import EFFICIENTNET, VIT

IMAGE_TOKEN = 99
PATCHES = (SIDE // 8) ** 2

CLIP_TEXT: Settings = {**BERT, "projection_dim": 16, "eos_token_id": 2}
CLIP_VISION: Settings = {**VIT, "projection_dim": 16}


def text_and_images(_: Any) -> Inputs:
    """Tokens with a mask, and images."""
    ids = token_ids()
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "pixel_values": torch.randn(BATCH, 3, SIDE, SIDE),
    }


def images_among_text(n_tokens: int) -> Any:
    """Tokens of which the first are places for an image's features."""

    def inputs(_: Any) -> Inputs:
        ids = torch.cat([torch.full((BATCH, n_tokens), IMAGE_TOKEN), token_ids()], dim=1)
        return {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            "pixel_values": torch.randn(BATCH, 3, SIDE, SIDE),
        }

    return inputs


def images_with_types(n_tokens: int) -> Any:
    """As `images_among_text`, with the kind of each token."""

    def inputs(config: Any) -> Inputs:
        made = images_among_text(n_tokens)(config)
        return {**made, "token_type_ids": (made["input_ids"] == IMAGE_TOKEN).long()}

    return inputs


def patches_of_qwen(_: Any) -> Inputs:
    """Tokens with the patches of two images, flattened, and their grids."""
    ids = torch.cat([torch.full((BATCH, 4), IMAGE_TOKEN), token_ids()], dim=1)
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "mm_token_type_ids": (ids == IMAGE_TOKEN).long(),
        "pixel_values": torch.randn(BATCH * 16, 3 * 2 * 8 * 8),
        "image_grid_thw": torch.tensor([[1, 4, 4]] * BATCH),
    }


def clip(**more: Any) -> Settings:
    """A text and a vision tower."""
    return {"text_config": CLIP_TEXT, "vision_config": CLIP_VISION, "projection_dim": 16, **more}


_CLIP_LIKE: dict[str, tuple[str, Settings]] = {
    "altclip": (
        "AltCLIPModel",
        clip(text_config={**CLIP_TEXT, "project_dim": 16}),
    ),
    "chinese_clip": ("ChineseCLIPModel", clip()),
    "clip": ("CLIPModel", clip()),
    "clipseg": (
        "CLIPSegForImageSegmentation",
        clip(extract_layers=[0, 1], reduce_dim=16, decoder_num_attention_heads=4),
    ),
    "blip": ("BlipModel", clip(text_config={**BERT, "encoder_hidden_size": 32, "projection_dim": 16})),
    "metaclip_2": ("MetaClip2Model", clip()),
    "siglip": ("SiglipModel", {"text_config": {**BERT, "projection_size": 32}, "vision_config": VIT}),
    "groupvit": (
        "GroupViTModel",
        clip(
            vision_config={
                **VIT,
                "depths": [1, 1, 1],
                "num_group_tokens": [8, 4, 0],
                "num_output_groups": [8, 4, 4],
            }
        ),
    ),
    "vilt": ("ViltModel", {**BERT, **VIT}),
    "flava": (
        "FlavaModel",
        {
            "text_config": BERT,
            "image_config": VIT,
            "multimodal_config": {k: v for k, v in BERT.items() if k != "vocab_size"},
            "projection_dim": 16,
            "hidden_size": 32,
        },
    ),
    "bridgetower": (
        "BridgeTowerModel",
        {
            "hidden_size": 32,
            "num_attention_heads": 4,
            "num_hidden_layers": 2,
            "text_config": BERT,
            "vision_config": {**VIT, "hidden_size": 64},
        },
    ),
    "align": (
        "AlignModel",
        {
            "text_config": BERT,
            "vision_config": {
                **EFFICIENTNET,
                "width_coefficient": 0.5,
                "out_channels": [16, 24, 64],
                "hidden_dim": 32,
            },
            "projection_dim": 32,
        },
    ),
}

_WITH_IMAGES: dict[str, tuple[str, Settings, int]] = {
    "aya_vision": (
        "AyaVisionForConditionalGeneration",
        {
            "text_config": {"model_type": "cohere2", **WITH_HEADS, "sliding_window": 4},
            "vision_config": {"model_type": "siglip_vision_model", **VIT},
            "image_token_index": IMAGE_TOKEN,
            "image_token_id": IMAGE_TOKEN,
            "downsample_factor": 2,
            "alignment_intermediate_size": 32,
            "vision_feature_layer": -1,
        },
        PATCHES // 4,
    ),
    "llava": (
        "LlavaForConditionalGeneration",
        {
            "text_config": {"model_type": "llama", **LLAMA},
            "vision_config": {"model_type": "clip_vision_model", **CLIP_VISION},
            "image_token_index": IMAGE_TOKEN,
            "image_token_id": IMAGE_TOKEN,
        },
        PATCHES,
    ),
    "vipllava": (
        "VipLlavaForConditionalGeneration",
        {
            "text_config": {"model_type": "llama", **LLAMA},
            "vision_config": {"model_type": "clip_vision_model", **CLIP_VISION},
            "image_token_index": IMAGE_TOKEN,
            "image_token_id": IMAGE_TOKEN,
            "vision_feature_layers": [0, 1, 1],
        },
        PATCHES,
    ),
    "paligemma": (
        "PaliGemmaForConditionalGeneration",
        {
            "text_config": {"model_type": "gemma", **WITH_HEADS},
            "vision_config": {"model_type": "siglip_vision_model", **VIT, "projection_dim": 32},
            "image_token_index": IMAGE_TOKEN,
            "image_token_id": IMAGE_TOKEN,
            "projection_dim": 32,
        },
        PATCHES,
    ),
    "gemma3_vision": (
        "Gemma3ForConditionalGeneration",
        {
            "text_config": {**WITH_HEADS, "sliding_window": 4},
            "vision_config": VIT,
            "image_token_id": IMAGE_TOKEN,
            "image_token_index": IMAGE_TOKEN,
            "mm_tokens_per_image": 4,
        },
        4,
    ),
    "internvl": (
        "InternVLForConditionalGeneration",
        {
            "text_config": {"model_type": "qwen2", **LLAMA},
            "vision_config": {**VIT, "image_size": [SIDE, SIDE], "patch_size": [8, 8]},
            "image_token_id": IMAGE_TOKEN,
        },
        PATCHES // 4,
    ),
}

_WITH_TYPES = {"paligemma", "gemma3_vision"}

ENTRIES = [
    *(
        Entry(name, "multimodal", class_name, settings, text_and_images)
        for name, (class_name, settings) in _CLIP_LIKE.items()
    ),
    *(
        Entry(
            name,
            "multimodal",
            class_name,
            settings,
            (images_with_types if name in _WITH_TYPES else images_among_text)(n_tokens),
            generates=True,
        )
        for name, (class_name, settings, n_tokens) in _WITH_IMAGES.items()
    ),
    Entry(
        "blip_caption",
        "multimodal",
        "BlipForConditionalGeneration",
        clip(text_config={**BERT, "encoder_hidden_size": 32, "projection_dim": 16, "is_decoder": True}),
        text_and_images,
    ),
    Entry(
        "blip_2",
        "multimodal",
        "Blip2ForConditionalGeneration",
        {
            "text_config": {
                "model_type": "opt",
                "vocab_size": 100,
                "hidden_size": 32,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "ffn_dim": 64,
                "word_embed_proj_dim": 32,
                "max_position_embeddings": 64,
            },
            "vision_config": VIT,
            "qformer_config": {**BERT, "encoder_hidden_size": 32},
            "num_query_tokens": 4,
            "image_token_index": IMAGE_TOKEN,
        },
        images_among_text(4),
        generates=True,
    ),
    Entry(
        "clap",
        "multimodal",
        "ClapModel",
        {
            "text_config": {**BERT, "projection_dim": 16},
            "audio_config": {
                "spec_size": 64,
                "num_mel_bins": 16,
                "window_size": 4,
                "patch_size": 4,
                "patch_stride": [4, 4],
                "patch_embeds_hidden_size": 16,
                "hidden_size": 32,
                "depths": [1, 1],
                "num_attention_heads": [2, 2],
                "projection_dim": 16,
                "num_classes": 10,
            },
            "projection_dim": 16,
        },
        lambda _: {
            "input_ids": token_ids(),
            "input_features": torch.randn(BATCH, 1, 64, 16),
            "is_longer": torch.zeros(BATCH, 1, dtype=torch.bool),
        },
    ),
    Entry(
        "git",
        "multimodal",
        "GitForCausalLM",
        {**BERT, "vision_config": CLIP_VISION, "bos_token_id": 1, "eos_token_id": 2},
        text_and_images,
        generates=True,
        static_cache=False,
    ),
    Entry("owlvit", "multimodal", "OwlViTForObjectDetection", clip(projection_dim=32), text_and_images),
    Entry("owlv2", "multimodal", "Owlv2ForObjectDetection", clip(projection_dim=32), text_and_images),
    Entry(
        "qwen2_vl",
        "multimodal",
        "Qwen2VLForConditionalGeneration",
        {
            "text_config": {**LLAMA, "rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 2]}},
            "vision_config": {
                "embed_dim": 32,
                "hidden_size": 32,
                "depth": 2,
                "num_heads": 4,
                "mlp_ratio": 2,
                "patch_size": 8,
                "spatial_merge_size": 2,
            },
            "image_token_id": IMAGE_TOKEN,
            "video_token_id": 98,
            "vision_start_token_id": 97,
            "vision_end_token_id": 96,
        },
        patches_of_qwen,
        generates=True,
    ),
    Entry(
        "trocr",
        "multimodal",
        "TrOCRForCausalLM",
        {
            "vocab_size": 100,
            "d_model": 32,
            "decoder_layers": 2,
            "decoder_attention_heads": 4,
            "decoder_ffn_dim": 64,
            "max_position_embeddings": 64,
        },
        lambda _: {"input_ids": token_ids()},
    ),
    Entry(
        "layoutlmv3",
        "multimodal",
        "LayoutLMv3ForTokenClassification",
        {**BERT, "input_size": SIDE, "patch_size": 8, "coordinate_size": 6, "shape_size": 4},
        lambda config: {
            **text_and_images(config),
            "bbox": torch.tensor([1, 2, 11, 12]).expand(BATCH, LENGTH, 4).contiguous(),
        },
    ),
]
