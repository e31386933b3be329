"""What a deployment is made of: settings, keys, sensors, schedules, recipients."""
