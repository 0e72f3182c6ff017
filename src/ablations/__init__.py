"""Reproducible ablation studies of small transformers."""
