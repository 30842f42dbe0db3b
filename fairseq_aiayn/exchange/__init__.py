"""Trained models for other runtimes: CTranslate2, Hugging Face, ONNX; each needs its package."""
