"""Pavings: partitions of the rows into blocks with a controlled spectrum (Needell and Tropp 2014)."""

from rowsolve.pavings.kinds import KINDS, blocks_of, incoherence_transform

__all__ = ["KINDS", "blocks_of", "incoherence_transform"]
