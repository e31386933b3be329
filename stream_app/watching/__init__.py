"""What observers see of a running engine: events, metrics, words for numbers.

Modules are imported singly: the glossary is there at once, metrics take seconds.
"""
