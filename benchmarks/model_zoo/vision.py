"""Models of images."""

from __future__ import annotations

from model_zoo.entry import SIDE, Entry, Settings, images

VIT: Settings = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": SIDE,
    "patch_size": 8,
}
SWIN: Settings = {
    "image_size": SIDE,
    "patch_size": 2,
    "embed_dim": 16,
    "depths": [1, 2],
    "num_heads": [2, 2],
    "window_size": 4,
}
CONVNEXT: Settings = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 2, 1], "image_size": SIDE}
BACKBONE: Settings = {"embedding_size": 8, "hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 2, 1]}
EFFICIENTNET: Settings = {
    "image_size": SIDE,
    "depth_coefficient": 0.3,
    "in_channels": [32, 16, 24],
    "kernel_sizes": [3, 3, 5],
    "strides": [1, 2, 2],
    "num_block_repeats": [1, 1, 2],
    "expand_ratios": [1, 6, 6],
    "depthwise_padding": [],
}

_MODELS: dict[str, tuple[str, Settings]] = {
    "beit": ("BeitForImageClassification", VIT),
    "bit": ("BitForImageClassification", {**BACKBONE, "num_groups": 1}),
    "convnext": ("ConvNextForImageClassification", CONVNEXT),
    "convnextv2": ("ConvNextV2ForImageClassification", CONVNEXT),
    "cvt": (
        "CvtForImageClassification",
        {"embed_dim": [16, 32, 48], "num_heads": [1, 2, 3], "depth": [1, 2, 3]},
    ),
    "data2vec_vision": ("Data2VecVisionForImageClassification", VIT),
    "deit": ("DeiTForImageClassification", VIT),
    "dinov2": ("Dinov2ForImageClassification", VIT),
    "dinov2_with_registers": ("Dinov2WithRegistersForImageClassification", VIT),
    "dinov3_convnext": ("DINOv3ConvNextModel", CONVNEXT),
    "dinov3_vit": ("DINOv3ViTModel", VIT),
    "donut_swin": ("DonutSwinForImageClassification", SWIN),
    "dpt": (
        "DPTForDepthEstimation",
        {
            **VIT,
            "is_hybrid": False,
            "num_hidden_layers": 4,
            "backbone_out_indices": [0, 1, 2, 3],
            "neck_hidden_sizes": [8, 8, 16, 16],
            "fusion_hidden_size": 16,
        },
    ),
    "efficientnet": (
        "EfficientNetForImageClassification",
        {**EFFICIENTNET, "width_coefficient": 0.25, "out_channels": [16, 24, 32], "hidden_dim": 320},
    ),
    "focalnet": (
        "FocalNetForImageClassification",
        {**{k: v for k, v in SWIN.items() if k not in ("num_heads", "window_size")}, "focal_levels": [2, 2]},
    ),
    "glpn": (
        "GLPNForDepthEstimation",
        {
            "hidden_sizes": [8, 16, 24, 32],
            "depths": [1, 1, 1, 1],
            "num_attention_heads": [1, 2, 2, 2],
            "decoder_hidden_size": 16,
        },
    ),
    "hgnet_v2": ("HGNetV2ForImageClassification", {}),
    "hiera": (
        "HieraForImageClassification",
        {
            "embed_dim": 8,
            "image_size": [64, 64],
            "patch_stride": [4, 4],
            "patch_size": [7, 7],
            "patch_padding": [3, 3],
            "masked_unit_size": [8, 8],
            "mlp_ratio": 2.0,
            "depths": [1, 1, 1, 1],
            "num_heads": [1, 1, 1, 1],
        },
    ),
    "ijepa": ("IJepaForImageClassification", VIT),
    "levit": (
        "LevitForImageClassification",
        {
            "image_size": 64,
            "hidden_sizes": [16, 32, 48],
            "num_attention_heads": [2, 3, 4],
            "depths": [1, 1, 1],
            "key_dim": [8, 8, 8],
        },
    ),
    "mobilenet_v1": ("MobileNetV1ForImageClassification", {"image_size": SIDE, "depth_multiplier": 0.25}),
    "mobilenet_v2": ("MobileNetV2ForImageClassification", {"image_size": SIDE, "depth_multiplier": 0.25}),
    "mobilevit": (
        "MobileViTForImageClassification",
        {
            "image_size": SIDE,
            "hidden_sizes": [16, 24, 32],
            "neck_hidden_sizes": [8, 8, 16, 16, 24, 32, 32],
            "num_attention_heads": 2,
        },
    ),
    "mobilevitv2": ("MobileViTV2ForImageClassification", {"image_size": 64, "width_multiplier": 0.25}),
    "poolformer": ("PoolFormerForImageClassification", {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 2, 1]}),
    "pvt": (
        "PvtForImageClassification",
        {
            "image_size": SIDE,
            "hidden_sizes": [8, 16, 24, 32],
            "depths": [1, 1, 1, 1],
            "num_attention_heads": [1, 2, 2, 2],
        },
    ),
    "pvt_v2": (
        "PvtV2ForImageClassification",
        {
            "image_size": SIDE,
            "hidden_sizes": [8, 16, 24, 32],
            "depths": [1, 1, 1, 1],
            "num_attention_heads": [1, 2, 2, 2],
        },
    ),
    "regnet": ("RegNetForImageClassification", {**BACKBONE, "groups_width": 4}),
    "resnet": ("ResNetForImageClassification", {**BACKBONE, "layer_type": "basic"}),
    "segformer": (
        "SegformerForSemanticSegmentation",
        {
            "hidden_sizes": [8, 16, 24, 32],
            "depths": [1, 1, 1, 1],
            "num_attention_heads": [1, 2, 2, 2],
            "decoder_hidden_size": 16,
        },
    ),
    "swiftformer": (
        "SwiftFormerForImageClassification",
        {"embed_dims": [16, 16, 32, 32], "depths": [1, 1, 1, 1], "image_size": SIDE},
    ),
    "swin": ("SwinForImageClassification", SWIN),
    "swin2sr": (
        "Swin2SRForImageSuperResolution",
        {**SWIN, "patch_size": 1, "image_size": 16, "embed_dim": 16, "window_size": 4, "upscale": 2},
    ),
    "swinv2": ("Swinv2ForImageClassification", SWIN),
    "vit": ("ViTForImageClassification", VIT),
    "vit_msn": ("ViTMSNForImageClassification", VIT),
    "vitdet": ("VitDetModel", VIT),
    "yolos": ("YolosForObjectDetection", {**VIT, "image_size": [SIDE, SIDE], "num_detection_tokens": 4}),
}

ENTRIES = [Entry(name, "vision", class_name, settings, images) for name, (class_name, settings) in _MODELS.items()]
