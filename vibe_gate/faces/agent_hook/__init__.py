"""Hooks of coding agents: capture keeps a session's events, guard refuses ways around the gate.

Both are scripts that run bare (`python -I -S .../capture.py`), a process at every tool
call: they import almost nothing, and whatever goes wrong they exit 0 in silence.
"""
