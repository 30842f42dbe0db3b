"""Trained models for other software; each module needs the package that it is named after."""
