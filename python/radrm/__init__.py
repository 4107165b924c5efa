# SPDX-License-Identifier: MIT
"""RAD-RM's Python side: only what PyTorch itself must be asked."""
