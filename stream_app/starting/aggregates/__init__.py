"""Personas from aggregates as cities have them: tables, synthetic agents, surveys, flows and counts.

Modules are also imported singly: a command loads what it needs.
"""

# mypy: implicit-reexport
# ruff: noqa: F401

from stream_app.starting.aggregates.make_personas import MadePersonas, PersonaQuestions, make_personas
