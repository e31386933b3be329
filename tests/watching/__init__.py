"""What people see: metrics, alerts, dashboards, the page and the report, in the programs that show them."""
