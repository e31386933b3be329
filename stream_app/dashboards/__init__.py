"""What is generated from the code for those who watch: Grafana's dashboards and the table of metrics.

Modules are imported singly, as the programs they are.
"""
