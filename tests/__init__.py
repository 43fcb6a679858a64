"""Tests of blaswheel: real wheels, real linkers, real build tools."""
