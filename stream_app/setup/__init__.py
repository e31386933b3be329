"""What a deployment is made of: settings, keys, sensors, schedules, recipients.

Modules are imported singly: settings alone are there in a quarter of the time that all take.
"""
