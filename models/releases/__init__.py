"""What is released: sensors, schedules of mechanisms, and counts becoming values."""
