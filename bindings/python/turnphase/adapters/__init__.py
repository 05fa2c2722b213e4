# SPDX-License-Identifier: Apache-2.0
"""Hooks of a runtime around the tools of other frameworks: one module for each, which imports that framework."""
